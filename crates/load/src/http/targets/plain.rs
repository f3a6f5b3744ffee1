//! The plain format of vegeta: `METHOD URL`, then lines `Name: value`, then `@FILE` with the body; empty lines between
//! targets, and comments from `#` to the end of a line that begins with it.

use super::target::{Body, Target, TargetError};

pub(super) fn read(text: &str) -> Result<Vec<Target>, TargetError> {
    let mut targets: Vec<Target> = Vec::new();
    // Whether the lines that follow belong to the last target.
    let mut open = false;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        let wrong = |reason: &str| TargetError::new(number, format!("'{line}': {reason}"));
        if line.is_empty() {
            open = false;
        } else if let Some(path) = line.strip_prefix('@') {
            let target = targets.last_mut().filter(|_| open);
            let target = target.ok_or_else(|| wrong("a body follows the line METHOD URL"))?;
            (target.body, open) = (Body::File(path.into()), false);
        } else if let Some((method, url)) = start(line) {
            targets.push(Target {
                line: number,
                method: method.to_owned(),
                url: url.to_owned(),
                ..Target::default()
            });
            open = true;
        } else {
            let target = targets.last_mut().filter(|_| open);
            let target =
                target.ok_or_else(|| wrong("write METHOD URL, such as GET http://127.0.0.1:8080/"))?;
            let field = line
                .split_once(':')
                .ok_or_else(|| wrong("write a field as 'Name: value'"))?;
            let field = (field.0.trim_end().to_owned(), field.1.trim().to_owned());
            target.headers.push(field);
        }
    }
    Ok(targets)
}

/// `METHOD URL`: capital letters, and a path or a URL.
fn start(line: &str) -> Option<(&str, &str)> {
    let (method, url) = line.split_once([' ', '\t'])?;
    let is_method = !method.is_empty()
        && method
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    is_method.then_some((method, url.trim()))
}
