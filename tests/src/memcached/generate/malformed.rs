//! Malformed requests.

use super::super::sequence::FILLER;
use super::Generator;
use super::draft::Draft;

impl Generator {
    /// A request made malformed, or a whole one if that would wait for more than what follows.
    pub(super) fn malformed(&mut self, whole: Draft) -> Vec<u8> {
        let command = &whole.words[0];
        let is_of_item = [
            &b"m"[..],
            b"get",
            b"gat",
            b"set",
            b"add",
            b"rep",
            b"app",
            b"pre",
            b"cas",
            b"inc",
            b"dec",
            b"tou",
            b"del",
        ]
        .iter()
        .any(|start| command.starts_with(start));
        if !is_of_item || whole.words.len() < 2 {
            return whole.bytes();
        }
        let mut changed = whole.clone();
        changed.words.retain(|word| !word.starts_with(b"E1"));
        for _ in 0..self.random.usize(1..3) {
            self.change(&mut changed);
        }
        if waits_for_more(&changed) {
            whole.bytes()
        } else {
            changed.bytes()
        }
    }

    /// Changes one thing.
    fn change(&mut self, draft: &mut Draft) {
        let last = draft.words.len() - 1;
        let place = self.random.usize(..=last);
        match self.random.u8(0..12) {
            0 if last > 1 => drop(draft.words.remove(place.max(1))),
            1 => draft.words.insert(place + 1, draft.words[place].clone()),
            2 => draft.words.insert(place + 1, Vec::new()),
            3..5 => {
                let word = self.limit().into();
                draft.words.insert(place + 1, word);
            }
            5..7 if place > 1 => draft.words[place] = self.limit().into(),
            7 => draft.words.push(
                self.one_of(&[
                    "noreply", "q", "Z", "S10", "b", "k", "k", "O", "M", "MX", "T", "Tx", "\u{e9}",
                ])
                .into(),
            ),
            8 if draft.words[0].starts_with(b"m") && draft.words[0] != b"ms" => {
                let opaque = [b'O'; 34][..self.random.usize(30..35)].to_vec();
                draft.words.push(opaque);
            }
            9 if !draft.words[0].starts_with(b"g") && draft.words.len() > 1 => {
                draft.words[1] = vec![b'k'; self.random.usize(249..300)];
            }
            10 => {
                if let Some(value) = &mut draft.value {
                    let length = value.len() + self.random.usize(..4);
                    value.resize(length.saturating_sub(self.random.usize(..4)), b'+');
                }
            }
            _ => self.change_byte(draft, place),
        }
    }

    /// Changes, adds or removes one byte of a word.
    fn change_byte(&mut self, draft: &mut Draft, place: usize) {
        let bytes = b"\0\t\r \x7f\x80\xffaZ019-+=b";
        let byte = bytes[self.random.usize(..bytes.len())];
        let word = &mut draft.words[place];
        let at = self.random.usize(..=word.len());
        match self.random.u8(0..3) {
            0 => word.insert(at, byte),
            1 if at < word.len() => word[at] = byte,
            _ if at < word.len() => drop(word.remove(at)),
            _ => {}
        }
    }
}

/// Whether a number of its line, as the length of a value, asks for more bytes than follow; or its key is too long for `get`,
/// after which upstream loses answers; or it may begin a connection as the binary protocol does.
fn waits_for_more(draft: &Draft) -> bool {
    let line = draft.line();
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let is_get = words.clone().next().is_some_and(|word| word.starts_with(b"g"));
    // The first byte of a request of the binary protocol.
    let is_binary = line.starts_with(b"\x80");
    is_binary
        || words.any(|word| {
            let digits = word.iter().filter(|byte| byte.is_ascii_digit());
            let digits: String = digits.map(|byte| char::from(*byte)).collect();
            let length = digits.parse::<u64>().unwrap_or_default();
            let is_length = (FILLER as u64 / 2..1 << 31).contains(&length);
            is_length || (is_get && word.len() > 250) || word.starts_with(b"HTTP/")
        })
}
