//! Plain enums in text form: the serde name of a variant is its name in documents, flags and messages.

use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use std::fmt::Display;

/// A word that names no variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(String);

impl Error for UnknownWord {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn unknown_variant(word: &str, expected: &'static [&'static str]) -> Self {
        let choice = match expected {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => expected.concat(),
        };
        Self(format!("'{word}': give {choice}"))
    }
}

/// Parses the serde name of a variant of a plain enum, such as a [`Model`](crate::udp::Model) or a
/// [`Verdict`](crate::bridge::Verdict).
///
/// # Errors
/// If there is no such variant; the error lists all.
pub fn read_word<T: DeserializeOwned>(text: &str) -> Result<T, UnknownWord> {
    T::deserialize(text.into_deserializer())
}
