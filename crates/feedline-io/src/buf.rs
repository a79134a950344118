//! Memory for tensors: aligned, shared by counting, and kept for reuse when the last holder lets go.
//!
//! A fresh 38 MB allocation per batch costs nine times what a reused one does (page faults), so blocks of 4 KiB and more
//! go back to a free list by size class. Memory is zeroed once when it comes from the system and holds arbitrary old
//! bytes after reuse: always initialised, never cleared twice.

use crate::fork::brief;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What NumPy, JAX and TensorFlow want of an address to take it without a copy.
pub const ALIGN: usize = 64;
const PAGE: usize = 4096;
/// Kept for reuse at most, over all size classes.
const KEEP_BYTES: usize = 256 << 20;
const CLASSES: usize = 64;

/// A block of bytes. Cloning shares it.
#[derive(Clone)]
pub struct Buf(Arc<Block>);

struct Block {
    ptr: NonNull<u8>,
    len: usize,
    owner: Owner,
    /// Somebody keeps it for later passes: it must not be handed out for writing.
    frozen: AtomicBool,
}

enum Owner {
    /// Ours alone.
    Pool(Memory),
    /// A range of ours that no other block has.
    Part(Arc<Memory>),
    /// Somebody else's memory (a NumPy array), alive as long as this is.
    Foreign { _keep: Box<dyn Any + Send + Sync> },
    /// Memory from elsewhere that is nobody else's now.
    Adopted { _keep: Box<dyn Any + Send + Sync> },
}

/// Memory of the pool, to which it goes back.
struct Memory {
    ptr: NonNull<u8>,
    cap: usize,
}

// SAFETY: a block is plain bytes; it is written only through `Buf::get_mut`, which asks for the only handle.
unsafe impl Send for Block {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Block {}
// SAFETY: it is reached only through blocks, which see to who reads and writes.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Buf {
    /// `len` bytes with arbitrary contents.
    pub fn new(len: usize) -> Buf {
        let cap = capacity(len);
        let ptr = FREE.take(cap).unwrap_or_else(|| system_alloc(cap));
        Buf::of(ptr, len, Owner::Pool(Memory { ptr, cap }))
    }

    fn of(ptr: NonNull<u8>, len: usize, owner: Owner) -> Buf {
        let frozen = matches!(owner, Owner::Foreign { .. });
        Buf(Arc::new(Block { ptr, len, owner, frozen: AtomicBool::new(frozen) }))
    }

    /// A copy of these bytes.
    pub fn copied(bytes: &[u8]) -> Buf {
        let mut buf = Buf::new(bytes.len());
        buf.get_mut().expect("a new block has one holder").copy_from_slice(bytes);
        buf
    }

    pub fn zeroed(len: usize) -> Buf {
        let mut buf = Buf::new(len);
        buf.get_mut().expect("a new block has one holder").fill(0);
        buf
    }

    /// Borrows memory that `keep` owns.
    ///
    /// # Safety
    /// `ptr` must be valid for reads of `len` bytes, and nobody may write them, as long as `keep` lives.
    pub unsafe fn foreign(ptr: *const u8, len: usize, keep: Box<dyn Any + Send + Sync>) -> Buf {
        let ptr = NonNull::new(ptr.cast_mut()).unwrap_or(NonNull::dangling());
        Buf::of(ptr, len, Owner::Foreign { _keep: keep })
    }

    /// Takes over memory that `keep` owns and nobody else uses: it can be written as our own can.
    ///
    /// # Safety
    /// `ptr` must be valid for reads and writes of `len` bytes as long as `keep` lives, and nobody else may touch them.
    pub unsafe fn adopted(ptr: *mut u8, len: usize, keep: Box<dyn Any + Send + Sync>) -> Buf {
        let ptr = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        Buf::of(ptr, len, Owner::Adopted { _keep: keep })
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: ptr is valid for len initialised bytes as long as the block lives.
        unsafe { std::slice::from_raw_parts(self.0.ptr.as_ptr(), self.0.len) }
    }

    /// The bytes for writing, if this is the only handle and the memory is ours.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let block = Arc::get_mut(&mut self.0)?;
        match block.owner {
            Owner::Pool(_) | Owner::Part(_) | Owner::Adopted { .. } => {
                // SAFETY: the only handle of memory that is ours alone; parts do not overlap.
                Some(unsafe { std::slice::from_raw_parts_mut(block.ptr.as_ptr(), block.len) })
            }
            Owner::Foreign { .. } => None,
        }
    }

    /// Cuts off the first `at` bytes as a block of their own: both parts can be written, by different threads, and the
    /// memory goes back to the pool after the last of them. `None` if this is not the only handle or is not ours.
    pub fn split_to(&mut self, at: usize) -> Option<Buf> {
        let block = Arc::get_mut(&mut self.0).filter(|b| at <= b.len)?;
        let nobodys = Owner::Foreign { _keep: Box::new(()) };
        let memory = match std::mem::replace(&mut block.owner, nobodys) {
            Owner::Pool(memory) => Arc::new(memory),
            Owner::Part(memory) => memory,
            foreign => {
                block.owner = foreign;
                return None;
            }
        };
        let front = Buf::of(block.ptr, at, Owner::Part(memory.clone()));
        block.owner = Owner::Part(memory);
        // SAFETY: at most the length was cut off; the end of an allocation can still be pointed to.
        block.ptr = unsafe { block.ptr.add(at) };
        block.len -= at;
        Some(front)
    }

    /// Whether `next` lies right behind this in the same memory and nobody else holds either.
    pub fn adjoins(&self, next: &Buf) -> bool {
        let (Owner::Part(a), Owner::Part(b)) = (&self.0.owner, &next.0.owner) else { return false };
        let ours = |b: &Buf| !b.is_shared() && !b.is_frozen();
        let end = self.as_slice().as_ptr_range().end;
        Arc::ptr_eq(a, b) && end == next.as_slice().as_ptr() && ours(self) && ours(next)
    }

    /// The inverse of `split_to`: takes in `next` without a copy if it adjoins, and gives it back otherwise.
    pub fn unsplit(&mut self, next: Buf) -> Result<(), Buf> {
        let adjoins = self.adjoins(&next);
        match Arc::get_mut(&mut self.0) {
            // `next` ends here: from now on its bytes are this block's alone.
            Some(block) if adjoins => {
                block.len += next.len();
                Ok(())
            }
            _ => Err(next),
        }
    }

    /// Only the first `len` bytes of it. It must be the only handle.
    pub fn truncated(mut self, len: usize) -> Buf {
        if let Some(block) = Arc::get_mut(&mut self.0) {
            block.len = block.len.min(len);
        }
        self
    }
    pub fn len(&self) -> usize {
        self.0.len
    }
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }
    /// Says that its contents are kept (by a source, a cache, a constant) and must stay as they are.
    pub fn freeze(&self) {
        self.0.frozen.store(true, Relaxed);
    }
    /// Whether it may only be read: frozen, or somebody else's memory.
    pub fn is_frozen(&self) -> bool {
        self.0.frozen.load(Relaxed)
    }
    /// Whether it is memory of somebody else, who may write to it.
    pub fn is_foreign(&self) -> bool {
        matches!(self.0.owner, Owner::Foreign { .. })
    }
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    pub fn same(&self, other: &Buf) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !FREE.give(self.cap, self.ptr) {
            system_free(self.ptr, self.cap);
        }
    }
}

/// Rounds up so that few distinct sizes exist: multiples of 64 below a page, then four classes per power of two.
fn capacity(len: usize) -> usize {
    if len <= PAGE {
        return len.max(1).next_multiple_of(ALIGN);
    }
    let step = (len.next_power_of_two() / 8).max(PAGE);
    len.next_multiple_of(step)
}

fn layout(cap: usize) -> Layout {
    Layout::from_size_align(cap, if cap >= PAGE { PAGE } else { ALIGN })
        .expect("a tensor larger than the address space")
}

fn system_alloc(cap: usize) -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let ptr = unsafe { alloc_zeroed(layout(cap)) };
    let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout(cap)) };
    #[cfg(target_os = "linux")]
    if cap >= 4 << 20 {
        // SAFETY: advice on our own fresh mapping; its result does not matter.
        unsafe { libc::madvise(ptr.as_ptr().cast(), cap, libc::MADV_HUGEPAGE) };
    }
    ptr
}

fn system_free(ptr: NonNull<u8>, cap: usize) {
    // SAFETY: allocated by `system_alloc` with the same capacity, hence the same layout.
    unsafe { dealloc(ptr.as_ptr(), layout(cap)) }
}

/// Blocks with their capacities.
type FreeList = Mutex<Vec<(usize, NonNull<u8>)>>;

/// The free lists, one for each number of leading bits.
struct Free {
    lists: [FreeList; CLASSES],
    kept: AtomicUsize,
}

// SAFETY: the pointers in the lists belong to nobody else.
unsafe impl Sync for Free {}

static FREE: Free = Free { lists: [const { Mutex::new(Vec::new()) }; CLASSES], kept: AtomicUsize::new(0) };

impl Free {
    fn list(&self, cap: usize) -> &FreeList {
        &self.lists[cap.ilog2() as usize]
    }
    fn take(&self, cap: usize) -> Option<NonNull<u8>> {
        if cap < PAGE {
            return None;
        }
        let _brief = brief();
        let mut list = self.list(cap).lock().ok()?;
        let at = list.iter().rposition(|(c, _)| *c == cap)?;
        self.kept.fetch_sub(cap, Relaxed);
        Some(list.swap_remove(at).1)
    }
    /// False if it was not kept.
    fn give(&self, cap: usize, ptr: NonNull<u8>) -> bool {
        if cap < PAGE || self.kept.load(Relaxed) + cap > KEEP_BYTES {
            return false;
        }
        let _brief = brief();
        let Ok(mut list) = self.list(cap).lock() else { return false };
        if list.len() >= 64 {
            return false;
        }
        self.kept.fetch_add(cap, Relaxed);
        list.push((cap, ptr));
        true
    }
}

/// Bytes kept for reuse now.
pub fn kept_bytes() -> usize {
    FREE.kept.load(Relaxed)
}

/// Gives all kept memory back to the system.
pub fn release_kept() {
    for list in &FREE.lists {
        let brief = brief();
        let Ok(blocks) = list.lock().map(|mut list| std::mem::take(&mut *list)) else { continue };
        drop(brief);
        for (cap, ptr) in blocks {
            FREE.kept.fetch_sub(cap, Relaxed);
            system_free(ptr, cap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_reused() {
        let a = Buf::new(1 << 20);
        assert_eq!(a.as_slice().as_ptr() as usize % PAGE, 0);
        let at = a.as_slice().as_ptr();
        drop(a);
        let b = Buf::new(1 << 20);
        let c = Buf::new(1 << 20);
        assert!(b.as_slice().as_ptr() == at || c.as_slice().as_ptr() == at || kept_bytes() > 0);
        assert_eq!(Buf::new(10).as_slice().as_ptr() as usize % ALIGN, 0);
    }

    #[test]
    fn only_the_only_holder_writes() {
        let mut a = Buf::zeroed(8);
        let b = a.clone();
        assert!(a.get_mut().is_none());
        drop(b);
        assert!(a.get_mut().is_some());
    }

    #[test]
    fn parts_are_written_apart_and_join_without_a_copy() {
        let mut rest = Buf::zeroed(3 * PAGE);
        let at = rest.as_slice().as_ptr();
        let mut a = rest.split_to(PAGE).unwrap();
        let mut b = rest.split_to(PAGE).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| a.get_mut().unwrap().fill(1));
            s.spawn(|| b.get_mut().unwrap().fill(2));
        });
        assert!(a.split_to(PAGE + 1).is_none(), "more than there is");
        let held = b.clone();
        b = a.unsplit(b).unwrap_err();
        drop(held);
        rest = a.unsplit(rest).unwrap_err();
        a.unsplit(b).unwrap();
        assert_eq!((a.as_slice().as_ptr(), a.len()), (at, 2 * PAGE));
        a.unsplit(rest).unwrap();
        assert_eq!([0, PAGE - 1, PAGE, 2 * PAGE - 1, 2 * PAGE].map(|i| a.as_slice()[i]), [1, 1, 2, 2, 0]);
        assert!(a.get_mut().is_some());
    }

    #[test]
    fn only_parts_of_one_memory_that_nobody_keeps_join() {
        let [mut a, mut b] = [Buf::zeroed(8), Buf::zeroed(8)];
        let first = a.split_to(4).unwrap();
        let second = b.split_to(4).unwrap();
        let mut first = first;
        let second = first.unsplit(second).unwrap_err();
        assert_eq!(second.len(), 4);
        first.freeze();
        assert!(first.unsplit(a).is_err(), "frozen");
        let keep = Box::new([0u8; 8]);
        // SAFETY: the array lives in the box, which the block keeps.
        let mut foreign = unsafe { Buf::foreign(keep.as_ptr(), 8, keep) };
        assert!(foreign.split_to(4).is_none() && foreign.len() == 8);
    }
}
