//! Plain enums in text form: the serde name of a variant is its name in documents, flags and messages. [`words!`]
//! implements `Display` and `FromStr` by it.
//!
//! [`words!`]: crate::words!

use serde::Serialize;
use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use std::fmt::{Display, Formatter, Result as Written};

/// A word that names no variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownWord {
    message: String,
    known: &'static [&'static str],
}

impl Error for UnknownWord {
    fn custom<T: Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            known: &[],
        }
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        let choice = match known {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => known.concat(),
        };
        let message = format!("'{word}': give {choice}");
        Self { message, known }
    }
}

/// Parses the serde name of a variant of a plain enum.
///
/// # Errors
/// If there is no such variant; the error lists all.
pub fn read_word<T: DeserializeOwned>(text: &str) -> Result<T, UnknownWord> {
    T::deserialize(text.into_deserializer())
}

/// All variants of a plain enum, in the order of their declaration.
#[must_use]
pub fn all<T: DeserializeOwned>() -> Vec<T> {
    let known = read_word::<T>("").map_or_else(|unknown| unknown.known, |_| &[]);
    known.iter().filter_map(|word| read_word(word).ok()).collect()
}

/// Writes the serde name of a variant of a plain enum, padded as `formatter` requests.
///
/// # Errors
/// If the text cannot be written.
pub fn write_word(word: impl Serialize, formatter: &mut Formatter<'_>) -> Written {
    word.serialize(formatter)
}

/// Implements `Display` and `FromStr` for plain enums by their serde names.
///
/// ```
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// #[serde(rename_all = "snake_case")]
/// enum Mode {
///     Echo,
///     Sink,
/// }
/// corelane_measure::words!(Mode);
///
/// assert_eq!(Mode::Echo.to_string(), "echo");
/// assert_eq!("sink".parse(), Ok(Mode::Sink));
/// assert_eq!("tee".parse::<Mode>().unwrap_err().to_string(), "'tee': give echo or sink");
/// ```
#[macro_export]
macro_rules! words {
    ($($plain:ty),+) => {
        $(
            impl std::fmt::Display for $plain {
                fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    $crate::words::write_word(self, formatter)
                }
            }

            impl std::str::FromStr for $plain {
                type Err = $crate::words::UnknownWord;

                fn from_str(text: &str) -> Result<Self, $crate::words::UnknownWord> {
                    $crate::words::read_word(text)
                }
            }
        )+
    };
}

/// Writes and reads types in documents as their `Display` and `FromStr` do.
#[macro_export]
macro_rules! texts {
    ($($text:ty),+) => {
        $(
            impl serde::Serialize for $text {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            impl<'de> serde::Deserialize<'de> for $text {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                    text.parse().map_err(serde::de::Error::custom)
                }
            }
        )+
    };
}
