//! The file of flags of Debian's package of memcached, /etc/memcached.conf, read as its start script does.

use crate::outcome::usage;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The flag that names the file.
const FLAG: &str = "--memcached-conf";

/// The words of a command line, with those of the file in place of the flag that names it: flags that follow win. Only
/// `serve memcached` has the flag.
///
/// # Errors
/// A usage error if the file cannot be read.
pub fn expanded(words: impl Iterator<Item = OsString>) -> anyhow::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = words.collect();
    let Some(serve) = words.iter().position(|word| word == "serve") else {
        return Ok(words);
    };
    if words.get(serve + 1).is_none_or(|word| word != "memcached") {
        return Ok(words);
    }
    while let Some((place, count, path)) = named(&words) {
        let text = fs::read_to_string(&path)
            .map_err(|error| usage(FLAG, format!("{}: {error}", Path::new(&path).display())))?;
        let listens = words[place + count..]
            .iter()
            .any(|word| is_listen(&word.to_string_lossy()));
        let flags = lines(&text).filter(|line| !(listens && is_listen(line)));
        let flags: Vec<OsString> = flags
            .flat_map(str::split_whitespace)
            .map(OsString::from)
            .collect();
        words.splice(place..place + count, flags);
    }
    Ok(words)
}

/// Where the flag is, of how many words, and the file.
fn named(words: &[OsString]) -> Option<(usize, usize, OsString)> {
    words.iter().enumerate().find_map(|(place, word)| {
        let word = word.to_str()?;
        match word.strip_prefix(FLAG)? {
            "" => Some((place, 2, words.get(place + 1)?.clone())),
            rest => Some((place, 1, rest.strip_prefix('=')?.into())),
        }
    })
}

/// Addresses add up, so those of the file are left out if others follow.
fn is_listen(word: &str) -> bool {
    word.starts_with("-l") || word.starts_with("--listen")
}

/// The lines with flags. Debian's script leaves out -d, -h, and what is no flag: `logfile`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| without_comment(line).trim())
        .filter(|line| line.starts_with('-') && !line.starts_with("-d") && !line.starts_with("-h"))
}

/// A line up to a `#` that has no `\` before it.
fn without_comment(line: &str) -> &str {
    let starts = line.match_indices('#').map(|(at, _)| at);
    let end = starts.into_iter().find(|at| !line[..*at].ends_with('\\'));
    &line[..end.unwrap_or(line.len())]
}
