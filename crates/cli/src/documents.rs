//! Documents that commands write: whole or not at all, with the command line that repeats them.

use std::fs;
use std::io;
use std::path::Path;

/// The command line as it was typed, the program by its plain name.
pub fn command_line() -> Vec<String> {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("corelane".to_owned()).chain(arguments).collect()
}

/// Writes beside the file and renames, so that a reader never sees half a document.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}
