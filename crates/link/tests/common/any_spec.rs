//! What must hold of any text as a link's specification: used by a test over the kept corpus and by the fuzz target.

use corelane_link::LinkSpec;

/// Reads `text`; what is taken is written as text that names the same link.
pub fn holds(text: &str) {
    let Ok(spec) = text.parse::<LinkSpec>() else {
        return;
    };
    let written = spec.to_string();
    assert_eq!(
        written.parse::<LinkSpec>(),
        Ok(spec),
        "{text:?} written as {written:?}"
    );
}
