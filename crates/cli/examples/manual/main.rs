//! Writes what packages have beside the program, made from its command line: manual pages, and completions of bash, zsh
//! and fish.
//!
//! `manual FOLDER` writes them where they belong below a prefix such as /usr.

#![forbid(unsafe_code)]

mod completion;
mod page;

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("name the folder to write to"))?;
    let pages = page::pages().into_iter();
    let pages = pages.map(|(name, text)| (format!("share/man/man1/{name}"), text));
    let scripts = completion::scripts().map(|(file, text)| (file.to_owned(), text));
    for (file, text) in pages.chain(scripts) {
        write(&folder.join(file), &text)?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(file.parent().expect("a file below the folder"))?;
    fs::write(file, text)
}
