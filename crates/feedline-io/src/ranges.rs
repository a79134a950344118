//! Many wanted ranges of one or more sources, in the order in which they will be used.
//!
//! 1. The next ranges are taken until half of the reader's share of the look-ahead is filled, and sorted by place.
//! 2. Those that overlap or lie no further apart than `Source::gap` become one read of at most a block. A range of more
//!    than `Source::longest` becomes several reads, which are joined.
//! 3. Reads are sent off in the order of their first use, within the share; the one that is needed next always may go.
//! 4. Ranges are handed out in the order in which they were asked for, as views into what was read. A read is let go of
//!    when the last of its ranges has been handed out.

use crate::ahead::Share;
use crate::source::Source;
use crate::{Buf, Error, Result, Slice, Task};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

/// At most so many ranges are looked at together.
const WINDOW: usize = 4096;
/// Joined reads grow from here: a length in a damaged index does not decide how much memory is taken.
const FIRST_JOINED: usize = 16 << 20;

/// Some bytes of one of the sources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// Which of the sources.
    pub source: usize,
    pub at: u64,
    pub len: usize,
}

pub struct Ranges {
    sources: Vec<Arc<dyn Source>>,
    wanted: Box<dyn Iterator<Item = Want> + Send>,
    /// All that is wanted was taken.
    drained: bool,
    share: Share,
    /// What is to be handed out next, in order.
    out: VecDeque<Place>,
    /// The reads of `out`, in the order of their first use. `None`: handed out and let go of.
    groups: VecDeque<Option<Group>>,
    /// The number of the first of `groups`, and of the first that is not sent off.
    base: usize,
    unsent: usize,
    /// What is planned and not handed out, in bytes.
    planned: usize,
}

/// A range in its read.
#[derive(Debug)]
struct Place {
    group: usize,
    offset: usize,
    len: usize,
}

/// Ranges that are read together.
struct Group {
    source: usize,
    at: u64,
    len: usize,
    /// The block, the gap and the longest read that suit the source.
    block: usize,
    gap: usize,
    longest: usize,
    /// Ranges that are not handed out.
    users: usize,
    state: State,
}

enum State {
    Planned,
    Reading(Task<Result<Buf>>),
    Joining(Joined),
    Here(Result<Buf>),
}

/// A long range on its way in pieces.
struct Joined {
    /// What each piece asked for, and its read.
    reads: VecDeque<(usize, Task<Result<Buf>>)>,
    /// How much was asked for, and how much is here.
    asked: usize,
    filled: usize,
    buf: Buf,
}

impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranges").field("sources", &self.sources).field("planned", &self.planned).finish()
    }
}

impl Ranges {
    /// Ranges `(at, len)` of one source.
    pub fn new<I>(source: Arc<dyn Source>, wanted: I) -> Ranges
    where
        I: IntoIterator<Item = (u64, usize)>,
        I::IntoIter: Send + 'static,
    {
        Ranges::many(vec![source], wanted.into_iter().map(|(at, len)| Want { source: 0, at, len }))
    }
    /// Ranges of many sources, such as the records of a shuffle over all files.
    pub fn many<I>(sources: Vec<Arc<dyn Source>>, wanted: I) -> Ranges
    where
        I: IntoIterator<Item = Want>,
        I::IntoIter: Send + 'static,
    {
        let ahead = sources.iter().map(|s| s.hints().ahead).max().unwrap_or(0);
        Ranges {
            sources,
            wanted: Box::new(wanted.into_iter()),
            drained: false,
            share: Share::open(ahead),
            out: VecDeque::new(),
            groups: VecDeque::new(),
            base: 0,
            unsent: 0,
            planned: 0,
        }
    }

    /// The next range; shorter than wanted only where its source ends. A range that fails does not end the others.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Slice>>> {
        self.start();
        let Some(place) = self.out.front() else { return Poll::Ready(None) };
        if place.len == 0 {
            self.out.pop_front();
            return Poll::Ready(Some(Ok(Buf::new(0).into())));
        }
        let (number, range) = (place.group, place.offset..place.offset.saturating_add(place.len));
        self.send(number);
        let group = self.groups[number - self.base].as_mut().expect("it has a range to hand out");
        let read = ready!(group.poll(&self.sources, &mut self.share, waker));
        self.out.pop_front();
        group.users -= 1;
        if group.users == 0 {
            self.share.give(group.cost());
            self.planned -= group.weight();
            self.groups[number - self.base] = None;
            while let Some(None) = self.groups.front() {
                self.groups.pop_front();
                self.base += 1;
            }
        }
        Poll::Ready(Some(read.map(|buf| Slice::new(buf, range))))
    }

    /// The next range, waiting for it.
    pub fn next_range(&mut self) -> Option<Result<Slice>> {
        loop {
            if let Poll::Ready(range) = self.poll_next(Waker::noop()) {
                return range;
            }
            let number = self.out.front()?.group - self.base;
            self.groups[number].as_mut().expect("it has a range to hand out").wait();
        }
    }

    /// Takes wanted ranges and sends their reads off, as far as there is room.
    pub fn start(&mut self) {
        let room = self.share.part() / 2;
        while !self.drained && (self.out.is_empty() || self.planned <= room) {
            self.plan(room);
        }
        while let Some(group) = self.groups.get_mut(self.unsent - self.base) {
            let group = group.as_mut().expect("what is not sent is not handed out");
            if !self.share.take(group.cost()) {
                break;
            }
            group.send(&self.sources);
            self.unsent += 1;
        }
    }

    /// Sends off this read and those before it, whether or not there is room.
    fn send(&mut self, number: usize) {
        while self.unsent <= number {
            let group = self.groups[self.unsent - self.base].as_mut().expect("what is not sent is not handed out");
            self.share.force(group.cost());
            group.send(&self.sources);
            self.unsent += 1;
        }
    }

    /// The next wanted ranges become reads.
    fn plan(&mut self, room: usize) {
        let mut window: Vec<(Want, usize)> = Vec::new();
        let mut bytes = 0usize;
        while bytes <= room && window.len() < WINDOW {
            let Some(want) = self.wanted.next() else {
                self.drained = true;
                break;
            };
            bytes = bytes.saturating_add(want.len);
            if want.len > 0 {
                window.push((want, self.out.len()));
            }
            self.out.push_back(Place { group: 0, offset: 0, len: want.len });
        }
        window.sort_unstable_by_key(|(want, place)| (want.source, want.at, *place));
        // The reads, each with the place of its first use; and for each place the read that it is in.
        let mut groups: Vec<(usize, Group)> = Vec::new();
        let mut members: Vec<(usize, usize)> = Vec::with_capacity(window.len());
        for (want, place) in window {
            let near = groups.last_mut().filter(|(_, group)| group.merges(&want));
            let at = match near {
                Some((first, group)) => {
                    group.merge(&want);
                    *first = place.min(*first);
                    group.at
                }
                None => {
                    groups.push((place, Group::new(&want, self.sources.get(want.source))));
                    want.at
                }
            };
            self.out[place].offset = (want.at - at) as usize;
            members.push((place, groups.len() - 1));
        }
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_unstable_by_key(|group| groups[*group].0);
        let mut numbers = vec![0; groups.len()];
        for (rank, group) in order.iter().enumerate() {
            numbers[*group] = self.base + self.groups.len() + rank;
        }
        for (place, group) in members {
            self.out[place].group = numbers[group];
        }
        groups.sort_unstable_by_key(|(first, _)| *first);
        for (_, group) in groups {
            self.planned += group.weight();
            self.groups.push_back(Some(group));
        }
    }
}

impl Group {
    fn new(want: &Want, source: Option<&Arc<dyn Source>>) -> Group {
        let Want { source: number, at, len } = *want;
        let (block, gap, longest) = match source {
            Some(source) => (source.hints().block.max(1), source.gap(), source.longest()),
            None => (1, 0, usize::MAX),
        };
        Group { source: number, at, len, block, gap, longest, users: 1, state: State::Planned }
    }
    fn end(&self) -> u64 {
        self.at.saturating_add(self.len as u64)
    }
    /// Whether a range that begins no earlier is cheaper as a part of this read than as one of its own.
    fn merges(&self, want: &Want) -> bool {
        let len = want.at.saturating_add(want.len as u64).max(self.end()) - self.at;
        let near = want.source == self.source && want.at <= self.end().saturating_add(self.gap as u64);
        near && !self.is_long() && len <= self.block.max(self.len) as u64
    }
    fn merge(&mut self, want: &Want) {
        self.len = (want.at.saturating_add(want.len as u64).max(self.end()) - self.at) as usize;
        self.users += 1;
    }
    /// Longer than one read should be.
    fn is_long(&self) -> bool {
        self.len > self.longest
    }
    /// What it takes of the share, for lengths that can be. The pieces of a long one take their own.
    fn cost(&self) -> usize {
        if self.is_long() { 0 } else { self.len.min(1 << 32) }
    }
    /// What it counts for in planning.
    fn weight(&self) -> usize {
        self.len.min(self.block.saturating_mul(2))
    }
    fn send(&mut self, sources: &[Arc<dyn Source>]) {
        self.state = match sources.get(self.source) {
            None => State::Here(Err(Error::internal(format!("a range of source {}, which there is not", self.source)))),
            Some(_) if self.is_long() => {
                State::Joining(Joined { reads: VecDeque::new(), asked: 0, filled: 0, buf: Buf::new(0) })
            }
            Some(source) => State::Reading(source.clone().read(self.at, self.len)),
        };
    }
    fn poll(&mut self, sources: &[Arc<dyn Source>], share: &mut Share, waker: &Waker) -> Poll<Result<Buf>> {
        let mut read = match &mut self.state {
            State::Planned => unreachable!("it is sent before it is polled"),
            State::Here(read) => return Poll::Ready(read.clone()),
            State::Reading(task) => ready!(task.poll_with(waker)),
            State::Joining(joined) => {
                ready!(joined.poll(&sources[self.source], self.at, self.len, self.block, share, waker))
            }
        };
        if let Ok(buf) = &mut read {
            // Another thread may have made it.
            buf.take_over();
        }
        self.state = State::Here(read.clone());
        Poll::Ready(read)
    }
    /// Waits for what a poll would wait for.
    fn wait(&mut self) {
        match &mut self.state {
            State::Reading(task) => task.settle(),
            State::Joining(Joined { reads, .. }) => {
                if let Some((_, task)) = reads.front_mut() {
                    task.settle();
                }
            }
            State::Planned | State::Here(_) => {}
        }
    }
}

impl Joined {
    fn poll(
        &mut self,
        source: &Arc<dyn Source>,
        at: u64,
        len: usize,
        block: usize,
        share: &mut Share,
        waker: &Waker,
    ) -> Poll<Result<Buf>> {
        loop {
            while self.asked < len {
                let size = block.min(len - self.asked);
                let from = at.saturating_add(self.asked as u64);
                if !share.take(size) {
                    if !self.reads.is_empty() {
                        break;
                    }
                    share.force(size);
                }
                self.reads.push_back((size, source.clone().read(from, size)));
                self.asked += size;
            }
            let Some((size, task)) = self.reads.front_mut() else { return Poll::Ready(Ok(self.take())) };
            let (size, read) = (*size, ready!(task.poll_with(waker)));
            self.reads.pop_front();
            share.give(size);
            let ended = match read {
                Ok(piece) => {
                    self.append(piece.as_slice(), len);
                    (piece.len() < size).then(|| Ok(self.take()))
                }
                Err(error) => Some(Err(error)),
            };
            if let Some(ended) = ended {
                self.reads.drain(..).for_each(|(size, _)| share.give(size));
                return Poll::Ready(ended);
            }
        }
    }
    fn append(&mut self, piece: &[u8], len: usize) {
        let end = self.filled + piece.len();
        if end > self.buf.len() {
            let mut larger = Buf::new(end.saturating_mul(2).max(FIRST_JOINED).min(len).max(end));
            let out = larger.get_mut().expect("a new block has one holder");
            out[..self.filled].copy_from_slice(&self.buf.as_slice()[..self.filled]);
            self.buf = larger;
        }
        self.buf.get_mut().expect("nobody else has it yet")[self.filled..end].copy_from_slice(piece);
        self.filled = end;
    }
    fn take(&mut self) -> Buf {
        std::mem::replace(&mut self.buf, Buf::new(0)).truncated(self.filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;
    use proptest::prelude::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u32).flat_map(|x| x.wrapping_mul(2_654_435_761).to_le_bytes()).take(len).collect()
    }
    fn part(bytes: &[u8], at: u64, len: usize) -> &[u8] {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        &bytes[from..from.saturating_add(len).min(bytes.len())]
    }

    proptest! {
        #[test]
        fn every_range_comes_in_its_place(
            len in 0usize..20_000,
            wanted in prop::collection::vec((0u64..22_000, prop_oneof![0usize..200, 0usize..15_000]), 0..200),
            block in 1usize..3000,
            ahead in 1usize..20_000,
        ) {
            let bytes = bytes(len);
            let source = Memory::new(bytes.clone(), block, ahead);
            let mut ranges = Ranges::new(source.clone(), wanted.clone());
            for (at, len) in &wanted {
                let got = ranges.next_range().unwrap().unwrap();
                prop_assert_eq!(&*got, part(&bytes, *at, *len));
            }
            prop_assert!(ranges.next_range().is_none());
            prop_assert_eq!(ranges.share.held(), 0);
            prop_assert_eq!(ranges.planned, 0);
        }

        #[test]
        fn sources_are_not_mixed_up(wanted in prop::collection::vec((0usize..4, 0u64..3000, 0usize..300), 0..300)) {
            let all: Vec<Vec<u8>> = (1..4).map(|k| bytes(k * 1000).into_iter().map(|b| b ^ k as u8).collect()).collect();
            let sources = all.iter().map(|b| Memory::new(b.clone(), 500, 4000) as Arc<dyn Source>).collect();
            let wants: Vec<Want> = wanted.iter().map(|&(source, at, len)| Want { source, at, len }).collect();
            let mut ranges = Ranges::many(sources, wants);
            for (source, at, len) in wanted {
                let got = ranges.next_range().unwrap();
                match all.get(source) {
                    Some(bytes) => prop_assert_eq!(&*got.unwrap(), part(bytes, at, len)),
                    None => prop_assert!(len == 0 || got.is_err()),
                }
            }
        }
    }

    #[test]
    fn neighbours_are_one_read() {
        let source = Memory::new(bytes(100_000), 64 << 10, 1 << 20);
        // In any order; 100 bytes each with 50 between them.
        let mut ranges = Ranges::new(source.clone(), (0..300u64).map(|i| (i * 7 % 300 * 150, 100)));
        while let Some(range) = ranges.next_range() {
            assert_eq!(range.unwrap().len(), 100);
        }
        assert_eq!(source.all_reads(), 1);
        // Gaps over what the source calls small are not read.
        let source = Memory::new(bytes(1_000_000), 64 << 10, 1 << 20);
        let mut ranges = Ranges::new(source.clone(), (0..100u64).map(|i| (i * 10_000, 100)));
        while ranges.next_range().is_some() {}
        assert_eq!((source.all_reads(), source.asked()), (100, 10_000));
    }

    #[test]
    fn long_ranges_come_in_pieces_and_the_bound_holds() {
        let all = bytes(5_000_000);
        let source = Memory::new(all.clone(), 64 << 10, 512 << 10).slow();
        let mut ranges = Ranges::new(source.clone(), [(1000, 4_000_000), (5, 5), (4_500_000, usize::MAX)]);
        assert_eq!(ranges.next_range().unwrap().unwrap().as_slice(), &all[1000..4_001_000]);
        assert_eq!(ranges.next_range().unwrap().unwrap().as_slice(), &all[5..10]);
        assert_eq!(ranges.next_range().unwrap().unwrap().as_slice(), &all[4_500_000..]);
        assert!(source.most_on_its_way() <= 512 << 10, "{}", source.most_on_its_way());
        assert!(source.most_reads() > 1);
    }

    #[test]
    fn local_ranges_come_in_one_however_long() {
        let dir = tempfile::tempdir().unwrap();
        let (path, all) = (dir.path().join("a"), bytes(3_000_000));
        std::fs::write(&path, &all).unwrap();
        let wanted = [(5, 2_900_000), (0, usize::MAX), (1, usize::MAX), (2, usize::MAX), (100, 10)];
        let mut ranges = Ranges::new(crate::open(path.to_str().unwrap()).unwrap(), wanted);
        for (at, len) in wanted {
            assert_eq!(&*ranges.next_range().unwrap().unwrap(), part(&all, at, len));
        }
        assert_eq!(ranges.share.held(), 0);
    }

    #[test]
    fn a_bad_range_costs_itself() {
        let source = Memory::with_bad_byte(bytes(100_000), 4096, 1 << 20, Some(50_000));
        let mut ranges = Ranges::new(source, [(0, 10), (49_990, 20), (60_000, 10), (u64::MAX, 10)]);
        assert!(ranges.next_range().unwrap().is_ok());
        assert!(ranges.next_range().unwrap().is_err());
        assert_eq!(ranges.next_range().unwrap().unwrap().len(), 10);
        assert_eq!(ranges.next_range().unwrap().unwrap().len(), 0);
        assert!(ranges.next_range().is_none());
    }
}
