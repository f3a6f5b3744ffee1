//! Errors of the command line, with the cause and the remedy where clap states only that a word is wrong.

use clap::error::{ContextKind, ErrorKind};
use clap::{Command, Error};
use std::error::Error as _;
use std::io;
use std::process::ExitCode;

/// The words of parsers of numbers and addresses in the standard library, and what to write instead.
const RAW: [(&str, &str); 6] = [
    ("invalid digit found in string", "give a whole number"),
    ("cannot parse integer from empty string", "give a whole number"),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    ("invalid float literal", "give a number"),
    ("cannot parse float from empty string", "give a number"),
    (
        "invalid IP address syntax",
        "give an address, such as 192.0.2.1 or 2001:db8::1",
    ),
];

/// Prints help, or what is wrong with these words, and returns the exit code.
pub fn exit(error: Error, command: &Command, words: &[String]) -> ExitCode {
    let code = error.exit_code();
    let error = match remedy(&error, command, words) {
        Some(text) => Error::raw(error.kind(), text + "\n").with_cmd(command),
        None => error,
    };
    match error.print() {
        Err(lost) if code == 0 && lost.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(code).unwrap_or(2)),
    }
}

/// What is wrong, and what to write instead; `None` if clap says that.
fn remedy(error: &Error, command: &Command, words: &[String]) -> Option<String> {
    let context = |kind| Some(error.get(kind)?.to_string());
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let verbs = below(command, words).get_subcommands().map(Command::get_name);
            Some(nearest(
                &context(ContextKind::InvalidSubcommand)?,
                &verbs.collect::<Vec<_>>(),
            ))
        }
        ErrorKind::UnknownArgument => {
            let wrong = context(ContextKind::InvalidArg)?;
            let taken = || {
                let separated = separated(None, command, words).filter(|_| !wrong.starts_with('-'))?;
                Some(format!("unexpected argument '{wrong}'; {separated}"))
            };
            separated(Some(&wrong), command, words)
                .or_else(taken)
                .or_else(|| negative(&wrong, command, words))
        }
        ErrorKind::ValueValidation => {
            let value = context(ContextKind::InvalidValue)?;
            let raw = error.source().map(ToString::to_string);
            let known = RAW.iter().find(|(words, _)| raw.as_deref() == Some(*words));
            let reworded = || {
                let argument = context(ContextKind::InvalidArg)?;
                Some(format!("invalid value '{value}' for '{argument}': {}", known?.1))
            };
            separated(Some(&value), command, words).or_else(reworded)
        }
        _ => None,
    }
}

/// The verb that these words name, as far as they name one.
fn below<'a>(command: &'a Command, words: &[String]) -> &'a Command {
    let verbs = words.iter().skip(1);
    verbs.fold(command, |verb, word| verb.find_subcommand(word).unwrap_or(verb))
}

/// A word, this one if given, behind a flag that takes a value only behind an equals sign.
fn separated(value: Option<&str>, command: &Command, words: &[String]) -> Option<String> {
    let flags = below(command, words)
        .get_arguments()
        .filter(|flag| flag.is_require_equals_set());
    let flags: Vec<String> = flags
        .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
        .collect();
    let mut pairs = words.windows(2);
    let is_meant = |word: &String| !word.starts_with('-') && value.is_none_or(|value| word == value);
    let pair = pairs.find(|pair| flags.contains(&pair[0]) && is_meant(&pair[1]))?;
    let (flag, value) = (&pair[0], &pair[1]);
    Some(format!(
        "{flag} {value}: write {flag}={value} if it is the value of {flag}"
    ))
}

/// A number below 0 behind a flag that takes a value, which is read as a flag.
fn negative(wrong: &str, command: &Command, words: &[String]) -> Option<String> {
    let mut flags = below(command, words).get_arguments();
    let mut is_switch = |word: &str| {
        let long = word.strip_prefix("--");
        flags.any(|flag| long.is_some() && flag.get_long() == long && !flag.get_action().takes_values())
    };
    let is_number = wrong
        .strip_prefix('-')?
        .starts_with(|first: char| first.is_ascii_digit());
    let pair = words
        .windows(2)
        .find(|pair| is_number && pair[0].starts_with('-') && pair[1].starts_with(wrong))?;
    (!is_switch(&pair[0])).then(|| format!("{}: {} is negative: give 0 or more", pair[0], pair[1]))
}

/// The name that was meant, or all there are.
pub fn nearest(word: &str, names: &[&str]) -> String {
    let near = |name: &&&str| strsim::osa_distance(word, name) <= if word.len() > 4 { 2 } else { 1 };
    match names
        .iter()
        .filter(near)
        .min_by_key(|name| strsim::osa_distance(word, name))
    {
        Some(name) => format!("there is no '{word}': did you mean '{name}'?"),
        None => format!("there is no '{word}': there are {}", names.join(", ")),
    }
}
