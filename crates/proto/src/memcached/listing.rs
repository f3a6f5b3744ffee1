//! Lines of statistics and of lists of keys.

use crate::memcached::commands::{Output, item_size, line};
use crate::memcached::items::{Attributes, Marks};
use crate::memcached::time::Clock;
use std::fmt::Display;

/// The end of statistics, of `cachedump` and of `metadump`.
pub const END: &str = "END\r\n";

/// The start of `metadump` and of `mgdump`.
pub const DUMP_START: &str = "OK\r\n";

/// The end of `mgdump`.
pub const MGDUMP_END: &str = "EN\r\n";

/// An item of a list.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// What is stored with its value.
    pub attributes: Attributes,
    /// Length of its value in bytes.
    pub length: usize,
}

/// Writes one of the statistics.
pub fn stat(name: impl Display, value: impl Display, out: &mut impl Output) {
    out.put(format!("STAT {name} {value}\r\n").as_bytes());
}

/// Writes a key with all bytes but letters, digits and `-._~` as `%` and two digits.
pub(super) fn put_encoded(key: &[u8], out: &mut impl Output) {
    for byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.put(&[*byte]);
        } else {
            out.put(format!("%{byte:02X}").as_bytes());
        }
    }
}

impl Listed<'_> {
    /// Writes a line of `lru_crawler metadump`. Times are Unix times. There are no slab classes: all have the class 1.
    pub fn metadump(&self, clock: Clock, out: &mut impl Output) {
        out.put(b"key=");
        put_encoded(self.key, out);
        let Attributes {
            cas,
            flags,
            expiry,
            last_access,
            marks,
        } = self.attributes;
        let expiry = if expiry == 0 {
            -1
        } else {
            i64::from(clock.epoch) + i64::from(expiry)
        };
        let access = u64::from(clock.epoch) + u64::from(last_access);
        let fetched = if marks.contains(Marks::FETCHED) {
            "yes"
        } else {
            "no"
        };
        let size = item_size(self.key.len(), flags, self.length);
        let rest =
            format!(" exp={expiry} la={access} cas={cas} fetch={fetched} cls=1 size={size} flags={flags} \n");
        out.put(rest.as_bytes());
    }

    /// Writes a line of `lru_crawler mgdump`: the request that reads the item.
    pub fn mgdump(&self, out: &mut impl Output) {
        out.put(b"mg ");
        if self.attributes.marks.contains(Marks::BINARY_KEY) {
            line::put_base64(self.key, out);
            out.put(b" b\r\n");
        } else {
            out.put(self.key);
            out.put(b"\r\n");
        }
    }

    /// Writes a line of `stats cachedump`, if the key is not binary.
    pub fn cachedump(&self, clock: Clock, out: &mut impl Output) {
        let Attributes { expiry, marks, .. } = self.attributes;
        if marks.contains(Marks::BINARY_KEY) {
            return;
        }
        let expiry = if expiry == 0 {
            0
        } else {
            u64::from(clock.epoch) + u64::from(expiry)
        };
        out.put(b"ITEM ");
        out.put(self.key);
        out.put(format!(" [{} b; {expiry} s]\r\n", self.length).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_listed_as_clients_read_them() {
        let clock = Clock {
            now: 100,
            epoch: 1_000,
        };
        let mut listed = Listed {
            key: b"a/\xff",
            attributes: Attributes {
                cas: 7,
                flags: 9,
                expiry: 0,
                last_access: 50,
                marks: Marks::BINARY_KEY | Marks::FETCHED,
            },
            length: 3,
        };
        let mut out = Vec::new();
        listed.metadump(clock, &mut out);
        listed.mgdump(&mut out);
        listed.cachedump(clock, &mut out);
        listed.key = b"b";
        listed.attributes.marks = Marks::NONE;
        listed.attributes.expiry = 60;
        listed.metadump(clock, &mut out);
        listed.mgdump(&mut out);
        listed.cachedump(clock, &mut out);
        stat("pid", 5, &mut out);
        let expected = "key=a%2F%FF exp=-1 la=1050 cas=7 fetch=yes cls=1 size=69 flags=9 \n\
            mg YS// b\r\n\
            key=b exp=1060 la=1050 cas=7 fetch=no cls=1 size=67 flags=9 \n\
            mg b\r\n\
            ITEM b [3 b; 1060 s]\r\n\
            STAT pid 5\r\n";
        assert_eq!(
            out.escape_ascii().to_string(),
            expected.escape_default().to_string()
        );
    }
}
