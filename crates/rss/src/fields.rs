//! The fields that are hashed.

use crate::error::InputError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The fields of a packet that are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HashFields {
    /// Both addresses.
    #[serde(rename = "2tuple")]
    TwoTuple,
    /// Both addresses and both ports.
    #[serde(rename = "4tuple")]
    FourTuple,
}

impl fmt::Display for HashFields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

impl FromStr for HashFields {
    type Err = InputError;

    fn from_str(text: &str) -> Result<HashFields, InputError> {
        match text {
            "2tuple" => Ok(HashFields::TwoTuple),
            "4tuple" => Ok(HashFields::FourTuple),
            _ => Err(InputError::unknown(text, "2tuple or 4tuple")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_fields_read_back_as_printed_and_refuse_the_rest() {
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            assert_eq!(fields.to_string().parse(), Ok(fields));
        }
        let error = "3tuple".parse::<HashFields>().unwrap_err().to_string();
        assert!(
            error.contains("3tuple") && error.contains("2tuple or 4tuple"),
            "{error}"
        );
    }
}
