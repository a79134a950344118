//! A dense tensor: dtype, shape, and items in row-major order, shared by counting.
//!
//! Tensors are always contiguous. Cutting rows off the first axis is free; everything else writes a new one.

use super::dtype::{DType, Item};
use super::slot::take_offer;
use crate::error::{Error, Result};
use feedline_io::{Buf, Counted};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub type Shape = SmallVec<[usize; 4]>;

/// Whatever can be written where a shape is wanted: `[2, 3]`, a slice, a vector.
pub trait IntoShape {
    fn into_shape(self) -> Shape;
}
impl IntoShape for Shape {
    fn into_shape(self) -> Shape {
        self
    }
}
impl IntoShape for &[usize] {
    fn into_shape(self) -> Shape {
        self.into()
    }
}
impl IntoShape for Vec<usize> {
    fn into_shape(self) -> Shape {
        self.into()
    }
}
impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self) -> Shape {
        SmallVec::from_slice(&self)
    }
}

/// The number of items of a shape, or an error where it does not fit into memory's addresses.
pub fn count(shape: &[usize]) -> Result<usize> {
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|n| *n <= isize::MAX as usize / 16)
        .ok_or_else(|| Error::data(format!("a tensor of shape {shape:?} is too large")))
}

/// Whether a tensor of that shape can be made, and the bytes that it takes, for strings without theirs. Zero sizes count as one, so that no partial product overflows later.
pub fn check_room(dtype: DType, shape: &[usize]) -> Result<usize> {
    let spread: Shape = shape.iter().map(|&d| d.max(1)).collect();
    let too_large = || Error::data(format!("a tensor of shape {shape:?} does not fit into memory"));
    count(&spread).map_err(|_| too_large())?;
    let item = if dtype == DType::String { size_of::<View>() } else { dtype.size() };
    let bytes = shape.iter().product::<usize>().saturating_mul(item);
    // An allocation that fails ends the process, and so does the system when its memory runs out; asking first does not.
    if bytes > 256 << 20 && (bytes > memory_bytes() || Vec::<u8>::new().try_reserve_exact(bytes).is_err()) {
        return Err(too_large());
    }
    Ok(bytes)
}

/// The memory of this machine.
fn memory_bytes() -> usize {
    static BYTES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: asks for two numbers, changes nothing.
        let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        usize::try_from(pages).ok().zip(usize::try_from(page).ok()).map_or(1 << 40, |(n, size)| n.saturating_mul(size))
    })
}

#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    data: Data,
}

#[derive(Clone)]
enum Data {
    /// Items from byte `start` of the block.
    Plain { buf: Buf, start: usize },
    /// Strings from index `start` of the list.
    Strings { list: Arc<Strings>, start: usize },
}

/// Byte strings that point into shared blocks, so that records can be cut out of a read buffer without a copy.
#[derive(Default)]
pub struct Strings {
    views: Counted<View>,
    bufs: Vec<Buf>,
}

/// Blocks that hold no more than this beside some strings are no waste.
const SPARE_BYTES: usize = 64 << 10;
/// Whether blocks of so many bytes are too much to keep for so many of them.
pub(crate) fn is_waste(kept: usize, used: usize) -> bool {
    kept > 2 * used + SPARE_BYTES
}

/// The same for those who keep rows for long and by the thousand: a page for each of them is much.
pub(super) fn is_loose(held: usize, used: usize) -> bool {
    2 * held > 3 * used + (8 << 10)
}

/// Parts of strings up to this length are copied.
const SHORT: usize = 64;

#[derive(Clone, Copy)]
struct View {
    start: u64,
    len: u64,
    buf: u32,
}

impl Strings {
    pub fn len(&self) -> usize {
        self.views.len()
    }
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }
    pub fn get(&self, i: usize) -> &[u8] {
        let v = self.views[i];
        if v.len == 0 {
            return &[];
        }
        &self.bufs[v.buf as usize].as_slice()[v.start as usize..v.start as usize + v.len as usize]
    }
}

/// Strings of so many bytes get a block of their own: those that grow together are moved again and again.
const LONG_STRING: usize = 1 << 20;
/// So many strings are copied into one block at most.
const MANY_STRINGS: usize = 64 << 10;

/// Collects strings: copied ones share blocks, borrowed ones keep theirs. All of it counts from the start: nobody knows how
/// many strings a function makes of one.
#[derive(Default)]
pub struct StringsBuilder {
    views: Counted<View>,
    bufs: Vec<Buf>,
    /// Copied ones that have no block yet.
    own: Vec<u8>,
    /// Views (by index) that point into `own`.
    owned: Vec<usize>,
}

impl StringsBuilder {
    pub fn with_capacity(n: usize) -> StringsBuilder {
        StringsBuilder { views: Counted::with_capacity(n), ..Default::default() }
    }
    /// Copies the bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.push_parts(std::iter::once(bytes));
    }
    /// The same of parts, one after the other.
    pub fn push_parts<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]> + Clone) {
        let len = parts.clone().map(<[u8]>::len).sum::<usize>();
        if len < LONG_STRING {
            if self.own.len() + len > LONG_STRING || self.owned.len() == MANY_STRINGS {
                self.settle();
            }
            self.owned.push(self.views.len());
            self.views.push(View { buf: u32::MAX, len: len as u64, start: self.own.len() as u64 });
            return parts.for_each(|part| self.own.extend_from_slice(part));
        }
        let mut block = Buf::new(len);
        let mut rest = block.get_mut().expect("a new block has one holder");
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        self.push_view(&block, 0..len);
    }
    /// Points into a block that is kept alive.
    pub fn push_view(&mut self, buf: &Buf, range: Range<usize>) {
        // Rows that were woven together come from a few blocks in turn.
        let at = match self.bufs.iter().rev().take(16).position(|b| b.same(buf)) {
            Some(back) => self.bufs.len() - 1 - back,
            None => {
                self.bufs.push(buf.clone());
                self.bufs.len() - 1
            }
        };
        self.views.push(View { buf: at as u32, len: range.len() as u64, start: range.start as u64 });
    }
    /// Takes a string of another list, sharing its block.
    pub fn push_from(&mut self, list: &Strings, i: usize) {
        let v = list.views[i];
        if v.len == 0 {
            self.push(&[]);
        } else {
            self.push_view(&list.bufs[v.buf as usize], v.start as usize..v.start as usize + v.len as usize);
        }
    }
    pub fn len(&self) -> usize {
        self.views.len()
    }
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }
    /// Gives those that were copied a block.
    fn settle(&mut self) {
        let at = self.bufs.len() as u32;
        self.bufs.push(Buf::copied(&self.own));
        self.own.clear();
        for i in self.owned.drain(..) {
            self.views[i].buf = at;
        }
    }
    pub fn finish(mut self) -> Strings {
        if !self.owned.is_empty() {
            self.settle();
        }
        self.views.fit();
        Strings { views: self.views, bufs: self.bufs }
    }
    /// A tensor of that shape; the number of strings must be its item count.
    pub fn tensor(self, shape: impl IntoShape) -> Tensor {
        let shape = shape.into_shape();
        debug_assert_eq!(shape.iter().product::<usize>(), self.views.len());
        Tensor { dtype: DType::String, shape, data: Data::Strings { list: Arc::new(self.finish()), start: 0 } }
    }
}

impl Tensor {
    /// A tensor with arbitrary contents, to be written through `items_mut` or `bytes_mut`. Not for strings.
    pub fn new(dtype: DType, shape: impl IntoShape) -> Tensor {
        let shape = shape.into_shape();
        assert!(dtype != DType::String, "string tensors are made by a StringsBuilder");
        let bytes = shape.iter().product::<usize>() * dtype.size();
        let buf = take_offer(dtype, bytes).unwrap_or_else(|| Buf::new(bytes));
        Tensor { dtype, shape, data: Data::Plain { buf, start: 0 } }
    }
    /// Zeros, `false` or empty strings.
    pub fn zeros(dtype: DType, shape: impl IntoShape) -> Tensor {
        let shape = shape.into_shape();
        let n = shape.iter().product::<usize>();
        if dtype == DType::String {
            let mut b = StringsBuilder::with_capacity(n);
            (0..n).for_each(|_| b.push(&[]));
            return b.tensor(shape);
        }
        let mut zeros = Tensor::new(dtype, shape);
        zeros.bytes_mut().fill(0);
        zeros
    }
    /// Bytes `start..` of a block as items. The address must be aligned for the dtype.
    pub fn from_buf(dtype: DType, shape: impl IntoShape, buf: Buf, start: usize) -> Result<Tensor> {
        let shape = shape.into_shape();
        let bytes = count(&shape)? * dtype.size();
        if dtype == DType::String || start.checked_add(bytes).is_none_or(|end| end > buf.len()) {
            return Err(Error::internal("a tensor outside its memory"));
        }
        if bytes > 0 && !(buf.as_slice().as_ptr() as usize + start).is_multiple_of(dtype.size()) {
            return Err(Error::internal("a tensor at an unaligned address"));
        }
        Ok(Tensor { dtype, shape, data: Data::Plain { buf, start } })
    }
    pub fn from_items<T: Item>(shape: impl IntoShape, items: &[T]) -> Tensor {
        let mut t = Tensor::new(T::DTYPE, shape);
        t.items_mut::<T>().copy_from_slice(items);
        t
    }
    pub fn scalar<T: Item>(item: T) -> Tensor {
        Tensor::from_items(Shape::new(), &[item])
    }
    pub fn string(bytes: &[u8]) -> Tensor {
        let mut b = StringsBuilder::default();
        b.push(bytes);
        b.tensor(Shape::new())
    }
    pub fn strings<S: AsRef<[u8]>>(shape: impl IntoShape, items: &[S]) -> Tensor {
        let mut b = StringsBuilder::with_capacity(items.len());
        items.iter().for_each(|s| b.push(s.as_ref()));
        b.tensor(shape)
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// The number of items.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The size of the first axis; a scalar has none.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The items. Panics if `T` is not the dtype's type: callers have checked specs by then.
    pub fn items<T: Item>(&self) -> &[T] {
        assert_eq!(T::DTYPE, self.dtype, "items of another dtype");
        let bytes = self.bytes();
        // SAFETY: `Item` types take any bit pattern; constructors keep the start aligned and the length whole.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), self.len()) }
    }
    /// The items for writing; copied first if somebody else holds the memory too.
    pub fn items_mut<T: Item>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "items of another dtype");
        let len = self.len();
        let bytes = self.bytes_mut();
        // SAFETY: as in `items`; `bytes_mut` has the only handle.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<T>(), len) }
    }
    /// The only item of a scalar or one-item tensor.
    pub fn item<T: Item>(&self) -> T {
        self.items::<T>()[0]
    }
    /// The raw bytes of a non-string tensor.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Plain { buf, start } => &buf.as_slice()[*start..*start + self.len() * self.dtype.size()],
            Data::Strings { .. } => panic!("a string tensor has no plain bytes"),
        }
    }
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let n = self.len() * self.dtype.size();
        if !self.is_unique() {
            let mut own = Tensor::new(self.dtype, self.shape.clone());
            own.bytes_mut().copy_from_slice(self.bytes());
            *self = own;
        }
        match &mut self.data {
            Data::Plain { buf, start } => {
                &mut buf.get_mut().expect("checked to be the only handle")[*start..*start + n]
            }
            Data::Strings { .. } => panic!("a string tensor has no plain bytes"),
        }
    }
    /// Whether the memory can be written in place.
    pub fn is_unique(&self) -> bool {
        matches!(&self.data, Data::Plain { buf, .. } if !buf.is_shared() && !buf.is_frozen())
    }
    /// Says that the items are kept and must not change under whoever they are handed to.
    pub fn freeze(&self) {
        if let Data::Plain { buf, .. } = &self.data {
            buf.freeze();
        }
    }
    /// The same, because they are kept for later passes and counted there.
    pub fn keep(&self) {
        if let Data::Plain { buf, .. } = &self.data {
            buf.keep();
        }
    }
    /// Counts its memory as the consumer's, except what is kept for later passes. Strings are copied at the border.
    pub fn hand_out(&self) {
        if let Data::Plain { buf, .. } = &self.data
            && !buf.is_frozen()
        {
            buf.hand_out(self.nbytes());
        }
    }
    /// Whether somebody else keeps the memory alive too.
    pub fn is_shared(&self) -> bool {
        match &self.data {
            Data::Plain { buf, .. } => buf.is_shared() || buf.is_kept(),
            Data::Strings { list, .. } => Arc::strong_count(list) > 1,
        }
    }
    /// Both one after the other without a copy, if `next` lies right behind this in the same memory.
    pub fn joined(&self, next: &Tensor) -> Option<Tensor> {
        let adjacent = match (&self.data, &next.data) {
            (Data::Plain { buf, start }, Data::Plain { buf: other, start: at }) => {
                buf.same(other) && *at == start + self.len() * self.dtype.size()
            }
            (Data::Strings { list, start }, Data::Strings { list: other, start: at }) => {
                Arc::ptr_eq(list, other) && *at == start + self.len()
            }
            _ => false,
        };
        if !adjacent || self.dtype != next.dtype || self.shape[1..] != next.shape[1..] {
            return None;
        }
        let mut shape = self.shape.clone();
        shape[0] += next.shape[0];
        Some(Tensor { dtype: self.dtype, shape, data: self.data.clone() })
    }
    /// What `join` gives, without a copy: for parts that were made side by side in the same memory. Gives them back if
    /// they were not, or if somebody else holds some of them too.
    pub fn rejoin(shape: impl IntoShape, parts: Vec<Tensor>) -> std::result::Result<Tensor, Vec<Tensor>> {
        let adjoin = |w: &[Tensor]| match (&w[0].data, &w[1].data) {
            (Data::Plain { buf: a, start: 0 }, Data::Plain { buf: b, start: 0 }) => {
                (a.len(), b.len()) == (w[0].nbytes(), w[1].nbytes()) && a.adjoins(b)
            }
            _ => false,
        };
        if parts.is_empty() || !parts.windows(2).all(adjoin) {
            return Err(parts);
        }
        let mut parts = parts.into_iter();
        let mut all = parts.next().expect("there is one");
        for part in parts {
            if let (Data::Plain { buf, .. }, Data::Plain { buf: next, .. }) = (&mut all.data, part.data) {
                buf.unsplit(next).expect("checked to be neighbours");
            }
        }
        all.shape = shape.into_shape();
        Ok(all)
    }
    /// The block and the byte at which the items begin. Not for strings.
    pub fn buf(&self) -> (&Buf, usize) {
        match &self.data {
            Data::Plain { buf, start } => (buf, *start),
            Data::Strings { .. } => panic!("a string tensor has no plain bytes"),
        }
    }
    /// String number `i`, in row-major order.
    pub fn str_at(&self, i: usize) -> &[u8] {
        match &self.data {
            Data::Strings { list, start } => list.get(start + i),
            Data::Plain { .. } => panic!("not a string tensor"),
        }
    }
    pub fn strs(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.str_at(i))
    }
    /// Appends string number `i` to others, sharing its block.
    pub fn push_str(&self, b: &mut StringsBuilder, i: usize) {
        match &self.data {
            Data::Strings { list, start } => b.push_from(list, start + i),
            Data::Plain { .. } => panic!("not a string tensor"),
        }
    }
    /// Appends a part of string number `i`, sharing its block; a short one is copied, so that a label does not keep
    /// alive the block of the file that it was read from.
    pub fn push_part(&self, b: &mut StringsBuilder, i: usize, part: Range<usize>) {
        match &self.data {
            Data::Strings { list, start } if part.len() > SHORT => {
                let v = list.views[start + i];
                let from = v.start as usize + part.start;
                assert!(part.end <= v.len as usize, "a part beyond the end");
                b.push_view(&list.bufs[v.buf as usize], from..from + part.len());
            }
            Data::Strings { list, start } => b.push(&list.get(start + i)[part]),
            Data::Plain { .. } => panic!("not a string tensor"),
        }
    }

    /// Bytes held: what a budget counts.
    pub fn nbytes(&self) -> usize {
        match self.dtype {
            DType::String => self.strs().map(|s| s.len() + size_of::<View>()).sum(),
            d => self.len() * d.size(),
        }
    }

    /// Whether its strings keep alive much more than they are: they are small parts of large blocks.
    pub fn is_sparse(&self) -> bool {
        match &self.data {
            Data::Strings { .. } => is_waste(self.blocks().map(Buf::len).sum(), self.nbytes()),
            Data::Plain { .. } => false,
        }
    }
    /// The blocks that it keeps alive.
    pub fn blocks(&self) -> impl Iterator<Item = &Buf> {
        let bufs = match &self.data {
            Data::Strings { list, .. } => &list.bufs[..],
            Data::Plain { buf, .. } => std::slice::from_ref(buf),
        };
        bufs.iter()
    }
    /// Whether it has blocks of its own, of which no other tensor has a part.
    pub fn is_alone(&self) -> bool {
        match &self.data {
            Data::Plain { buf, .. } => buf.len() == self.nbytes(),
            Data::Strings { list, .. } => list.len() == self.len(),
        }
    }
    /// Bytes of the blocks that would be gone without it.
    pub fn held_bytes(&self) -> usize {
        self.blocks().map(Buf::held_bytes).sum()
    }
    /// Bytes that it has of its own: none of what is there anyway, and its share of strings that others have too.
    pub fn own_bytes(&self) -> usize {
        match &self.data {
            Data::Plain { buf, .. } if buf.is_kept() => 0,
            Data::Plain { .. } => self.nbytes(),
            Data::Strings { list, .. } => self.held_bytes() / Arc::strong_count(list),
        }
    }
    /// Whether it keeps nothing alive that another, which came before it, does not.
    pub fn lies_among(&self, before: &Tensor) -> bool {
        match (&self.data, &before.data) {
            (Data::Strings { list: a, .. }, Data::Strings { list: b, .. }) if !Arc::ptr_eq(a, b) => {
                // Records of a file: those of one read lie in one block, or in the last of a few.
                let [one] = &a.bufs[..] else { return false };
                b.bufs.last().is_some_and(|last| last.same(one))
            }
            _ => self.lies_with(before),
        }
    }
    /// Whether it keeps the same blocks alive as another, for sure.
    pub fn lies_with(&self, other: &Tensor) -> bool {
        match (&self.data, &other.data) {
            (Data::Strings { list: a, .. }, Data::Strings { list: b, .. }) => Arc::ptr_eq(a, b),
            (Data::Plain { buf: a, .. }, Data::Plain { buf: b, .. }) => a.as_slice().as_ptr() == b.as_slice().as_ptr(),
            _ => false,
        }
    }
    /// The same items in memory of their own.
    pub fn to_own(&self) -> Tensor {
        match &self.data {
            Data::Strings { .. } => {
                // In one block of just that size: one that grows would take twice as much, and of the C library's memory.
                let mut block = Buf::new(self.strs().map(<[u8]>::len).sum());
                let mut rest = block.get_mut().expect("a new block has one holder");
                for string in self.strs() {
                    let here;
                    (here, rest) = rest.split_at_mut(string.len());
                    here.copy_from_slice(string);
                }
                let (mut own, mut at) = (StringsBuilder::with_capacity(self.len()), 0);
                for string in self.strs() {
                    own.push_view(&block, at..at + string.len());
                    at += string.len();
                }
                own.tensor(&self.shape[..])
            }
            Data::Plain { .. } => {
                let data = Data::Plain { buf: Buf::copied(self.bytes()), start: 0 };
                Tensor { dtype: self.dtype, shape: self.shape.clone(), data }
            }
        }
    }

    /// The same items under another shape of the same count.
    pub fn reshaped(&self, shape: impl IntoShape) -> Tensor {
        let shape = shape.into_shape();
        assert_eq!(shape.iter().product::<usize>(), self.len(), "reshape to another item count");
        Tensor { dtype: self.dtype, shape, data: self.data.clone() }
    }
    pub fn into_reshaped(mut self, shape: impl IntoShape) -> Tensor {
        let shape = shape.into_shape();
        assert_eq!(shape.iter().product::<usize>(), self.len(), "reshape to another item count");
        self.shape = shape;
        self
    }
    /// Rows of the first axis, sharing the memory.
    pub fn slice(&self, rows: Range<usize>) -> Tensor {
        assert!(rows.end <= self.shape[0] && rows.start <= rows.end, "rows outside the tensor");
        let inner: usize = self.shape[1..].iter().product();
        let mut shape = self.shape.clone();
        shape[0] = rows.len();
        Tensor { dtype: self.dtype, shape, data: self.data_at(rows.start * inner) }
    }
    /// One row of the first axis, without that axis.
    pub fn row(&self, i: usize) -> Tensor {
        assert!(i < self.shape[0], "row outside the tensor");
        let shape: Shape = self.shape[1..].into();
        let inner: usize = shape.iter().product();
        Tensor { dtype: self.dtype, shape, data: self.data_at(i * inner) }
    }
    fn data_at(&self, item: usize) -> Data {
        match &self.data {
            Data::Plain { buf, start } => Data::Plain { buf: buf.clone(), start: start + item * self.dtype.size() },
            Data::Strings { list, start } => Data::Strings { list: list.clone(), start: start + item },
        }
    }

    /// Rows `index` of the first axis, copied one after the other.
    pub fn take(&self, index: &[usize]) -> Tensor {
        let mut shape = self.shape.clone();
        shape[0] = index.len();
        let inner: usize = self.shape[1..].iter().product();
        if self.dtype == DType::String {
            let mut b = StringsBuilder::with_capacity(index.len() * inner);
            index.iter().for_each(|&i| (i * inner..(i + 1) * inner).for_each(|j| self.push_str(&mut b, j)));
            return b.tensor(shape);
        }
        let mut out = Tensor::new(self.dtype, shape);
        let row = inner * self.dtype.size();
        let from = self.bytes();
        let to = out.bytes_mut();
        // Fixed sizes let the copy become a register move for the commonest scalar rows.
        match row {
            8 => gather::<8>(from, index, to),
            4 => gather::<4>(from, index, to),
            1 => gather::<1>(from, index, to),
            0 => {}
            _ => {
                for (&i, slot) in index.iter().zip(to.chunks_exact_mut(row)) {
                    slot.copy_from_slice(&from[i * row..(i + 1) * row]);
                }
            }
        }
        out
    }

    /// The same strings, each in memory of its own: they no longer keep alive what they were cut out of.
    pub fn detached(&self) -> Tensor {
        let mut b = StringsBuilder::with_capacity(self.len());
        self.strs().for_each(|s| b.push_view(&Buf::copied(s), 0..s.len()));
        b.tensor(self.shape.clone())
    }

    /// Rows of several string tensors of equal inner shape; `part` of a row is its tensor's place in the list.
    pub fn gathered_strings(parts: &[&Tensor], rows: &[super::RowRef], shape: impl IntoShape) -> Tensor {
        const NONE: u32 = u32::MAX;
        let inner: usize = parts[0].shape[1..].iter().product();
        let lists: Vec<(&Strings, usize)> = parts
            .iter()
            .map(|t| match &t.data {
                Data::Strings { list, start } => (&**list, *start),
                Data::Plain { .. } => panic!("not a string tensor"),
            })
            .collect();
        // The number that each block of each part has here, once it is used.
        let mut places: Vec<Vec<u32>> = lists.iter().map(|(list, _)| vec![NONE; list.bufs.len()]).collect();
        let mut out = Strings { views: Counted::with_capacity(rows.len() * inner), bufs: Vec::new() };
        for r in rows {
            let (part, row) = (r.part as usize, r.row as usize);
            let (list, start) = lists[part];
            for view in &list.views[start + row * inner..start + (row + 1) * inner] {
                if view.len == 0 {
                    out.views.push(View { start: 0, len: 0, buf: 0 });
                    continue;
                }
                let place = &mut places[part][view.buf as usize];
                if *place == NONE {
                    *place = out.bufs.len() as u32;
                    out.bufs.push(list.bufs[view.buf as usize].clone());
                }
                out.views.push(View { buf: *place, ..*view });
            }
        }
        Tensor {
            dtype: DType::String,
            shape: shape.into_shape(),
            data: Data::Strings { list: Arc::new(out), start: 0 },
        }
    }

    /// Tensors of equal inner shape and dtype, one after the other along the first axis.
    pub fn concat(parts: &[Tensor]) -> Tensor {
        if let [one] = parts {
            return one.clone();
        }
        let first = &parts[0];
        let mut shape: Shape = first.shape.clone();
        shape[0] = parts.iter().map(|t| t.shape[0]).sum();
        Tensor::join(first.dtype, shape, parts.iter())
    }
    /// Tensors of equal shape and dtype under a new first axis.
    pub fn stack(parts: &[Tensor]) -> Tensor {
        let mut shape: Shape = SmallVec::with_capacity(parts[0].rank() + 1);
        shape.push(parts.len());
        shape.extend_from_slice(&parts[0].shape);
        Tensor::join(parts[0].dtype, shape, parts.iter())
    }
    /// The items of all parts in order, as one tensor of that shape.
    pub fn join<T: std::borrow::Borrow<Tensor>>(
        dtype: DType,
        shape: impl IntoShape,
        parts: impl Iterator<Item = T>,
    ) -> Tensor {
        let shape = shape.into_shape();
        if dtype == DType::String {
            let mut b = StringsBuilder::default();
            parts.for_each(|t| (0..t.borrow().len()).for_each(|i| t.borrow().push_str(&mut b, i)));
            return b.tensor(shape);
        }
        let mut out = Tensor::new(dtype, shape);
        let mut to = out.bytes_mut();
        for part in parts {
            let from = part.borrow().bytes();
            let (head, rest) = to.split_at_mut(from.len());
            head.copy_from_slice(from);
            to = rest;
        }
        out
    }
}

fn gather<const N: usize>(from: &[u8], index: &[usize], to: &mut [u8]) {
    for (&i, slot) in index.iter().zip(to.as_chunks_mut::<N>().0) {
        slot.copy_from_slice(&from[i * N..i * N + N]);
    }
}

impl PartialEq for Tensor {
    /// Equal dtype, shape and items (floats by value: NaN differs from itself).
    fn eq(&self, other: &Tensor) -> bool {
        if self.dtype != other.dtype || self.shape != other.shape {
            return false;
        }
        crate::with_item!(self.dtype, T => self.items::<T>() == other.items::<T>();
                          String => self.strs().eq(other.strs()))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape.as_slice())?;
        const SHOW: usize = 8;
        f.write_str(" [")?;
        for i in 0..self.len().min(SHOW) {
            if i > 0 {
                f.write_str(", ")?;
            }
            crate::with_item!(self.dtype, T => write!(f, "{:?}", self.items::<T>()[i])?;
                              String => write!(f, "{:?}", String::from_utf8_lossy(self.str_at(i)))?);
        }
        f.write_str(if self.len() > SHOW { ", …]" } else { "]" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Chunk, Column, Pos};

    #[test]
    fn rows_share_and_copies_do_not() {
        let t = Tensor::from_items([3, 2], &[1i64, 2, 3, 4, 5, 6]);
        assert_eq!(t.slice(1..3).items::<i64>(), [3, 4, 5, 6]);
        assert_eq!(t.row(2), Tensor::from_items([2], &[5i64, 6]));
        let mut s = t.slice(0..1);
        s.items_mut::<i64>()[0] = 9;
        assert_eq!(t.items::<i64>()[0], 1);
        assert_eq!(t.take(&[2, 0]).items::<i64>(), [5, 6, 1, 2]);
    }

    #[test]
    fn strings_keep_their_bytes() {
        let t = Tensor::strings([2, 2], &["a", "", "ccc", "\u{e9}"]);
        assert_eq!(t.take(&[1]).str_at(0), b"ccc");
        assert_eq!(Tensor::concat(&[t.slice(0..1), t.slice(1..2)]), t);
        assert_eq!(Tensor::stack(&[t.row(0), t.row(1)]), t);
        assert_eq!(Tensor::zeros(DType::String, [2]).str_at(1), b"");
    }

    #[test]
    fn strings_are_sparse_in_blocks_of_which_they_are_a_small_part() {
        let block = Buf::copied(&vec![b'x'; 1 << 20]);
        let cut = |n: usize, len: usize| {
            let mut b = StringsBuilder::default();
            (0..n).for_each(|i| b.push_view(&block, i * 1000..i * 1000 + len));
            b.tensor([n])
        };
        assert!(cut(1, 1000).is_sparse() && cut(300, 1000).is_sparse());
        assert!(!cut(1000, 1000).is_sparse() && !cut(600, 1000).is_sparse());
        // One that stands in many rows is there once.
        assert!(!Tensor::strings([1], &["y"]).is_sparse() && !Tensor::from_items([1], &[1i64]).is_sparse());
        let chunk = |t: Tensor| Chunk::new(t.shape()[0], Pos::Run(0), [Column::Dense(t)]);
        let (few, all) = (chunk(cut(3, 1000)).without_waste(), chunk(cut(1000, 1000)).without_waste());
        assert_eq!(*few.element(2)[0].tensor(), cut(3, 1000).row(2));
        assert!(block.is_shared(), "most of it is used");
        drop(all);
        assert!(!block.is_shared(), "few strings do not keep it");
    }

    #[test]
    fn too_large_shapes_are_refused() {
        assert!(count(&[usize::MAX, 2]).is_err());
        assert_eq!(count(&[0, usize::MAX]).unwrap(), 0);
    }
}
