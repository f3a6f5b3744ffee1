//! The implementations of the hash, their names, and the CPU features they need.

use super::Compiled;
use crate::key::Key;
use std::fmt;

/// An implementation of the Toeplitz hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// GF(2) matrix multiplication in 512-bit vectors (x86-64 with GFNI, AVX-512 F, BW, VBMI and VBMI2).
    Gfni,
    /// Carry-less multiplication (x86-64 with PCLMULQDQ).
    Carryless,
    /// One table per input byte, on any CPU.
    Tables,
}

impl Way {
    /// All implementations, the fastest first.
    pub const ALL: [Way; 3] = [Way::Gfni, Way::Carryless, Way::Tables];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Gfni => "gfni",
            Way::Carryless => "clmul",
            Way::Tables => "tables",
        }
    }

    /// The implementations that this CPU supports, the fastest first. [`Way::Tables`] is always among them.
    #[must_use]
    pub fn available() -> Vec<Way> {
        let compiles = |way: &Way| Compiled::new(&Key::VERIFICATION, *way).is_some();
        Way::ALL.into_iter().filter(compiles).collect()
    }

    /// The required CPU features, for messages.
    pub(super) fn takes(self) -> &'static str {
        match self {
            Way::Gfni => "an x86-64 CPU with GFNI and AVX-512 (F, BW, VBMI, VBMI2)",
            Way::Carryless => "an x86-64 CPU with PCLMULQDQ",
            Way::Tables => "any CPU",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_always_available() {
        assert_eq!(Way::available().last(), Some(&Way::Tables));
    }
}
