//! The bytes of fragments that wait, in chained blocks of one size: what waits never takes more than a fixed number of bytes,
//! whatever the order and the lengths in which fragments arrive, and a short fragment far behind in its datagram takes one
//! block.

/// Bytes of a block.
pub(super) const BLOCK: usize = 256;

/// No block, datagram or fragment.
pub(super) const NONE: u32 = u32::MAX;

/// The bytes of a datagram that one fragment gave, at the first of its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Offsets within the datagram: from the first byte to the one behind the last.
    pub start: u32,
    pub end: u32,
    /// Stored bytes before them: the headers of the fragment at offset 0; what another fragment gave already.
    pub skipped: u32,
    /// Whether it was appended to the one before, so that both belong to one run.
    pub is_joined: bool,
    /// The next one of the datagram, by offset.
    pub next: u32,
}

/// Blocks for fragments.
#[derive(Debug)]
pub(super) struct Store {
    bytes: Vec<u8>,
    /// By block: the next of the same fragment, or the next free one.
    chain: Vec<u32>,
    /// By block, valid at the first of a fragment.
    pieces: Vec<Piece>,
    free: u32,
    free_blocks: usize,
    most_blocks: usize,
    fragments: u64,
}

/// The blocks that this many bytes are, one at least.
fn blocks(bytes: u64) -> usize {
    (bytes / BLOCK as u64).clamp(1, u64::from(NONE)) as usize
}

impl Store {
    /// A store of at most this many bytes, one block at least. It takes memory when it is first used.
    pub fn new(most_bytes: u64) -> Store {
        Store {
            bytes: Vec::new(),
            chain: Vec::new(),
            pieces: Vec::new(),
            free: NONE,
            free_blocks: 0,
            most_blocks: blocks(most_bytes),
            fragments: 0,
        }
    }

    /// With another limit, which may be below what is in it.
    pub fn with_limit(self, most_bytes: u64) -> Store {
        Store {
            most_blocks: blocks(most_bytes),
            ..self
        }
    }

    /// Fragments in it.
    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Bytes in use.
    pub fn in_use(&self) -> u64 {
        ((self.chain.len() - self.free_blocks) * BLOCK) as u64
    }

    /// Whether this many bytes would fit into an empty store.
    #[inline]
    pub fn can_hold(&self, bytes: usize) -> bool {
        bytes.div_ceil(BLOCK) <= self.most_blocks
    }

    /// Whether this many bytes fit now.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        let in_use = self.chain.len() - self.free_blocks;
        in_use + bytes.div_ceil(BLOCK) <= self.most_blocks
    }

    /// Copies a fragment, which is not empty and for which there is room; returns its number.
    #[inline]
    pub fn put(&mut self, bytes: &[u8], piece: Piece) -> u32 {
        self.fragments += 1;
        let mut chunks = bytes.chunks(BLOCK);
        let first = self.take(chunks.next().unwrap_or_default(), piece);
        let mut last = first;
        for chunk in chunks {
            let block = self.take(chunk, piece);
            self.chain[last as usize] = block;
            last = block;
        }
        first
    }

    /// A block with these bytes.
    #[inline]
    fn take(&mut self, bytes: &[u8], piece: Piece) -> u32 {
        let block = match self.free {
            NONE => {
                self.bytes.resize(self.bytes.len() + BLOCK, 0);
                self.chain.push(NONE);
                self.pieces.push(piece);
                self.chain.len() as u32 - 1
            }
            block => {
                self.free = self.chain[block as usize];
                self.free_blocks -= 1;
                self.chain[block as usize] = NONE;
                self.pieces[block as usize] = piece;
                block
            }
        };
        let start = block as usize * BLOCK;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        block
    }

    /// Frees the blocks of a fragment.
    #[inline]
    pub fn free(&mut self, fragment: u32) {
        self.fragments -= 1;
        let mut block = fragment;
        while block != NONE {
            let next = self.chain[block as usize];
            self.chain[block as usize] = self.free;
            self.free = block;
            self.free_blocks += 1;
            block = next;
        }
    }

    #[inline]
    pub fn piece(&self, fragment: u32) -> &Piece {
        &self.pieces[fragment as usize]
    }

    #[inline]
    pub fn piece_mut(&mut self, fragment: u32) -> &mut Piece {
        &mut self.pieces[fragment as usize]
    }

    /// The fragments from this one on, with their pieces.
    #[inline]
    pub fn from(&self, fragment: u32) -> impl Iterator<Item = (u32, &Piece)> {
        let next = |(_, piece): &(u32, &Piece)| self.at(piece.next);
        std::iter::successors(self.at(fragment), next)
    }

    #[inline]
    fn at(&self, fragment: u32) -> Option<(u32, &Piece)> {
        (fragment != NONE).then(|| (fragment, self.piece(fragment)))
    }

    /// Copies bytes of a fragment, from an offset on, into `to`; it has that many.
    #[inline]
    pub fn copy(&self, fragment: u32, from: usize, to: &mut [u8]) {
        let mut rest = to;
        for chunk in self.chunks(fragment, from) {
            let (now, later) = rest.split_at_mut(chunk.len().min(rest.len()));
            now.copy_from_slice(&chunk[..now.len()]);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Whether the bytes of a fragment, from an offset on, begin with these.
    pub fn begins_with(&self, fragment: u32, from: usize, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        for chunk in self.chunks(fragment, from) {
            let (now, later) = rest.split_at(chunk.len().min(rest.len()));
            if *now != chunk[..now.len()] {
                return false;
            }
            rest = later;
        }
        rest.is_empty()
    }

    /// The blocks of a fragment, from an offset on.
    #[inline]
    fn chunks(&self, fragment: u32, from: usize) -> impl Iterator<Item = &[u8]> {
        let next = |block: &u32| Some(self.chain[*block as usize]).filter(|next| *next != NONE);
        let mut skipped = from % BLOCK;
        std::iter::successors(Some(fragment), next)
            .skip(from / BLOCK)
            .map(move |block| {
                let start = block as usize * BLOCK;
                &self.bytes[start + std::mem::take(&mut skipped)..start + BLOCK]
            })
    }
}
