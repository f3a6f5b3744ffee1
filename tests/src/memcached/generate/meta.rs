//! Meta requests.

use super::super::sequence::base64;
use super::Generator;
use super::draft::Draft;

/// An opaque that is refused: it has 33 bytes.
const TOO_LONG: &str = "O12345678901234567890123456789012";

/// Where a key is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Plain,
    Numeric,
    Encoded,
}

impl Generator {
    /// `mg` with any of its flags.
    pub(super) fn meta_get(&mut self) -> Draft {
        let (sort, mut draft) = self.of_any_key("mg");
        // A key that `mg` creates is not marked as binary, and its bytes are then printed.
        let may_create = sort == Sort::Plain;
        let sized: &[&str] = if sort == Sort::Numeric { &[] } else { &["s"] };
        let flags = [&["v", "v", "c", "f", "h", "k", "l", "q", "t", "u"], sized].concat();
        draft = self.with_some(draft, &flags);
        if may_create && self.once_in(6) {
            draft = self.with_time(draft, "N");
        }
        if self.once_in(6) {
            draft = self.with_time(draft, "R");
        }
        if self.once_in(8) {
            draft = self.with_time(draft, "T");
        }
        if self.once_in(12) {
            draft = self.with_cas(draft, "C");
        }
        self.finished(draft)
    }

    /// `ms` with any of its flags.
    pub(super) fn meta_set(&mut self) -> Draft {
        let (sort, mut draft) = self.of_any_key("ms");
        let key = draft.words[1].clone();
        let value = self.value_of(&key);
        draft.words.insert(2, value.len().to_string().into_bytes());
        draft = draft.with_value(value);
        draft = self.with_some(draft, &["c", "k", "s", "q", "I"]);
        if self.once_in(3) {
            draft = self.with_time(draft, "T");
        }
        if self.once_in(3) {
            let flags = self.client_flags();
            draft = draft.word(format!("F{flags}"));
        }
        // `I` stores a value with an older number, which may be that of another key.
        let compares_numbers = draft.words.iter().any(|word| word == b"I");
        if self.once_in(5) && (self.abilities.ordered_cas || !compares_numbers) {
            draft = self.with_cas(draft, "C");
        }
        if self.once_in(10) {
            draft = self.with_given_cas(draft);
        }
        if self.once_in(3) {
            let modes: &[&str] = match sort {
                Sort::Numeric => &["ME", "MR", "MS"],
                _ => &["ME", "MA", "MP", "MR", "MS", "MA", "MP"],
            };
            draft = draft.word(self.one_of(modes));
            if self.random.bool() {
                draft = self.with_time(draft, "N");
            }
        }
        self.finished(draft)
    }

    /// `md`: deletes, makes stale, or leaves an empty value.
    pub(super) fn meta_delete(&mut self) -> Draft {
        let (sort, mut draft) = self.of_any_key("md");
        draft = self.with_some(draft, &["q", "k", "I", "I"]);
        if self.once_in(4) {
            draft = self.with_time(draft, "T");
        }
        if self.once_in(4) {
            draft = self.with_cas(draft, "C");
        }
        if self.once_in(8) {
            draft = self.with_given_cas(draft);
        }
        if sort != Sort::Encoded && self.once_in(6) {
            draft = draft.word("x");
        }
        self.finished(draft)
    }

    /// `ma`.
    pub(super) fn meta_arithmetic(&mut self) -> Draft {
        let is_number = !self.once_in(8);
        let key = if is_number {
            self.numeric_key()
        } else {
            self.plain_key()
        };
        let mut draft = Draft::new("ma").word(key);
        draft = self.with_some(draft, &["t", "c", "v", "v", "q", "k"]);
        if self.once_in(2) {
            let difference = if self.once_in(8) {
                self.limit()
            } else {
                self.number()
            };
            draft = draft.word(format!("D{difference}"));
        }
        if self.once_in(2) {
            draft = draft.word(self.one_of(&["MI", "MD", "M+", "M-", "Mi", "MDecr"]));
        }
        if is_number && self.random.bool() {
            draft = self.with_time(draft, "N");
            if self.random.bool() {
                let initial = if self.once_in(8) {
                    self.limit()
                } else {
                    self.number()
                };
                draft = draft.word(format!("J{initial}"));
            }
        }
        if self.once_in(6) {
            draft = self.with_time(draft, "T");
        }
        if self.once_in(6) {
            draft = self.with_cas(draft, "C");
        }
        if self.once_in(10) {
            draft = self.with_given_cas(draft);
        }
        self.finished(draft)
    }

    /// `me` or `mn`.
    pub(super) fn meta_other(&mut self) -> Draft {
        match self.random.bool() {
            true => {
                let (_, draft) = self.of_any_key("me");
                self.ended(draft)
            }
            false => self.ended(Draft::new("mn")),
        }
    }

    /// A request of this command with a key, which may be in base64.
    fn of_any_key(&mut self, command: &str) -> (Sort, Draft) {
        match self.random.u8(0..8) {
            0 => {
                let key = &self.keys.encoded[self.random.usize(..self.keys.encoded.len())];
                (Sort::Encoded, Draft::new(command).word(base64(key)).word("b"))
            }
            1..3 if command != "mg" || !self.changes_numbers => {
                (Sort::Numeric, Draft::new(command).word(self.numeric_key()))
            }
            _ => (Sort::Plain, Draft::new(command).word(self.plain_key())),
        }
    }

    fn with_some(&mut self, mut draft: Draft, flags: &[&str]) -> Draft {
        for flag in flags {
            let has = draft.words.iter().any(|word| word == flag.as_bytes());
            if !has && self.once_in(3) {
                draft = draft.word(flag);
            }
        }
        draft
    }

    fn with_time(&mut self, draft: Draft, flag: &str) -> Draft {
        let time = self.time_to_live();
        draft.word(format!("{flag}{time}"))
    }

    fn with_cas(&mut self, draft: Draft, flag: &str) -> Draft {
        let cas = self.cas();
        draft.word([flag.as_bytes(), &cas].concat())
    }

    fn with_given_cas(&mut self, draft: Draft) -> Draft {
        let cas = self.clients_cas();
        draft.word([b"E", &cas[..]].concat())
    }

    /// The request with an opaque, its flags in any order.
    fn finished(&mut self, mut draft: Draft) -> Draft {
        if self.once_in(4) {
            let mut opaque = self.one_of(&[
                "O",
                "O1",
                "Oabc",
                "Oxyz",
                "O1234567890123456789012345678901",
                TOO_LONG,
            ]);
            if opaque == TOO_LONG && draft.words[0] == b"ms" {
                opaque = "O";
            }
            draft = draft.word(opaque);
        }
        let flags = if draft.words[0] == b"ms" { 3 } else { 2 };
        if draft.words.get(2).is_some_and(|word| word == b"b") {
            // The encoding of the key is a flag like others.
            let encoding = draft.words.remove(2);
            draft.words.push(encoding);
        } else if draft.words[0] == b"ms" && draft.words.get(3).is_some_and(|word| word == b"b") {
            let encoding = draft.words.remove(3);
            draft.words.push(encoding);
        }
        self.random.shuffle(&mut draft.words[flags..]);
        self.ended(draft)
    }
}
