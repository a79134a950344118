//! Memory for tensors: aligned, shared by counting, and kept for reuse when the last holder lets go.
//!
//! A fresh 38 MB allocation per batch costs nine times what a reused one does (page faults), so blocks of 4 KiB and more
//! go back to a free list by size class. Memory is zeroed once when it comes from the system and holds arbitrary old
//! bytes after reuse: always initialised, never cleared twice.
//!
//! What is kept counts: together with the blocks in use it stays within what the pipelines that run may have. What is not
//! kept is gone at once, which the C library's allocator does not promise (it keeps an arena for each thread, and holes
//! in them): blocks of a page and more are cut out of slabs, whose pages are given back one block at a time while the
//! addresses stay for the next block of that size; large ones are mappings of their own.

use crate::account::{Charge, live_bytes, room};
use crate::fork::brief;
use crate::spare::{give_back_spare, spare_bytes};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What NumPy, JAX and TensorFlow want of an address to take it without a copy.
pub const ALIGN: usize = 64;
const PAGE: usize = 4096;
/// What stands around a small block: what counts its holders, and what the C library takes to align both. Of a million short
/// rows that is most.
const AROUND: usize = 192;
/// Kept for reuse at most, over all size classes.
const KEEP_BYTES: usize = 192 << 20;
/// Four sizes for each power of two.
const CLASSES: usize = 4 * 65;
/// Blocks from this size on are mappings of their own. A process may have some ten thousand of these.
const MAPPED: usize = 1 << 20;
/// Smaller ones are cut out of mappings of this size.
const SLAB: usize = 16 << 20;
/// Blocks that are looked for at once when some have to go.
const AT_ONCE: usize = 32;

/// A block of bytes. Cloning shares it.
#[derive(Clone)]
pub struct Buf(Arc<Block>);

struct Block {
    ptr: NonNull<u8>,
    len: usize,
    owner: Owner,
    /// Whether it must stay as it is, and why: `FROZEN`, `KEPT` or neither.
    state: AtomicU8,
}

/// Somebody else reads it, too: it must not be handed out for writing.
const FROZEN: u8 = 1;
/// Somebody keeps it for later passes, and counts it: it is there whoever else has it.
const KEPT: u8 = 2;

enum Owner {
    /// Ours alone.
    Pool(Memory),
    /// A range of ours that no other block has.
    Part(Arc<Memory>),
    /// Somebody else's memory (a NumPy array), alive as long as this is. So many bytes go with it if nobody else has it.
    Foreign { keep: Box<dyn Any + Send + Sync>, claimed: AtomicUsize },
    /// Memory from elsewhere that is nobody else's now.
    Adopted { _keep: Box<dyn Any + Send + Sync>, charge: Charge },
}

impl Owner {
    fn foreign(keep: Box<dyn Any + Send + Sync>) -> Owner {
        Owner::Foreign { keep, claimed: AtomicUsize::new(0) }
    }
}

/// Memory of the pool, to which it goes back.
struct Memory {
    ptr: NonNull<u8>,
    cap: usize,
    charge: Charge,
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
        let charge = Charge::new(if cap < PAGE { cap + AROUND } else { cap });
        let ptr = if cap < PAGE { small_alloc(cap) } else { FREE.take(cap) };
        Buf::of(ptr, len, Owner::Pool(Memory { ptr, cap, charge }))
    }

    fn of(ptr: NonNull<u8>, len: usize, owner: Owner) -> Buf {
        let state = if let Owner::Foreign { .. } = owner { KEPT } else { 0 };
        Buf(Arc::new(Block { ptr, len, owner, state: AtomicU8::new(state) }))
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
        Buf::of(ptr, len, Owner::foreign(keep))
    }

    /// Takes over memory that `keep` owns and nobody else uses: it can be written as our own can.
    ///
    /// # Safety
    /// `ptr` must be valid for reads and writes of `len` bytes as long as `keep` lives, and nobody else may touch them.
    pub unsafe fn adopted(ptr: *mut u8, len: usize, keep: Box<dyn Any + Send + Sync>) -> Buf {
        let ptr = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        Buf::of(ptr, len, Owner::Adopted { _keep: keep, charge: Charge::taken(len) })
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
        let memory = match std::mem::replace(&mut block.owner, Owner::foreign(Box::new(()))) {
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
    /// Says that its contents must stay as they are.
    pub fn freeze(&self) {
        self.0.state.fetch_max(FROZEN, Relaxed);
    }
    /// The same, because they are kept for later passes (by a source, a cache, a constant) and counted there.
    pub fn keep(&self) {
        self.0.state.fetch_max(KEPT, Relaxed);
    }
    /// Says of somebody else's memory that nobody else has it: it is not there anyway, but gone with its last holder, and so are
    /// as many bytes.
    pub fn claim(&self, bytes: usize) {
        if let Owner::Foreign { claimed, .. } = &self.0.owner {
            claimed.store(bytes, Relaxed);
            self.0.state.store(FROZEN, Relaxed);
        }
    }
    /// What owns it, if it is somebody else's memory.
    pub fn keeper(&self) -> Option<&(dyn Any + Send + Sync)> {
        match &self.0.owner {
            Owner::Foreign { keep, .. } => Some(&**keep),
            _ => None,
        }
    }
    /// Whether it may only be read: frozen, or somebody else's memory.
    pub fn is_frozen(&self) -> bool {
        self.0.state.load(Relaxed) >= FROZEN
    }
    /// Whether it is there anyway, whoever else has it: kept, or somebody else's memory that was not claimed.
    pub fn is_kept(&self) -> bool {
        self.0.state.load(Relaxed) == KEPT
    }
    /// Bytes that are gone no sooner than this is; none of what is there anyway. Of parts, each has its own.
    pub fn held_bytes(&self) -> usize {
        match &self.0.owner {
            _ if self.is_kept() => 0,
            Owner::Pool(memory) => memory.cap,
            Owner::Foreign { claimed, .. } => claimed.load(Relaxed),
            Owner::Part(_) | Owner::Adopted { .. } => self.len(),
        }
    }
    /// The same for whoever was given it to keep: nothing of what others have, too, which is said to be there anyway.
    pub fn own_bytes(&self) -> usize {
        if self.is_shared() {
            self.keep();
        }
        self.held_bytes()
    }
    /// Whether it is memory of somebody else, who may write to it.
    pub fn is_foreign(&self) -> bool {
        matches!(self.0.owner, Owner::Foreign { .. })
    }
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    /// Counts so many more of its bytes as the consumer's from now on.
    pub fn hand_out(&self, bytes: usize) {
        match &self.0.owner {
            // With the last of them goes what the capacity has beyond them.
            Owner::Pool(memory) => memory.charge.hand_out(if bytes >= self.len() { usize::MAX } else { bytes }),
            Owner::Part(memory) => memory.charge.hand_out(bytes),
            Owner::Adopted { charge, .. } => charge.hand_out(bytes),
            Owner::Foreign { .. } => {}
        }
    }
    fn charge(&self) -> Option<&Charge> {
        match &self.0.owner {
            Owner::Pool(memory) => Some(&memory.charge),
            Owner::Part(memory) => Some(&memory.charge),
            Owner::Adopted { charge, .. } => Some(charge),
            Owner::Foreign { .. } => None,
        }
    }
    /// Whether the account that this thread works for is charged with it.
    pub fn is_own(&self) -> bool {
        self.charge().is_some_and(Charge::is_own)
    }
    /// Takes back what the consumer had of it.
    pub fn take_back(&self) {
        if let Some(charge) = self.charge() {
            charge.take_back();
        }
    }
    /// Charges its memory to the account that this thread works for, if nobody else holds it.
    pub fn take_over(&mut self) {
        match Arc::get_mut(&mut self.0).map(|block| &mut block.owner) {
            Some(Owner::Pool(memory)) => memory.charge.take_over(),
            Some(Owner::Adopted { charge, .. }) => charge.take_over(),
            _ => {}
        }
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
        match self.cap < PAGE {
            true => small_free(self.ptr, self.cap),
            false => FREE.give(self.cap, self.ptr, self.charge.counted()),
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

fn small_alloc(cap: usize) -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let ptr = unsafe { alloc_zeroed(layout(cap)) };
    NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout(cap)))
}

fn small_free(ptr: NonNull<u8>, cap: usize) {
    // SAFETY: allocated by `small_alloc` with the same capacity, hence the same layout.
    unsafe { dealloc(ptr.as_ptr(), layout(cap)) }
}

/// Fresh pages, which are zero.
fn map(bytes: usize, huge: bool) -> NonNull<u8> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let ptr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    let ptr = if ptr == libc::MAP_FAILED { None } else { NonNull::new(ptr.cast::<u8>()) };
    let ptr = ptr.unwrap_or_else(|| handle_alloc_error(layout(bytes)));
    #[cfg(target_os = "linux")]
    {
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: advice on our own fresh mapping; its result does not matter.
        unsafe { libc::madvise(ptr.as_ptr().cast(), bytes, advice) };
    }
    ptr
}

/// Blocks of one capacity, the longest idle in front; each with the moment since which nobody uses it.
type Blocks = Mutex<VecDeque<(usize, NonNull<u8>)>>;

/// Memory of a page and more that nobody uses.
struct Free {
    /// Blocks with their pages.
    warm: [Blocks; CLASSES],
    /// Blocks of slabs whose pages were given back.
    cold: [Blocks; CLASSES],
    /// Bytes of the warm ones.
    kept: AtomicUsize,
    /// Counts the blocks that were given back: the clock by which one is idle for longer than another.
    clock: AtomicUsize,
    slab: Mutex<Slab>,
}

/// What is left of the last slab.
struct Slab {
    next: *mut u8,
    left: usize,
}

// SAFETY: the pointers in the lists belong to nobody else.
unsafe impl Sync for Free {}

static FREE: Free = Free::new();

/// The number of a capacity of a page or more.
const fn class(cap: usize) -> usize {
    let power = cap.next_power_of_two();
    4 * power.trailing_zeros() as usize + (cap / (power / 8)).saturating_sub(5)
}

/// The capacity of a class.
fn capacity_of(class: usize) -> usize {
    (1 << (class / 4)) / 8 * (class % 4 + 5)
}

fn held(blocks: &Blocks) -> MutexGuard<'_, VecDeque<(usize, NonNull<u8>)>> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Free {
    const fn new() -> Self {
        Free {
            warm: [const { Mutex::new(VecDeque::new()) }; CLASSES],
            cold: [const { Mutex::new(VecDeque::new()) }; CLASSES],
            kept: AtomicUsize::new(0),
            clock: AtomicUsize::new(0),
            slab: Mutex::new(Slab { next: std::ptr::null_mut(), left: 0 }),
        }
    }
    fn take(&self, cap: usize) -> NonNull<u8> {
        if let Some(ptr) = self.reuse(cap) {
            return ptr;
        }
        self.make_room(cap);
        match cap >= MAPPED {
            true => map(cap, cap >= 4 << 20),
            false => self.thaw(cap).unwrap_or_else(|| self.cut(cap)),
        }
    }
    /// The kept block that was used last, whose pages are likeliest in the processor's cache.
    fn reuse(&self, cap: usize) -> Option<NonNull<u8>> {
        let _brief = brief();
        let (_, ptr) = held(&self.warm[class(cap)]).pop_back()?;
        self.kept.fetch_sub(cap, Relaxed);
        Some(ptr)
    }
    /// A block whose pages were given back.
    fn thaw(&self, cap: usize) -> Option<NonNull<u8>> {
        let _brief = brief();
        held(&self.cold[class(cap)]).pop_back().map(|(_, ptr)| ptr)
    }
    /// A new block of a slab.
    fn cut(&self, cap: usize) -> NonNull<u8> {
        let _brief = brief();
        let mut slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        if slab.left < cap {
            // What is left of the last one is never touched, and so takes no memory.
            *slab = Slab { next: map(SLAB, false).as_ptr(), left: SLAB };
        }
        let ptr = slab.next;
        // SAFETY: there are `left` bytes from here on, which nobody has.
        slab.next = unsafe { ptr.add(cap) };
        slab.left -= cap;
        NonNull::new(ptr).expect("a mapping is not at zero")
    }
    /// Takes a block back, of which so many bytes are among the live ones still: the consumer's are not.
    fn give(&self, cap: usize, ptr: NonNull<u8>, counted: usize) {
        self.keep(cap, ptr, live_bytes().saturating_sub(counted).saturating_add(spare_bytes()), room());
    }
    /// Keeps a block, and gives those back that are idle for longest where too much would be kept: a few large
    /// blocks that come and go all the time must not be crowded out by many that nobody asks for any more.
    fn keep(&self, cap: usize, ptr: NonNull<u8>, live: usize, room: usize) {
        if cap > KEEP_BYTES || live.saturating_add(cap) > room {
            return self.release(cap, ptr);
        }
        {
            let _brief = brief();
            // Counted first: whoever takes it subtracts it.
            self.kept.fetch_add(cap, Relaxed);
            held(&self.warm[class(cap)]).push_back((self.clock.fetch_add(1, Relaxed), ptr));
        }
        self.evict(|kept| kept > KEEP_BYTES || live.saturating_add(kept) > room);
    }
    /// Gives its pages back to the system.
    fn release(&self, cap: usize, ptr: NonNull<u8>) {
        if cap >= MAPPED {
            // SAFETY: mapped by `map` with the same size, and nobody uses it any more.
            unsafe { libc::munmap(ptr.as_ptr().cast(), cap) };
            return;
        }
        // SAFETY: whole pages of a slab that nobody uses; they are zero when they are touched again.
        unsafe { libc::madvise(ptr.as_ptr().cast(), cap, libc::MADV_DONTNEED) };
        let _brief = brief();
        held(&self.cold[class(cap)]).push_back((0, ptr));
    }
    /// Gives kept blocks back as far as fresh memory of this size asks for it.
    fn make_room(&self, cap: usize) {
        let room = room();
        if room != usize::MAX {
            let wanted = live_bytes().saturating_add(cap);
            let spare = spare_bytes();
            if spare > 0 && wanted.saturating_add(self.kept.load(Relaxed)).saturating_add(spare) > room {
                give_back_spare();
            }
            self.evict(|kept| wanted.saturating_add(kept) > room);
        }
    }
    /// Gives the blocks back that are idle for longest, while what is kept is too much.
    fn evict(&self, too_much: impl Fn(usize) -> bool) {
        while too_much(self.kept.load(Relaxed)) {
            let mut gone = [None; AT_ONCE];
            let Some(cap) = self.longest_idle(&mut gone, &too_much) else { return };
            gone.into_iter().flatten().for_each(|ptr| self.release(cap, ptr));
        }
    }
    /// Takes blocks out, of the size of the one that is idle for longest, and says which that is. `None`: nothing is kept.
    fn longest_idle(&self, gone: &mut [Option<NonNull<u8>>], too_much: impl Fn(usize) -> bool) -> Option<usize> {
        let _brief = brief();
        let (mut first, mut second) = ((usize::MAX, 0), usize::MAX);
        for class in class(PAGE)..=class(KEEP_BYTES) {
            let Some((since, _)) = held(&self.warm[class]).front().copied() else { continue };
            if since < first.0 {
                (first, second) = ((since, class), first.0);
            } else {
                second = second.min(since);
            }
        }
        let (since, class) = first;
        let cap = (since != usize::MAX).then(|| capacity_of(class))?;
        let mut blocks = held(&self.warm[class]);
        for place in gone {
            // Up to where one of another size is idle for longer.
            let Some((since, ptr)) = blocks.front().copied() else { break };
            if since > second {
                break;
            }
            blocks.pop_front();
            *place = Some(ptr);
            if !too_much(self.kept.fetch_sub(cap, Relaxed) - cap) {
                break;
            }
        }
        Some(cap)
    }
}

/// Bytes kept for reuse now.
pub fn kept_bytes() -> usize {
    FREE.kept.load(Relaxed)
}

/// Gives kept memory back as far as so many bytes ask for it that somebody takes who has no block of them.
pub fn make_room(bytes: usize) {
    FREE.make_room(bytes);
}

/// Gives all kept memory back to the system.
pub fn release_kept() {
    FREE.evict(|_| true);
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
    fn fresh_memory_is_zero() {
        // Sizes that no other test has: they cannot come from a free list.
        for len in [40 << 10, 3_333_333] {
            assert!(Buf::new(len).as_slice().iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn every_capacity_has_a_class_of_its_own() {
        let mut last = 0;
        for len in (PAGE..1 << 20).step_by(1000).chain([1 << 30, (1 << 40) + 1]) {
            let cap = capacity(len);
            assert!(cap >= len && cap.is_multiple_of(PAGE) && cap < len + len / 4 + PAGE, "{len}: {cap}");
            assert_eq!(capacity_of(class(cap)), cap, "{len}");
            assert!(class(cap) >= last);
            last = class(cap);
        }
    }

    #[test]
    fn the_longest_idle_gives_way() {
        // A free list of its own, and no limit, so that other tests do not stir it.
        let free = Free::new();
        let keep = |cap, ptr| free.keep(cap, ptr, 0, usize::MAX);
        let (large, small, tiny) = (capacity(KEEP_BYTES / 2), 1 << 20, MAPPED + (MAPPED >> 2));
        let batch = map(large, false);
        for n in 0..KEEP_BYTES / small {
            keep(small, map(small, false));
            if n == 0 {
                keep(tiny, map(tiny, false));
            }
        }
        assert!((KEEP_BYTES - small..=KEEP_BYTES).contains(&free.kept.load(Relaxed)));
        keep(large, batch);
        assert_eq!(free.reuse(large), Some(batch), "what was used last is there still");
        assert!(free.kept.load(Relaxed) <= KEEP_BYTES - large && free.reuse(tiny).is_none());
        let left = free.warm[class(small)].lock().unwrap().len();
        assert_eq!(free.kept.load(Relaxed), left * small, "all that is kept is counted");
        // What has no room does not drive out what has.
        free.keep(large, map(large, false), KEEP_BYTES, KEEP_BYTES);
        assert_eq!(free.kept.load(Relaxed), left * small);
        keep(large, batch);
        free.evict(|_| true);
        assert_eq!(free.kept.load(Relaxed), 0);
    }

    #[test]
    fn what_is_given_back_comes_back_as_zeros() {
        let cap = capacity(200 << 10);
        let mut buf = Buf::new(200 << 10);
        buf.get_mut().unwrap().fill(7);
        let Owner::Pool(memory) =
            std::mem::replace(&mut Arc::get_mut(&mut buf.0).unwrap().owner, Owner::foreign(Box::new(())))
        else {
            panic!("its own memory")
        };
        let memory = std::mem::ManuallyDrop::new(memory);
        drop(buf);
        FREE.release(cap, memory.ptr);
        // SAFETY: the block lies in a cold list of a size that no other test has, and its pages are there to be read.
        assert!(unsafe { std::slice::from_raw_parts(memory.ptr.as_ptr(), cap) }.iter().all(|b| *b == 0));
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
