//! The datagrams that wait for fragments: found by their key, and in the order in which they began.

use super::key::Key;
use super::store::{NONE, Store};
use std::time::Instant;

/// Cells at most; beyond, several datagrams share one.
const MOST_CELLS: usize = 1 << 20;

/// A datagram of which some fragments have arrived.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    key: Key,
    hash: u64,
    /// The next in the same cell.
    next: u32,
    /// The ones that began before and after.
    older: u32,
    newer: u32,
    /// When its first fragment arrived.
    began: Instant,
    /// Its first and last fragment in the store, by offset.
    pub first: u32,
    pub last: u32,
    /// How many fragments are in the store, and how many bytes of the datagram they have.
    pub fragments: u32,
    pub bytes: u32,
    /// Where it ends: the end of the last fragment, or until that arrives the furthest of the others.
    pub end: u32,
    pub is_end_known: bool,
    /// One bit for each codepoint of ECN that a fragment had (RFC 3168, section 5).
    pub ecn: u8,
    /// The longest fragment, and the longest that was not to be fragmented.
    pub longest: u32,
    pub longest_whole: u32,
}

impl Datagram {
    /// Puts a stored fragment behind another one, or before all.
    #[inline]
    pub fn link(&mut self, store: &mut Store, before: u32, fragment: u32) {
        let next = match before {
            NONE => std::mem::replace(&mut self.first, fragment),
            before => std::mem::replace(&mut store.piece_mut(before).next, fragment),
        };
        store.piece_mut(fragment).next = next;
        if next == NONE {
            self.last = fragment;
        }
        self.fragments += 1;
    }

    /// Removes the fragment behind another one, or the first.
    pub fn unlink(&mut self, store: &mut Store, before: u32, fragment: u32) {
        let next = store.piece(fragment).next;
        match before {
            NONE => self.first = next,
            before => store.piece_mut(before).next = next,
        }
        if next == NONE {
            self.last = before;
        }
        self.fragments -= 1;
        store.free(fragment);
    }
}

/// The datagrams that wait, a fixed number at most.
#[derive(Debug)]
pub(super) struct Waiting {
    /// By lower bits of the hash, the first of the cell's datagrams.
    cells: Vec<u32>,
    datagrams: Vec<Datagram>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    most: usize,
}

fn within(most: u64) -> usize {
    most.clamp(1, NONE.into()) as usize
}

impl Waiting {
    /// Room for this many, one at least.
    pub fn new(most: u64) -> Waiting {
        let most = within(most);
        Waiting {
            cells: vec![NONE; most.min(MOST_CELLS).next_power_of_two()],
            datagrams: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            most,
        }
    }

    /// With another limit, which may be below what waits. The cells stay.
    pub fn with_limit(self, most: u64) -> Waiting {
        Waiting {
            most: within(most),
            ..self
        }
    }

    pub fn len(&self) -> usize {
        self.datagrams.len() - self.free.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|oldest| *oldest != NONE)
    }

    #[inline]
    pub fn began(&self, number: u32) -> Instant {
        self.datagrams[number as usize].began
    }

    #[inline]
    pub fn get(&mut self, number: u32) -> &mut Datagram {
        &mut self.datagrams[number as usize]
    }

    #[inline]
    pub fn find(&self, key: &Key, hash: u64) -> Option<u32> {
        let mut number = self.cells[self.cell(hash)];
        while number != NONE {
            let datagram = &self.datagrams[number as usize];
            if datagram.key == *key {
                return Some(number);
            }
            number = datagram.next;
        }
        None
    }

    /// Adds a datagram without fragments; there is room.
    #[inline]
    pub fn add(&mut self, key: Key, hash: u64, began: Instant) -> u32 {
        let cell = self.cell(hash);
        let datagram = Datagram {
            key,
            hash,
            next: self.cells[cell],
            older: self.newest,
            newer: NONE,
            began,
            first: NONE,
            last: NONE,
            fragments: 0,
            bytes: 0,
            end: 0,
            is_end_known: false,
            ecn: 0,
            longest: 0,
            longest_whole: 0,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.datagrams[number as usize] = datagram;
                number
            }
            None => {
                self.datagrams.push(datagram);
                self.datagrams.len() as u32 - 1
            }
        };
        self.cells[cell] = number;
        match self.newest {
            NONE => self.oldest = number,
            newest => self.get(newest).newer = number,
        }
        self.newest = number;
        number
    }

    #[inline]
    pub fn remove(&mut self, number: u32) {
        let Datagram {
            hash,
            next,
            older,
            newer,
            ..
        } = *self.get(number);
        let cell = self.cell(hash);
        if self.cells[cell] == number {
            self.cells[cell] = next;
        } else {
            let mut before = self.cells[cell];
            while self.get(before).next != number {
                before = self.get(before).next;
            }
            self.get(before).next = next;
        }
        match older {
            NONE => self.oldest = newer,
            older => self.get(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.get(newer).older = older,
        }
        self.free.push(number);
    }

    #[inline]
    fn cell(&self, hash: u64) -> usize {
        hash as usize & (self.cells.len() - 1)
    }
}
