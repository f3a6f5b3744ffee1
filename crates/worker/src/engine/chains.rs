//! The queues of many owners in one array, so that a queue costs eight bytes and its elements no allocation each.

const NONE: u32 = u32::MAX;

/// The queue of one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

#[derive(Debug)]
struct Link<T> {
    value: Option<T>,
    next: u32,
}

/// The elements of all queues.
#[derive(Debug)]
pub(crate) struct Chains<T> {
    links: Vec<Link<T>>,
    /// Unused links, linked by `next`.
    unused: u32,
}

impl<T> Chains<T> {
    pub(crate) fn new() -> Self {
        Self {
            links: Vec::new(),
            unused: NONE,
        }
    }

    pub(crate) fn push(&mut self, chain: &mut Chain, value: T) {
        let link = Link {
            value: Some(value),
            next: NONE,
        };
        let place = match self.unused {
            NONE => {
                self.links.push(link);
                (self.links.len() - 1) as u32
            }
            unused => {
                let old = &mut self.links[unused as usize];
                self.unused = old.next;
                *old = link;
                unused
            }
        };
        let alone = Chain {
            first: place,
            last: place,
        };
        self.join(chain, alone);
    }

    /// Appends another queue, which must not be empty.
    pub(crate) fn join(&mut self, chain: &mut Chain, rest: Chain) {
        match self.links.get_mut(chain.last as usize) {
            None => *chain = rest,
            Some(last) => (last.next, chain.last) = (rest.first, rest.last),
        }
    }

    /// Removes the first element.
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<T> {
        let place = chain.first;
        let link = self.links.get_mut(place as usize)?;
        chain.first = link.next;
        if chain.is_empty() {
            *chain = Chain::EMPTY;
        }
        link.next = self.unused;
        self.unused = place;
        link.value.take()
    }

    /// The elements, first to last.
    pub(crate) fn iter<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let mut at = chain.first;
        std::iter::from_fn(move || {
            let link = self.links.get(at as usize)?;
            at = link.next;
            link.value.as_ref()
        })
    }

    pub(crate) fn for_each_mut(&mut self, chain: &Chain, mut each: impl FnMut(&mut T)) {
        let mut at = chain.first;
        while let Some(link) = self.links.get_mut(at as usize) {
            at = link.next;
            link.value.as_mut().map(&mut each);
        }
    }

    pub(crate) fn first_mut(&mut self, chain: &Chain) -> Option<&mut T> {
        self.links.get_mut(chain.first as usize)?.value.as_mut()
    }

    pub(crate) fn last_mut(&mut self, chain: &Chain) -> Option<&mut T> {
        self.links.get_mut(chain.last as usize)?.value.as_mut()
    }

    /// The only element; none if there are several.
    pub(crate) fn only(&self, chain: &Chain) -> Option<&T> {
        let is_one = chain.first == chain.last;
        self.iter(chain).next().filter(|_| is_one)
    }

    /// The number of links, used or not.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }
}
