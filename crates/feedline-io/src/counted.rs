//! Lists that grow with what is put into them, and count.
//!
//! What a function collects before it knows how much that will be lies in no block. Such a list is charged as it grows, and
//! asks before it does: one that finds no room unwinds (`step.rs`) while it is small. It grows by half once it is large, so
//! that little is charged that is not used.

use crate::{Scratch, scratch};
use std::ops::{Deref, DerefMut};

/// Lists of fewer bytes do not count: most have one item.
const FEW: usize = 32 << 10;
/// Those of more bytes grow by half, and smaller ones by as much again.
const LARGE: usize = 1 << 20;

pub struct Counted<T> {
    items: Vec<T>,
    taken: Option<Scratch>,
}

impl<T> Counted<T> {
    pub const fn new() -> Counted<T> {
        Counted { items: Vec::new(), taken: None }
    }
    /// Asks for room for so many.
    pub fn with_capacity(n: usize) -> Counted<T> {
        let mut list = Counted::new();
        list.hold(n);
        list
    }
    pub fn push(&mut self, item: T) {
        if self.items.len() == self.items.capacity() {
            self.grow(1);
        }
        self.items.push(item);
    }
    pub fn extend_from_slice(&mut self, items: &[T])
    where
        T: Clone,
    {
        if self.items.capacity() - self.items.len() < items.len() {
            self.grow(items.len());
        }
        self.items.extend_from_slice(items);
    }
    pub fn clear(&mut self) {
        self.items.clear();
    }
    /// Gives back what it has beyond its items, if that is much.
    pub fn fit(&mut self) {
        let (len, has) = (self.items.len(), self.items.capacity());
        if has - len > len / 8 && self.taken.is_some() {
            self.items.shrink_to_fit();
            self.count();
        }
    }
    #[cold]
    fn grow(&mut self, more: usize) {
        let has = self.items.capacity();
        let grown = if has * size_of::<T>() < LARGE { 2 * has } else { has + has / 2 };
        self.hold(grown.max(self.items.len().saturating_add(more)).max(4));
    }
    fn hold(&mut self, n: usize) {
        let bytes = n.saturating_mul(size_of::<T>());
        match &mut self.taken {
            Some(taken) => taken.resize(bytes),
            None if bytes >= FEW => self.taken = Some(scratch(bytes)),
            None => {}
        }
        self.items.reserve_exact(n - self.items.len());
    }
    fn count(&mut self) {
        if let Some(taken) = &mut self.taken {
            taken.resize(self.items.capacity() * size_of::<T>());
        }
    }
}

impl<T> Default for Counted<T> {
    fn default() -> Counted<T> {
        Counted::new()
    }
}

impl<T> Extend<T> for Counted<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        let items = items.into_iter();
        let (least, most) = items.size_hint();
        if self.items.capacity() - self.items.len() < least {
            self.grow(least);
        }
        // Where it is known how many there are, no room has to be looked for any more.
        if most == Some(least) {
            return self.items.extend(items);
        }
        items.for_each(|item| self.push(item));
    }
}

impl<T> Deref for Counted<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for Counted<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Account, NoRoom, Standing, Step};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn lists_count_while_they_grow_and_end_where_there_is_no_room() {
        let account = Account::open(64 << 20, usize::MAX);
        let entered = Account::enter(Some(account));
        let mut list = Counted::with_capacity(1);
        (0..1000u64).for_each(|i| list.push(i));
        list.extend(1000..2000);
        assert_eq!((list.len(), list[1999], account.live()), (2000, 1999, 0), "a few cost nothing");
        list.extend_from_slice(&vec![0; 1 << 20]);
        assert_eq!(account.live(), 8 * ((1 << 20) + 2000));
        list.push(1);
        assert!(account.live() > 12 << 20);
        list.fit();
        assert_eq!(account.live(), 8 * list.len());
        drop(list);
        let step = Step::begin(Standing::First, 32 << 20);
        let endless = catch_unwind(AssertUnwindSafe(|| {
            let mut list = Counted::new();
            loop {
                list.push(0u64);
            }
        }));
        let Err(panic) = endless;
        let NoRoom { bytes, .. } = *panic.downcast_ref::<NoRoom>().expect("no other panic");
        assert!(bytes > 32 << 20 && step.peak() <= 32 << 20, "{bytes}");
        drop((step, entered));
        assert_eq!(account.live(), 0);
        account.close();
    }
}
