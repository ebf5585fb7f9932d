//! Rings of an arena.

use super::NONE;

/// A power-of-two ring in an arena; empty when `base` is [`NONE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) base: u32,
    pub(crate) mask: u32,
}

impl Ring {
    pub(crate) const EMPTY: Self = Self { base: NONE, mask: 0 };

    #[inline]
    pub(crate) const fn at(self, number: u32) -> usize {
        self.base as usize + (number & self.mask) as usize
    }

    #[inline]
    pub(crate) const fn capacity(self) -> u32 {
        if self.base == NONE { 0 } else { self.mask + 1 }
    }
}

/// An arena of rings, with a free list per size (last in, first out).
#[derive(Debug, Default)]
pub(crate) struct Rings<T> {
    pub(crate) items: Vec<T>,
    free: Vec<Vec<u32>>,
}

impl<T: Copy + Default> Rings<T> {
    /// A ring of at least `capacity` items.
    pub(crate) fn take(&mut self, capacity: u32) -> Ring {
        let capacity = capacity.max(1).next_power_of_two();
        let class = capacity.trailing_zeros() as usize;
        let reused = self.free.get_mut(class).and_then(Vec::pop);
        let base = reused.unwrap_or_else(|| {
            let base = self.items.len() as u32;
            self.items.resize(self.items.len() + capacity as usize, T::default());
            base
        });
        Ring { base, mask: capacity - 1 }
    }

    /// Gives a ring back.
    pub(crate) fn give(&mut self, ring: Ring) {
        if ring.base == NONE {
            return;
        }
        let class = ring.capacity().trailing_zeros() as usize;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(ring.base);
    }

    /// A ring of twice the size with the items `oldest..next` of `ring`, which is given back.
    pub(crate) fn grow(&mut self, ring: Ring, oldest: u32, next: u32) -> Ring {
        let larger = self.take((ring.capacity() * 2).max(2));
        let mut i = oldest;
        while i != next {
            self.items[larger.at(i)] = self.items[ring.at(i)];
            i = i.wrapping_add(1);
        }
        self.give(ring);
        larger
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.free.clear();
    }
}
