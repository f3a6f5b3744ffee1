//! Properties of the parser for arbitrary text as a link's specification: used by a test over the kept corpus and by
//! the fuzz target.

use corelane_link::LinkSpec;

/// Parses `text` without a panic; an accepted specification has a name or a file.
pub fn holds(text: &str) {
    if let Ok(spec) = text.parse::<LinkSpec>() {
        let named = !spec.name.is_empty() || spec.read.is_some() || spec.write.is_some();
        assert!(named, "{text:?} is {spec:?}");
    }
}
