//! Memory for tensors: aligned, shared by counting, and kept for reuse when the last holder lets go.
//!
//! A fresh 38 MB allocation per batch costs nine times what a reused one does (page faults), so blocks of 4 KiB and more
//! go back to a free list by size class. Memory is zeroed once when it comes from the system and holds arbitrary old
//! bytes after reuse: always initialised, never cleared twice.

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
    /// Ours; `usize` is the capacity.
    Pool(usize),
    /// Somebody else's memory (a NumPy array), alive as long as this is.
    Foreign { _keep: Box<dyn Any + Send + Sync> },
    /// Memory from elsewhere that is nobody else's now.
    Adopted { _keep: Box<dyn Any + Send + Sync> },
}

// SAFETY: a block is plain bytes; it is written only through `Buf::get_mut`, which asks for the only handle.
unsafe impl Send for Block {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Block {}

impl Buf {
    /// `len` bytes with arbitrary contents.
    pub fn new(len: usize) -> Buf {
        let cap = capacity(len);
        let ptr = FREE.take(cap).unwrap_or_else(|| system_alloc(cap));
        Buf(Arc::new(Block { ptr, len, owner: Owner::Pool(cap), frozen: AtomicBool::new(false) }))
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
        Buf(Arc::new(Block { ptr, len, owner: Owner::Foreign { _keep: keep }, frozen: AtomicBool::new(true) }))
    }

    /// Takes over memory that `keep` owns and nobody else uses: it can be written as our own can.
    ///
    /// # Safety
    /// `ptr` must be valid for reads and writes of `len` bytes as long as `keep` lives, and nobody else may touch them.
    pub unsafe fn adopted(ptr: *mut u8, len: usize, keep: Box<dyn Any + Send + Sync>) -> Buf {
        let ptr = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        Buf(Arc::new(Block { ptr, len, owner: Owner::Adopted { _keep: keep }, frozen: AtomicBool::new(false) }))
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: ptr is valid for len initialised bytes as long as the block lives.
        unsafe { std::slice::from_raw_parts(self.0.ptr.as_ptr(), self.0.len) }
    }

    /// The bytes for writing, if this is the only handle and the memory is ours.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let block = Arc::get_mut(&mut self.0)?;
        match block.owner {
            Owner::Pool(_) | Owner::Adopted { .. } => {
                // SAFETY: the only handle, of memory that is ours alone.
                Some(unsafe { std::slice::from_raw_parts_mut(block.ptr.as_ptr(), block.len) })
            }
            Owner::Foreign { .. } => None,
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

impl Drop for Block {
    fn drop(&mut self) {
        if let Owner::Pool(cap) = self.owner
            && !FREE.give(cap, self.ptr)
        {
            system_free(self.ptr, cap);
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
        let Ok(mut list) = list.lock() else { continue };
        for (cap, ptr) in list.drain(..) {
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
}
