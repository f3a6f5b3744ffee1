//! Shapes: how a number of flows is distributed over buckets.

use crate::error::InputError;
use crate::table::{Bucket, IndirectionTable};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Distribution of flows over buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// The same on each.
    Balanced,
    /// On the bucket of rank k, counting from 1, in proportion to k to the power of `-exponent`.
    Skewed {
        /// 0 is balanced; the first of many buckets has about a fifth of the load at 1.
        exponent: f64,
    },
    /// All flows on one bucket.
    One {
        /// The bucket.
        bucket: Bucket,
    },
}

impl Shape {
    /// Flows of each bucket of a table, `total` in all. Buckets that the table does not name get none; the remainder
    /// goes to the first ones.
    #[must_use]
    pub fn wanted(self, table: &IndirectionTable, total: usize) -> Vec<usize> {
        let mut wanted = vec![0; table.buckets()];
        let named = super::addresses::named_buckets(table.entries());
        let weight = |rank: usize| match self {
            Shape::Balanced => 1.0,
            Shape::Skewed { exponent } => ((rank + 1) as f64).powf(-exponent),
            Shape::One { bucket } => f64::from(u8::from(named[rank] == bucket)),
        };
        let sum: f64 = (0..named.len()).map(weight).sum();
        if sum == 0.0 {
            return wanted;
        }
        for (rank, bucket) in named.iter().enumerate() {
            wanted[bucket.index()] = (total as f64 * weight(rank) / sum) as usize;
        }
        let mut rest = total.saturating_sub(wanted.iter().sum());
        let weighty = (0..named.len()).filter(|rank| weight(*rank) > 0.0).cycle();
        for rank in weighty {
            if rest == 0 {
                break;
            }
            wanted[named[rank].index()] += 1;
            rest -= 1;
        }
        wanted
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Balanced => formatter.write_str("balanced"),
            Shape::Skewed { exponent } => write!(formatter, "skewed:{exponent}"),
            Shape::One { bucket } => write!(formatter, "one:{bucket}"),
        }
    }
}

impl FromStr for Shape {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Shape, InputError> {
        let wrong = || {
            InputError(format!(
                "{text:?} is no shape: write balanced, skewed:1.1 or one:BUCKET"
            ))
        };
        match text.split_once(':') {
            None if text == "balanced" => Ok(Shape::Balanced),
            Some(("skewed", exponent)) => {
                let exponent = exponent.parse().map_err(|_| wrong())?;
                let sensible = (0.0..=10.0).contains(&exponent);
                sensible.then_some(Shape::Skewed { exponent }).ok_or_else(wrong)
            }
            Some(("one", bucket)) => {
                let bucket = Bucket::new(bucket.parse().map_err(|_| wrong())?);
                Ok(Shape::One { bucket })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(shape: &str, buckets: usize, total: usize) -> Vec<usize> {
        let table = IndirectionTable::round_robin(128, buckets).unwrap();
        shape.parse::<Shape>().unwrap().wanted(&table, total)
    }

    #[test]
    fn shapes_add_up_to_the_total() {
        assert_eq!(wanted("balanced", 4, 10), [3, 3, 2, 2]);
        assert_eq!(wanted("one:2", 4, 10), [0, 0, 10, 0]);
        assert_eq!(wanted("skewed:1", 4, 25), [12, 6, 4, 3]);
        assert_eq!(wanted("skewed:0", 4, 8), [2; 4]);
        assert_eq!(wanted("one:9", 4, 8), [0; 4]);
    }

    #[test]
    fn shapes_read_back_and_nonsense_is_refused() {
        for text in ["balanced", "skewed:1.1", "one:3"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        for text in ["", "skewed", "skewed:-1", "skewed:nan", "one:x", "one"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }
}
