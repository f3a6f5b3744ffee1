//! How addresses of each family are mixed and laid out in lines.

use crate::batch::BLOCK;
use crate::cuckoo::{Bounds, Layout, Place, V4Slots, V6Slots};
use crate::mix::{Mix32, Mix128, Seed};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The places of a block of addresses, part by part, so that they can be computed in vectors.
pub struct Places {
    homes: [u32; BLOCK],
    remainders: [u64; BLOCK],
    rests: [u64; BLOCK],
}

impl Places {
    /// Places of no addresses.
    #[inline(always)]
    pub fn new() -> Places {
        Places {
            homes: [0; BLOCK],
            remainders: [0; BLOCK],
            rests: [0; BLOCK],
        }
    }

    /// Sets the places from number `first` on to those of these addresses; there is room for [`BLOCK`].
    #[inline(always)]
    pub fn set<A: Placing>(&mut self, first: usize, addresses: &[A], mix: A::Mix, bounds: Bounds) {
        let places = self.homes[first..]
            .iter_mut()
            .zip(&mut self.remainders[first..])
            .zip(&mut self.rests[first..]);
        for (address, ((home, remainder), rest)) in addresses.iter().zip(places) {
            let place = address.place(mix, bounds);
            (*home, *remainder, *rest) = (place.home, place.remainder, place.rest);
        }
    }

    /// The place of one address.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Place {
        Place {
            home: self.homes[index],
            remainder: self.remainders[index],
            rest: self.rests[index],
        }
    }
}

/// An address that exact tables can place. In a private module, so that no other type implements it.
pub trait Placing: Copy {
    /// How a line is divided into slots.
    type Slots: Layout;
    /// The mix of a table.
    type Mix: Copy + Send + Sync + From<Seed>;
    /// Significant bits of the upper part of a mixed address.
    const UPPER_BITS: u32;
    /// Entries per line for which a new table is sized. At 8 of 16 slots, 0.4 % of the home lines overflow (Poisson)
    /// and an entry takes 8 bytes; at 2 of 4, 5 % and 32 bytes.
    const ENTRIES_A_LINE: f64;

    /// The upper part, in the highest bits, and the rest.
    fn mix(self, mix: Self::Mix) -> (u64, u64);

    /// The place of an address.
    #[inline(always)]
    fn place(self, mix: Self::Mix, bounds: Bounds) -> Place {
        let (upper, rest) = self.mix(mix);
        bounds.place(upper, rest)
    }

    /// The address that was mixed.
    fn unmix(mix: Self::Mix, upper: u64, rest: u64) -> Self;
}

impl Placing for Ipv4Addr {
    type Slots = V4Slots;
    type Mix = Mix32;
    const UPPER_BITS: u32 = 32;
    const ENTRIES_A_LINE: f64 = 8.0;

    #[inline(always)]
    fn mix(self, mix: Mix32) -> (u64, u64) {
        (u64::from(mix.mix(self.to_bits())) << 32, 0)
    }

    #[inline(always)]
    fn place(self, mix: Mix32, bounds: Bounds) -> Place {
        bounds.place_short(mix.mix(self.to_bits()))
    }

    fn unmix(mix: Mix32, upper: u64, _rest: u64) -> Ipv4Addr {
        Ipv4Addr::from_bits(mix.unmix((upper >> 32) as u32))
    }
}

impl Placing for Ipv6Addr {
    type Slots = V6Slots;
    type Mix = Mix128;
    const UPPER_BITS: u32 = 64;
    const ENTRIES_A_LINE: f64 = 2.0;

    #[inline(always)]
    fn mix(self, mix: Mix128) -> (u64, u64) {
        let bits = self.to_bits();
        mix.mix((bits >> 64) as u64, bits as u64)
    }

    fn unmix(mix: Mix128, upper: u64, rest: u64) -> Ipv6Addr {
        let (upper, lower) = mix.unmix(upper, rest);
        Ipv6Addr::from_bits(u128::from(upper) << 64 | u128::from(lower))
    }
}
