//! Requests of the classic text protocol.

use super::Generator;
use super::draft::Draft;

impl Generator {
    /// `get`, `gets`, `gat` or `gats` of one to five keys.
    pub(super) fn retrieval(&mut self) -> Draft {
        let mut draft = Draft::new(self.one_of(&["get", "get", "gets", "gets", "gat", "gats"]));
        if draft.words[0].starts_with(b"ga") {
            draft = draft.word(self.time_to_live());
        }
        let keys = if self.random.bool() {
            1
        } else {
            self.random.usize(2..6)
        };
        for _ in 0..keys {
            draft = draft.word(if self.once_in(8) {
                b"missing".to_vec()
            } else {
                self.read_key()
            });
            if self.once_in(40) {
                draft = draft.word("");
            }
        }
        self.ended(draft)
    }

    /// `set` and its kin, `cas` included.
    pub(super) fn storage(&mut self) -> Draft {
        let command = self.one_of(&[
            "set", "set", "set", "set", "add", "replace", "append", "prepend", "cas", "cas",
        ]);
        let extends = ["append", "prepend"].contains(&command);
        let key = if extends { self.plain_key() } else { self.any_key() };
        let value = self.value_of(&key);
        let mut draft = Draft::new(command)
            .word(key)
            .word(self.client_flags())
            .word(self.time_to_live());
        draft = draft.word(value.len().to_string()).with_value(value);
        if command == "cas" {
            draft = draft.word(self.cas());
        }
        self.maybe_without_answer(draft)
    }

    /// `delete` or `touch`.
    pub(super) fn of_one_key(&mut self) -> Draft {
        let key = self.any_key();
        let draft = match self.random.bool() {
            true => Draft::new("delete").word(key),
            false => Draft::new("touch").word(key).word(self.time_to_live()),
        };
        self.maybe_without_answer(draft)
    }

    /// `incr` or `decr`.
    pub(super) fn arithmetic(&mut self) -> Draft {
        let key = if self.once_in(6) {
            self.plain_key()
        } else {
            self.numeric_key()
        };
        let difference = if self.once_in(8) {
            self.limit()
        } else {
            self.number()
        };
        let draft = Draft::new(self.one_of(&["incr", "decr"]))
            .word(key)
            .word(difference);
        self.maybe_without_answer(draft)
    }

    fn maybe_without_answer(&mut self, draft: Draft) -> Draft {
        let draft = if self.once_in(7) {
            draft.word("noreply")
        } else {
            draft
        };
        self.ended(draft)
    }

    /// The draft, whose line may end without a carriage return.
    pub(super) fn ended(&mut self, mut draft: Draft) -> Draft {
        draft.is_bare = self.once_in(12);
        draft
    }
}
