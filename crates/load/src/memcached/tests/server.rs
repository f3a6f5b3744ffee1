//! A model of a server. It answers correctly, or lies in the way that a test chooses.

use std::collections::{BTreeMap, HashMap};

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    None,
    /// Stores nothing over what is there, and says that it did.
    KeepsOld,
    /// Deletes nothing, and says that it did.
    KeepsDeleted,
    /// Answers the value of another key, with the key that was asked for.
    OthersValue,
    /// Answers another key and its value.
    OthersKey,
    /// A byte of a value is wrong.
    WrongByte,
    /// A value lacks its last byte, and its length says so.
    Truncated,
    /// Never lets a value expire.
    NeverExpires,
    /// Forgets the client's flags.
    NoFlags,
    /// Does not end its answers to reads.
    NoEnd,
    /// Adds nothing to values, and says that it did.
    DropsParts,
    /// Adds the first part of a value alone, and says that it added the others.
    DropsLaterParts,
    /// Adds everything twice.
    AddsTwice,
    /// Appends what is to be prepended.
    AppendsAlways,
    /// Keeps the cas number of a value that is added to.
    KeepsCas,
    /// Does not add to counters.
    StuckCounter,
    /// Adds more to counters.
    FastCounter,
    /// Stores by `cas` whatever the number is.
    IgnoresCas,
    /// Answers meta commands with the opaque of another.
    WrongOpaque,
    /// Answers a write with the answer to another.
    OtherAnswer,
    /// The length that is announced is not that of the value.
    WrongAnnouncement,
    /// Errors.
    ServerError,
}

#[derive(Clone)]
struct Item {
    flags: u32,
    data: Vec<u8>,
    cas: u64,
    expires: u64,
}

pub(super) struct Server {
    /// In order, so that a seed decides what is evicted.
    items: BTreeMap<Vec<u8>, Item>,
    cas: u64,
    pub(super) lie: Lie,
    /// Seconds.
    pub(super) now: u64,
}

/// The flags of a meta command by name.
type Flags<'a> = HashMap<u8, &'a str>;

impl Server {
    pub(super) fn new(lie: Lie) -> Self {
        Self {
            items: BTreeMap::new(),
            cas: 0,
            lie,
            now: 1_000,
        }
    }

    /// Evicts an item.
    pub(super) fn evict(&mut self, random: &mut fastrand::Rng) {
        let keys: Vec<Vec<u8>> = self.items.keys().cloned().collect();
        if let Some(key) = random.choice(&keys) {
            self.items.remove(key);
        }
    }

    /// Performs the requests of these bytes, which are whole; returns the answers.
    pub(super) fn perform(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            let line = std::str::from_utf8(&bytes[..end - 1]).unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            bytes = &bytes[end + 1..];
            let length = match words[0] {
                "set" | "add" | "replace" | "append" | "prepend" | "cas" => words[4].parse().unwrap(),
                "ms" => words[2].parse().unwrap(),
                _ => 0,
            };
            let (data, rest) = bytes.split_at(length);
            bytes = match words[0] {
                "set" | "add" | "replace" | "append" | "prepend" | "cas" | "ms" => {
                    rest.strip_prefix(b"\r\n").unwrap()
                }
                _ => rest,
            };
            match words[0] {
                "mg" | "ms" | "md" | "ma" | "mn" => self.meta(&words, data, &mut out),
                _ => self.text(&words, data, &mut out),
            }
        }
        out
    }

    fn text(&mut self, words: &[&str], data: &[u8], out: &mut Vec<u8>) {
        if self.lie == Lie::ServerError {
            return out.extend_from_slice(b"SERVER_ERROR out of memory\r\n");
        }
        let key = words.get(1).copied().unwrap_or_default();
        let answer = match words[0] {
            "get" | "gets" | "gat" => {
                let keys = if words[0] == "gat" {
                    &words[2..]
                } else {
                    &words[1..]
                };
                for key in keys {
                    if words[0] == "gat" {
                        self.touch(key, words[1]);
                    }
                    let found = self.read(key).map(|item| self.shown(key, item));
                    let Some((key, item)) = found else { continue };
                    let length = item.data.len() + usize::from(self.lie == Lie::WrongAnnouncement);
                    let cas = if words[0] == "gets" {
                        format!(" {}", item.cas)
                    } else {
                        String::new()
                    };
                    out.extend_from_slice(format!("VALUE {key} {} {length}{cas}\r\n", item.flags).as_bytes());
                    out.extend_from_slice(&[&item.data, b"\r\n".as_slice()].concat());
                }
                if self.lie == Lie::NoEnd { "" } else { "END\r\n" }.to_owned()
            }
            "set" | "add" | "replace" | "cas" => {
                let unique = words.get(5).map(|unique| unique.parse().unwrap());
                let (flags, mode) = (words[2].parse().unwrap(), words[0].as_bytes()[0]);
                let stored = self.store(key, data, (mode, unique), flags, words[3]);
                format!("{}\r\n", ["STORED", "NOT_STORED", "EXISTS", "NOT_FOUND"][stored])
            }
            "append" | "prepend" => {
                let is_added = self.add_to(key, data, words[0] == "append");
                if is_added { "STORED\r\n" } else { "NOT_STORED\r\n" }.to_owned()
            }
            "delete" => format!("{}\r\n", if self.delete(key) { "DELETED" } else { "NOT_FOUND" }),
            "touch" => format!(
                "{}\r\n",
                if self.touch(key, words[2]) {
                    "TOUCHED"
                } else {
                    "NOT_FOUND"
                }
            ),
            "incr" | "decr" => self
                .add(key, words[0] == "incr")
                .map_or("NOT_FOUND\r\n".to_owned(), |number| format!("{number}\r\n")),
            other => panic!("{other}"),
        };
        out.extend_from_slice(answer.as_bytes());
    }

    fn meta(&mut self, words: &[&str], data: &[u8], out: &mut Vec<u8>) {
        if words[0] == "mn" {
            return out.extend_from_slice(b"MN\r\n");
        }
        let from = if words[0] == "ms" { 3 } else { 2 };
        let flags: Flags<'_> = words[from..]
            .iter()
            .map(|flag| (flag.as_bytes()[0], &flag[1..]))
            .collect();
        let (key, expires) = (words[1], flags.get(&b'T').copied().unwrap_or("0"));
        let opaque: u64 = flags[&b'O'].parse().unwrap();
        let opaque = opaque + u64::from(self.lie == Lie::WrongOpaque);
        let named = |code: &str| format!("{code} k{key} O{opaque}\r\n").into_bytes();
        let answer = match words[0] {
            "mg" => {
                if flags.contains_key(&b'T') {
                    self.touch(key, expires);
                }
                match self.read(key).map(|item| self.shown(key, item)) {
                    None if flags.contains_key(&b'q') => Vec::new(),
                    None => named("EN"),
                    Some(_) if !flags.contains_key(&b'v') => named("HD"),
                    Some((key, item)) => {
                        let (length, flags, cas) = (item.data.len(), item.flags, item.cas);
                        let line = format!("VA {length} k{key} f{flags} O{opaque} c{cas}\r\n");
                        [line.as_bytes(), &item.data, b"\r\n"].concat()
                    }
                }
            }
            "ms" => {
                let unique = flags.get(&b'C').map(|unique| unique.parse().unwrap());
                let mode = flags[&b'M'].as_bytes()[0];
                if matches!(mode, b'A' | b'P') {
                    let is_added = self.add_to(key, data, mode == b'A');
                    return out.extend(named(if is_added { "HD" } else { "NS" }));
                }
                let mode = *b"sar".get("SER".find(mode as char).unwrap()).unwrap();
                let client = flags.get(&b'F').map_or(0, |flags| flags.parse().unwrap());
                named(["HD", "NS", "EX", "NF"][self.store(key, data, (mode, unique), client, expires)])
            }
            "md" => named(if self.delete(key) { "HD" } else { "NF" }),
            _ => match self.add(key, flags[&b'M'] == "I") {
                None => named("NF"),
                Some(number) => {
                    let length = number.to_string().len();
                    format!("VA {length} k{key} O{opaque}\r\n{number}\r\n").into_bytes()
                }
            },
        };
        out.extend_from_slice(&answer);
    }

    fn read(&self, key: &str) -> Option<&Item> {
        let item = self.items.get(key.as_bytes())?;
        (item.expires > self.now || self.lie == Lie::NeverExpires).then_some(item)
    }

    /// What is answered for an item of this key.
    fn shown<'a>(&self, key: &'a str, item: &Item) -> (std::borrow::Cow<'a, str>, Item) {
        let mut item = item.clone();
        let other = || self.items.iter().find(|(other, _)| **other != key.as_bytes());
        match (self.lie, other()) {
            (Lie::OthersValue, Some((_, other))) => item = other.clone(),
            (Lie::OthersKey, Some((key, other))) => {
                return (String::from_utf8(key.clone()).unwrap().into(), other.clone());
            }
            (Lie::WrongByte, _) => *item.data.last_mut().unwrap() ^= 1,
            (Lie::Truncated, _) => drop(item.data.pop()),
            (Lie::NoFlags, _) => item.flags = 0,
            _ => {}
        }
        (key.into(), item)
    }

    /// 0: stored; 1: refused; 2: changed; 3: not found.
    fn store(
        &mut self,
        key: &str,
        data: &[u8],
        (mode, unique): (u8, Option<u64>),
        flags: u32,
        expires: &str,
    ) -> usize {
        let there = self.read(key).map(|item| item.cas);
        match (mode, there, unique) {
            (b'a', Some(_), _) | (b'r', None, _) => return 1,
            (_, None, Some(_)) => return 3,
            (_, Some(cas), Some(unique)) if cas != unique && self.lie != Lie::IgnoresCas => return 2,
            _ => {}
        }
        if self.lie == Lie::OtherAnswer {
            return 3;
        }
        if there.is_some() && self.lie == Lie::KeepsOld {
            return 0;
        }
        self.cas += 1;
        let item = Item {
            flags,
            data: data.to_vec(),
            cas: self.cas,
            expires: self.expires(expires),
        };
        self.items.insert(key.into(), item);
        0
    }

    fn expires(&self, text: &str) -> u64 {
        match text.parse::<u64>().unwrap() {
            0 => u64::MAX,
            seconds => self.now + seconds,
        }
    }

    fn touch(&mut self, key: &str, expires: &str) -> bool {
        let (expires, is_there) = (self.expires(expires), self.read(key).is_some());
        if is_there {
            self.items.get_mut(key.as_bytes()).unwrap().expires = expires;
        }
        is_there
    }

    fn delete(&mut self, key: &str) -> bool {
        let is_there = self.read(key).is_some();
        if self.lie != Lie::KeepsDeleted {
            self.items.remove(key.as_bytes());
        }
        is_there
    }

    /// Returns whether there is a value to add to.
    fn add_to(&mut self, key: &str, data: &[u8], is_behind: bool) -> bool {
        self.cas += 1;
        let (is_there, cas, lie) = (self.read(key).is_some(), self.cas, self.lie);
        if let Some(item) = self.items.get_mut(key.as_bytes()).filter(|_| is_there) {
            // Values of tests of this lie have 40 bytes.
            if lie == Lie::DropsParts || lie == Lie::DropsLaterParts && item.data.len() > 40 {
                return true;
            }
            for _ in 0..=u8::from(lie == Lie::AddsTwice) {
                let place = if is_behind || lie == Lie::AppendsAlways {
                    item.data.len()
                } else {
                    0
                };
                item.data.splice(place..place, data.iter().copied());
            }
            if lie != Lie::KeepsCas {
                item.cas = cas;
            }
        }
        is_there
    }

    fn add(&mut self, key: &str, is_up: bool) -> Option<u64> {
        self.read(key)?;
        let by = match self.lie {
            Lie::StuckCounter => 0,
            Lie::FastCounter => 2,
            _ => 1,
        };
        let item = self.items.get_mut(key.as_bytes())?;
        let number = std::str::from_utf8(&item.data).unwrap().parse::<u64>().unwrap();
        let number = if is_up { number + by } else { number - by };
        item.data = number.to_string().into_bytes();
        Some(number)
    }
}
