//! Memory that waits for its contents: rows of a batch are computed where the batch will lie.
//!
//! Whoever knows where a result belongs *offers* that memory around the computation. The first tensor of exactly that
//! dtype and size that is made meanwhile on the same thread lies in it. No result depends on it: what is made elsewhere
//! is copied into the batch later, as if nothing had been offered.

use super::dtype::DType;
use feedline_io::Buf;
use smallvec::SmallVec;
use std::cell::RefCell;

/// Room for some rows of one component of a batch.
pub struct Slot {
    dtype: DType,
    row_bytes: usize,
    /// The rows that have not been made yet.
    left: Buf,
}

/// Room for the same rows of each component; `None` where a component is not made in place.
pub type Slots = SmallVec<[Option<Slot>; 2]>;

thread_local! {
    static OFFER: RefCell<Option<(DType, Buf)>> = const { RefCell::new(None) };
}

impl Slot {
    pub fn new(dtype: DType, row_bytes: usize, rows: usize) -> Slot {
        Slot { dtype, row_bytes, left: Buf::new(row_bytes * rows) }
    }
    /// Rows that are left.
    pub fn rows(&self) -> usize {
        self.left.len() / self.row_bytes
    }
    /// Cuts off room for the next `rows` rows.
    pub fn split_to(&mut self, rows: usize) -> Option<Slot> {
        let left = self.left.split_to(rows.checked_mul(self.row_bytes)?)?;
        Some(Slot { dtype: self.dtype, row_bytes: self.row_bytes, left })
    }
    /// Offers room for the next `rows` rows to what `f` makes. If it is not taken it can be offered again.
    pub fn offer<R>(&mut self, rows: usize, f: impl FnOnce() -> R) -> R {
        let Some(Slot { left, .. }) = self.split_to(rows) else { return f() };
        let outer = OFFER.replace(Some((self.dtype, left)));
        // A panic leaves the offer behind: nobody else has that memory, so whoever takes it does no harm.
        let result = f();
        if let Some((_, mut front)) = OFFER.replace(outer) {
            let rest = std::mem::replace(&mut self.left, Buf::new(0));
            if front.unsplit(rest).is_ok() {
                self.left = front;
            }
        }
        result
    }
}

/// The memory on offer on this thread, if it is meant for such a tensor.
pub(super) fn take_offer(dtype: DType, bytes: usize) -> Option<Buf> {
    let fits = |(d, buf): &mut (DType, Buf)| *d == dtype && buf.len() == bytes;
    // A thread that is ending offers nothing.
    OFFER.try_with(|offer| offer.borrow_mut().take_if(fits)).ok().flatten().map(|(_, buf)| buf)
}

#[cfg(test)]
mod tests {
    use super::super::{Column, Tensor};
    use super::*;

    fn address(t: &Tensor) -> *const u8 {
        t.bytes().as_ptr()
    }

    #[test]
    fn the_first_tensor_that_fits_lies_in_the_slot() {
        let mut slot = Slot::new(DType::Float32, 8, 4);
        let at = slot.left.as_slice().as_ptr();
        let [other, taken, next] =
            slot.offer(4, || [[3, 2], [4, 2], [4, 2]].map(|shape| Tensor::new(DType::Float32, shape)));
        assert_eq!(address(&taken), at);
        assert!(address(&other) != at && address(&next) != at && slot.rows() == 0);
        assert!(address(&Tensor::new(DType::Float32, [4, 2])) != at, "nothing is offered any more");
    }

    #[test]
    fn what_is_not_taken_is_offered_again() {
        let mut slot = Slot::new(DType::Int32, 4, 4);
        let at = slot.left.as_slice().as_ptr();
        slot.offer(4, || Tensor::new(DType::Float32, [4]));
        slot.offer(5, || Tensor::new(DType::Int32, [5]));
        assert_eq!(slot.rows(), 4);
        let mut outer = slot.split_to(2).unwrap();
        let t = outer.offer(2, || {
            slot.offer(1, || ());
            Tensor::new(DType::Int32, [2])
        });
        assert_eq!((address(&t), slot.rows()), (at, 2));
    }

    #[test]
    fn rows_that_were_made_one_by_one_are_one_column() {
        let mut slot = Slot::new(DType::Uint8, 2000, 3);
        let at = slot.left.as_slice().as_ptr();
        let row = |slot: &mut Slot| super::super::Value::Tensor(slot.offer(1, || Tensor::zeros(DType::Uint8, [2000])));
        let rows: Vec<_> = (0..3).map(|_| row(&mut slot)).collect();
        match Column::from_values(rows) {
            Column::Dense(t) => assert_eq!((address(&t), t.shape()), (at, &[3, 2000][..])),
            rows => panic!("{rows:?}"),
        }
    }
}
