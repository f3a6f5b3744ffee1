//! Enums of plain words: the name that serde gives a variant is its name in documents, flags and messages.

use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use std::fmt::Display;

/// A word that is not among those to choose from.
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

/// The variant of a plain enum that serde names so, such as a [`Model`](crate::udp::Model) or a
/// [`Verdict`](crate::bridge::Verdict).
///
/// # Errors
/// When none is; the error names those that there are.
pub fn read_word<T: DeserializeOwned>(text: &str) -> Result<T, UnknownWord> {
    T::deserialize(text.into_deserializer())
}
