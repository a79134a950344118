//! tf.data's shuffle: a buffer of rows; the next one is drawn, the oldest moves into its place, a new one comes in.
//!
//! 0. Short rows of several numbers are packed (`packed.rs`). What follows is for all others.
//! 1. The buffer holds references to rows of chunks as they came. Rows are copied once, when a chunk of them is given.
//! 2. Chunks that continue each other in memory (an array's rows) count as one.
//! 3. A chunk's memory is freed with its last row. When rows that are gone take up as much memory as those that are
//!    there, the rows of chunks that are less than half there are copied together: the buffer needs at most twice its
//!    rows. Memory that others hold anyway (an array, a cache) is left alone. Long records are taken out of the blocks
//!    that they were read with (`apart`).
//! 4. A state says which rows there were, not what they are: `journal.rs`. Where the input has elements by number, their
//!    numbers follow from the number of draws. Where neither can be (a shuffle of a shuffle, a row that failed), the pass
//!    is run again from its start.
//! 5. A buffer may be bounded by bytes as well: rows come in until those that are there have as many. What counts is what a
//!    row contains, so the order depends neither on chunks nor on how rows lie in memory.
//! 6. tf.data's order for a size must not change because memory is short: rows that do not fit are an error.

use super::journal::{Buffered, Draws, Fill, Journal, chosen, make_room};
use super::packed::Packed;
use super::parts::Parts;
use super::rows::{Rows, prefetch};
use crate::element::{Chunk, Column, DType, RowRef, gather};
use crate::error::{Error, Result};
use crate::expr::Philox;
use crate::ops::Open;
use crate::plan::Plan;
use crate::runtime::{At, BuildCx, Cx, Given, Hold, Index, Mark, Over, Pull, Seeded, Stage, bytes_text, unfit};
use std::collections::VecDeque;
use std::sync::Arc;

pub struct BufferStage {
    input: Open<Box<dyn Stage>>,
    /// At most so many rows.
    size: usize,
    bytes: Option<Bytes>,
    hold: Hold,
    cx: BuildCx,
    node: Plan,
    seeds: Seeded,
    /// The input by number, if it has elements by number.
    index: Option<Arc<dyn Index>>,
    origins: Origins,
    /// Where the input began.
    start: Mark,
    /// Rows that came in.
    came: u64,
    /// Rows that came while it was filled, and their bytes, wherever they lie.
    seen: (usize, usize),
    /// Rows and errors that were given.
    given: Given,
    /// To be left out.
    drop: Given,
    /// What the buffer held when the state was taken, on its way.
    back: Option<Back>,
    random: Philox,
    /// The next random numbers, from place `drawn % AHEAD` on. They are made early so that the rows that they will choose
    /// can be asked for from memory: a buffer of 100,000 does not fit into the second-level cache.
    ahead: [u32; AHEAD],
    drawn: u64,
    /// Oldest first.
    held: VecDeque<RowRef>,
    /// While all rows can be: where they are. Their references have the part `PACKED`.
    packed: Option<Packed>,
    /// How rows lie that workers put together.
    together: Option<Arc<Rows>>,
    parts: Parts,
    /// What its lists took when it was counted.
    listed: usize,
    /// Rows that came in and are not in the buffer yet, from `next` on.
    coming: Vec<RowRef>,
    next: usize,
    /// Met while rows were still to be given.
    error: Option<Error>,
    picked: Vec<RowRef>,
    /// Memory for lists of places.
    places: Vec<u32>,
}

/// For a buffer that is bounded by bytes.
struct Bytes {
    most: usize,
    /// What is there.
    now: usize,
    /// Of each row in the buffer, in the order of `held`; and of those that came in.
    held: VecDeque<usize>,
    coming: Vec<usize>,
    /// Rows that went in since the last draw, and before each draw that was not noted yet.
    filled: u32,
    fills: Vec<u32>,
}

impl Bytes {
    fn new(most: usize) -> Bytes {
        let (now, held, coming, filled, fills) = Default::default();
        Bytes { most, now, held, coming, filled, fills }
    }
}

/// Rows that are asked for at once. Their places are listed, and a source of numbers has as many as are wanted.
const AT_ONCE: usize = 1 << 15;

/// What a row takes besides: its place, its position, and its number for states.
const BESIDE: usize = size_of::<RowRef>() + 2 * size_of::<u64>();

/// Random numbers that are made early.
const AHEAD: usize = 8;

/// Rows that are at least so long are taken out of what they came with.
const LONG_ROW: usize = 16 << 10;

/// Rows are cut out of blocks and lists that hold many. A buffer would keep those alive for the last of them that is drawn:
/// several times what it holds. Long rows are parts by themselves, copied where they do not lie alone; that costs little beside
/// what made them. What is kept anyway stays as it lies.
fn apart(chunk: Chunk) -> Vec<Chunk> {
    let rows = chunk.rows();
    if rows == 1 || chunk.is_kept() {
        return vec![chunk];
    }
    if chunk.nbytes() >= LONG_ROW * rows {
        return (0..rows).map(|row| alone(&chunk, row)).collect();
    }
    // Among values of different sizes, some may be long.
    let sizes = if chunk.has_lists() { chunk.row_bytes() } else { return vec![chunk] };
    let is_long = |row: usize| sizes[row] >= LONG_ROW;
    if !(0..rows).any(is_long) {
        return vec![chunk];
    }
    let (mut parts, mut from) = (vec![], 0);
    for row in (0..rows).filter(|&row| is_long(row)).chain([rows]) {
        if from < row {
            parts.push(chunk.take(&(from..row).collect::<Vec<_>>()));
        }
        if row < rows {
            parts.push(alone(&chunk, row));
        }
        from = row + 1;
    }
    parts
}

fn alone(chunk: &Chunk, row: usize) -> Chunk {
    let pos = chunk.slice(row..row + 1).pos.clone();
    let columns = chunk.columns().iter().map(|column| match column {
        Column::Dense(t) if t.dtype() == DType::String => Column::Dense(t.slice(row..row + 1).detached()),
        column => column.take(&[row]),
    });
    Chunk::new(1, pos, columns).trimmed()
}

/// Not the number of a part: the row is packed.
const PACKED: u32 = u32::MAX;

/// How a state tells which rows are held.
enum Origins {
    /// They have numbers.
    Numbered,
    Noted(Arc<Journal>),
    /// It does not: the pass is run again.
    Lost,
}

/// Rows that are read again.
struct Back {
    stage: Box<dyn Stage>,
    /// The order in which the buffer had them; what is left over has not been in it yet.
    order: Vec<u32>,
    rows: usize,
    come: Vec<RowRef>,
    /// What each of them takes, where that matters.
    sizes: Vec<usize>,
}

const BY_NUMBER: u64 = 0;
const BY_RUN: u64 = 1;
const FROM_START: u64 = 2;

impl BufferStage {
    pub fn new(
        cx: &BuildCx,
        node: &Plan,
        mut input: Box<dyn Stage>,
        (size, bytes): (usize, Option<usize>),
        seeds: Seeded,
        together: Option<Arc<Rows>>,
    ) -> Result<BufferStage> {
        let index = if bytes.is_some() { None } else { numbered(cx, &node.inputs[0])? };
        let origins = match index {
            Some(_) => Origins::Numbered,
            None => Origins::Noted(Journal::new(fill(size, bytes), seeds.random())),
        };
        let start = Mark::start(&mut *input);
        let mut random = seeds.random();
        let mut hold = cx.hold(node);
        let all = node.inputs[0].card.known().map_or(size, |all| size.min(usize::try_from(all).unwrap_or(usize::MAX)));
        let fixed = || crate::ops::batch::fixed_bytes(&node.inputs[0].spec, all);
        hold.expect(bytes.or_else(fixed).unwrap_or(0));
        Ok(BufferStage {
            input: Open::new(cx, &node.inputs, input),
            size,
            bytes: bytes.map(Bytes::new),
            hold,
            cx: cx.clone(),
            node: node.clone(),
            seeds,
            index,
            origins,
            start,
            came: 0,
            seen: (0, 0),
            given: Given::default(),
            drop: Given::default(),
            back: None,
            ahead: std::array::from_fn(|_| random.next_u32()),
            drawn: 0,
            random,
            held: VecDeque::new(),
            packed: None,
            together,
            parts: Parts::default(),
            listed: 0,
            coming: Vec::new(),
            next: 0,
            error: None,
            picked: Vec::new(),
            places: Vec::new(),
        })
    }

    /// Takes rows in, packed if they can be.
    fn take_in(&mut self, chunk: Chunk) {
        self.coming.clear();
        self.next = 0;
        if let Some(bytes) = &mut self.bytes {
            bytes.coming = chunk.row_bytes();
        }
        let first = self.held.is_empty() && self.picked.is_empty();
        let mut coming = std::mem::take(&mut self.coming);
        self.place(chunk, first, &mut coming);
        self.coming = coming;
    }
    /// Gives rows a place, and says where that is. `first`: there are no others yet.
    fn place(&mut self, chunk: Chunk, first: bool, refs: &mut Vec<RowRef>) {
        if first && self.packed.is_none() {
            self.packed = Packed::like(&chunk, self.asked(), self.hold.room(), self.together.as_ref());
        }
        match &mut self.packed {
            Some(packed) if packed.fits(&chunk) => {
                packed.add(&chunk, &mut self.places);
                refs.extend(self.places.iter().map(|&row| RowRef { part: PACKED, row }));
            }
            _ => {
                self.unpack();
                let chunk = match &self.together {
                    Some(rows) => rows.apart(chunk),
                    None => chunk,
                };
                for chunk in apart(chunk) {
                    let (part, rows) = self.parts.add(chunk.together());
                    refs.extend(rows.map(|row| RowRef { part, row }));
                }
            }
        }
    }

    /// Rows came that cannot be packed: those that are there become a part like others.
    fn unpack(&mut self) {
        let Some(mut packed) = self.packed.take() else { return };
        let come = self.back.iter_mut().flat_map(|back| &mut back.come);
        let all: Vec<&mut RowRef> = self.held.iter_mut().chain(&mut self.picked).chain(come).collect();
        if !all.is_empty() {
            let (part, rows) = self.parts.add(packed.take(&all.iter().map(|r| r.row).collect::<Vec<u32>>()));
            for (held, row) in all.into_iter().zip(rows) {
                *held = RowRef { part, row };
            }
        }
    }

    fn is_full(&self) -> bool {
        self.held.len() >= self.size || self.bytes.as_ref().is_some_and(|b| b.now >= b.most)
    }
    /// Rows to ask for until the buffer is full.
    fn missing(&self) -> usize {
        let rows = self.size - self.held.len();
        let Some(bytes) = &self.bytes else { return rows };
        // As many as would do if they were like those that are there.
        let each = bytes.now.checked_div(self.held.len()).unwrap_or(bytes.most).max(1);
        rows.min((bytes.most.saturating_sub(bytes.now) / each).clamp(1, 1 << 12))
    }
    /// Moves rows that came in into the buffer, as far as there is room.
    fn fill(&mut self) {
        let mut room = self.size - self.held.len();
        if let Some(bytes) = &mut self.bytes {
            let sizes = &bytes.coming[self.next..];
            let mut now = bytes.now;
            let fits = sizes.iter().take_while(|size| {
                let fits = now < bytes.most;
                now += **size;
                fits
            });
            room = room.min(fits.count());
            make_room(&mut bytes.held, room.min(sizes.len()));
            bytes.held.extend(&sizes[..room.min(sizes.len())]);
            bytes.now += sizes[..room.min(sizes.len())].iter().sum::<usize>();
            bytes.filled += room.min(sizes.len()) as u32;
        }
        let end = self.coming.len().min(self.next.saturating_add(room));
        make_room(&mut self.held, end - self.next);
        self.held.extend(&self.coming[self.next..end]);
        self.next = end;
    }

    fn draw(&mut self) {
        let n = self.held.len();
        let later = self.random.next_u32();
        let u = std::mem::replace(&mut self.ahead[self.drawn as usize % AHEAD], later);
        self.drawn += 1;
        // By then `AHEAD` rows have left in front. A guess: the buffer may have another length by then.
        if let Some(row) = self.held.get(chosen(later, n) + AHEAD) {
            prefetch(row);
        }
        let at = chosen(u, n);
        self.held.swap(0, at);
        self.picked.extend(self.held.pop_front());
        if let Some(bytes) = &mut self.bytes {
            bytes.held.swap(0, at);
            bytes.now -= bytes.held.pop_front().unwrap_or(0);
            let filled = std::mem::take(&mut bytes.filled);
            if let Origins::Noted(_) = self.origins {
                bytes.fills.push(filled);
            }
        }
    }

    /// Says what it keeps.
    fn count(&mut self) -> std::result::Result<(), Over> {
        let (rows, beside) = match &self.packed {
            Some(packed) => (packed.bytes(), packed.beside_bytes()),
            None => (self.parts.live, self.parts.beside),
        };
        let lists = self.list_bytes();
        self.listed = lists;
        self.hold.set_beside(rows + lists, beside + lists)
    }
    /// What it takes to know which rows are where, and which there were.
    fn list_bytes(&self) -> usize {
        let refs = self.held.capacity() + self.coming.capacity() + self.picked.capacity();
        let sizes = self.bytes.as_ref().map_or(0, |b| (b.held.capacity() + b.coming.capacity()) * size_of::<usize>());
        // What it notes of rows that are there it has not noted yet.
        let noted = match &self.origins {
            Origins::Noted(journal) => journal.bytes().max(self.held.capacity() * size_of::<u64>()),
            _ => 0,
        };
        refs * size_of::<RowRef>() + sizes + noted + self.parts.list_bytes()
    }
    /// Rows that it will have.
    fn asked(&self) -> usize {
        let all = self.node.inputs[0].card.known().map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        self.size.min(all)
    }
    /// There is no memory for the buffer that was asked for.
    fn refuse(&mut self, over: Over) -> Pull {
        let rows = self.held.len() + self.coming.len() - self.next;
        let all = self.asked();
        let what = match all {
            usize::MAX => format!("{rows} elements in the buffer take {}", bytes_text(over.bytes)),
            n => format!("{rows} of the {n} elements of the buffer take {}", bytes_text(over.bytes)),
        };
        let whole = if all == usize::MAX { 2 * over.bytes } else { (over.bytes / rows.max(1) + 1).saturating_mul(all) };
        (self.held, self.packed, self.parts) = (VecDeque::new(), None, Parts::default());
        let _ = self.hold.set_beside(0, 0);
        (self.coming, self.next, self.picked) = (Vec::new(), 0, Vec::new());
        self.input.end();
        let instead = "give shuffle(buffer_bytes=...), which fills the buffer as far as that many bytes go";
        Pull::Fail(Over { bytes: whole.max(over.bytes), ..over }.error(&what, instead).that_ends())
    }

    fn give(&mut self) -> Pull {
        if let Some(packed) = &mut self.packed {
            self.places.clear();
            self.places.extend(self.picked.drain(..).map(|r| r.row));
            return Pull::Rows(packed.take(&self.places));
        }
        let mut chunk = match self.picked[..] {
            // A long row need not be there twice.
            [RowRef { part, .. }]
                if self.parts.chunk(part).rows() == 1 && self.parts.chunk(part).nbytes() >= LONG_ROW =>
            {
                self.parts.chunk(part).clone().trimmed()
            }
            _ => gather(&self.picked, |p| self.parts.chunk(p)),
        };
        for r in self.picked.drain(..) {
            self.parts.release(r.part);
        }
        let mut room = self.hold.room().saturating_sub(self.listed);
        if self.hold.is_tight() {
            // Whoever gets them must not keep alive what they lay among, and what is dead here is needed elsewhere.
            chunk.trim();
            room = room.min(self.parts.live);
        }
        if self.parts.is_wasteful(room) {
            let coming = self.coming.get(self.next).map(|r| r.part);
            self.parts.compact(&mut self.held, coming, room);
        }
        Pull::Rows(chunk)
    }
}

impl BufferStage {
    /// Pulls the input, and notes from where the rows came.
    fn pull_input(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let Some(input) = self.input.get() else { return Pull::End };
        let mut from = None;
        if let Origins::Noted(journal) = &self.origins
            && journal.needs_mark()
        {
            let mut mark = Mark::default();
            input.mark(&mut mark);
            if !mark.is_whole() {
                self.origins = Origins::Lost;
            }
            from = Some(mark);
        }
        let pull = input.next(cx, want);
        match (&pull, &self.origins) {
            (Pull::Rows(chunk), Origins::Noted(journal)) => journal.add(from, chunk.rows()),
            (Pull::Fail(_), Origins::Noted(journal)) => journal.part(),
            // One error may stand for many rows: their numbers are not known from here on.
            (Pull::Fail(_), Origins::Numbered) => self.origins = Origins::Lost,
            _ => {}
        }
        if let Pull::Rows(chunk) = &pull {
            self.came += chunk.rows() as u64;
        }
        pull
    }
    /// Brings back what the buffer held. `None` when it is there.
    fn bring_back(&mut self, cx: &mut Cx<'_>) -> Option<Pull> {
        while let Some(back) = &mut self.back {
            match back.stage.next(cx, 1 << 16) {
                Pull::Rows(chunk) => {
                    let first = back.come.is_empty();
                    let mut refs = Vec::new();
                    if self.bytes.is_some() {
                        back.sizes.extend(chunk.row_bytes());
                    }
                    self.place(chunk, first, &mut refs);
                    self.back.as_mut()?.come.extend(refs);
                }
                Pull::Pending => return Some(Pull::Pending),
                Pull::End if back.come.len() == back.rows => {
                    let Back { order, come, sizes, .. } = self.back.take()?;
                    if let Some(bytes) = &mut self.bytes {
                        bytes.held = order.iter().map(|rank| sizes[*rank as usize]).collect();
                        bytes.now = bytes.held.iter().sum();
                        bytes.coming = sizes[order.len()..].to_vec();
                    }
                    self.held = order.iter().map(|rank| come[*rank as usize]).collect();
                    self.coming = come[order.len()..].to_vec();
                    self.next = 0;
                }
                // Without these rows the order would be another one: better none at all.
                other => {
                    self.back = None;
                    self.input.end();
                    let fail = Error::data("the buffer cannot be filled as it was when the state was taken");
                    return Some(Pull::Fail(if let Pull::Fail(error) = other { error } else { fail }.that_ends()));
                }
            }
        }
        None
    }
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.error.take() {
            return Pull::Fail(error);
        }
        if let Some(pull) = self.bring_back(cx) {
            return pull;
        }
        while self.picked.len() < want {
            if !self.is_full() {
                if self.next < self.coming.len() {
                    self.fill();
                    if !self.is_full() {
                        continue;
                    }
                } else if self.input.get().is_some() {
                    if cx.is_cancelled() {
                        return Pull::End;
                    }
                    // What is missing in the buffer, and one more for each row after the next.
                    let ask = self.missing().saturating_add(want - self.picked.len() - 1);
                    match self.pull_input(cx, ask.min(AT_ONCE)) {
                        Pull::Rows(chunk) => {
                            if self.bytes.is_none() && self.held.len() < self.size && self.size < usize::MAX {
                                // As if those to come were like those that came.
                                self.seen.0 += chunk.rows();
                                self.seen.1 += chunk.nbytes() + chunk.rows() * BESIDE;
                                self.hold.expect_rows(self.asked() as u64, self.seen.0, self.seen.1);
                            }
                            self.take_in(chunk);
                            if let Err(over) = self.count() {
                                return self.refuse(over);
                            }
                        }
                        Pull::End => self.input.end(),
                        stop if self.picked.is_empty() => return stop,
                        Pull::Fail(error) => {
                            self.error = Some(error);
                            break;
                        }
                        Pull::Pending => break,
                    }
                    continue;
                }
            }
            if self.held.is_empty() {
                break;
            }
            self.draw();
        }
        if self.picked.is_empty() { Pull::End } else { self.give() }
    }
}

impl Stage for BufferStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let pull = self.pull(cx, self.drop.ask(want));
            self.given.count(&pull);
            if !self.drop.takes(&pull) {
                return pull;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.seeds.mark(out);
        self.given.and(self.drop).mark(out);
        let kind = match &self.origins {
            Origins::Lost => {
                out.number(FROM_START);
                out.counted(&self.start.clone().again());
                return;
            }
            Origins::Numbered => BY_NUMBER,
            Origins::Noted(_) => BY_RUN,
        };
        out.number(kind);
        out.number(self.drawn);
        out.number(self.came);
        self.input.mark(out);
        out.counted(&self.start);
        if let Origins::Noted(journal) = &self.origins {
            let mut none = Vec::new();
            let fills = self.bytes.as_mut().map_or(&mut none, |bytes| &mut bytes.fills);
            journal.mark(self.drawn, self.came, fills, out);
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.seeds.seek(at)?;
        let given = Given::read(at)?;
        (self.held, self.packed, self.parts) = (VecDeque::new(), None, Parts::default());
        let _ = self.hold.set_beside(0, 0);
        (self.coming, self.next, self.picked, self.error) = (Vec::new(), 0, Vec::new(), None);
        self.back = None;
        self.bytes = self.bytes.take().map(|bytes| Bytes::new(bytes.most));
        let kind = at.up_to(FROM_START)?;
        if kind == FROM_START {
            let start = at.counted()?;
            self.input.set_open(true)?.map_or(Ok(()), |input| input.seek(&mut At::new(start)))?;
            self.start = start.into();
            (self.origins, self.came, self.given, self.drop) = (Origins::Lost, 0, Given::default(), given);
            self.draw_from(0);
            return Ok(());
        }
        let (drawn, came) = (at.number()?, at.number()?);
        self.input.seek(at)?;
        self.start = at.counted()?.into();
        if drawn > came || (kind == BY_NUMBER) != self.index.is_some() {
            return Err(unfit());
        }
        let back = match &self.index {
            Some(index) => self.by_number(index.clone(), drawn, came)?,
            None => self.by_run(drawn, came, at)?,
        };
        self.back = Some(back);
        (self.came, self.given, self.drop) = (came, given, Given::default());
        self.draw_from(drawn);
        Ok(())
    }
    fn is_settled(&self) -> bool {
        self.error.is_none()
    }
    fn replays(&self) -> bool {
        true
    }
}

impl BufferStage {
    /// Sets the random numbers to those behind so many draws.
    fn draw_from(&mut self, drawn: u64) {
        let mut random = self.seeds.random();
        random.seek(drawn);
        self.drawn = drawn;
        for i in 0..AHEAD as u64 {
            self.ahead[(drawn + i) as usize % AHEAD] = random.next_u32();
        }
        self.random = random;
    }
    /// What was held after so many draws follows from the draws.
    fn by_number(&mut self, index: Arc<dyn Index>, drawn: u64, came: u64) -> Result<Back> {
        let mut draws = Draws::new(Fill::UpTo(self.size), self.seeds.random());
        let (mut next, all) = (0, index.len());
        while draws.drawn < drawn {
            let come = || {
                next += 1;
                (next <= all).then(|| next - 1)
            };
            draws.draw(come).ok_or_else(unfit)?;
        }
        let next = next.min(all);
        let mut order: Vec<(u64, u32)> = draws.held.iter().zip(0..).map(|(number, place)| (*number, place)).collect();
        order.sort_unstable();
        let mut ranks = vec![0; order.len()];
        order.iter().zip(0..).for_each(|((_, place), rank)| ranks[*place as usize] = rank);
        if came < next || came - next > 1 << 21 {
            return Err(unfit());
        }
        let numbers: Vec<u64> = order.into_iter().map(|(number, _)| number).chain(next..came).collect();
        let rows = numbers.len();
        // An error that came before it was sent here does not count here.
        self.origins = Origins::Numbered;
        let stage = self.cx.recall_numbers(&self.node, index, numbers)?;
        Ok(Back { stage, order: ranks, rows, come: vec![], sizes: vec![] })
    }
    fn by_run(&mut self, drawn: u64, came: u64, at: &mut At<'_>) -> Result<Back> {
        let buffered = Buffered::read(at)?;
        let rows = buffered.rows();
        if rows as u64 != came - drawn || buffered.order.len() > self.size {
            return Err(unfit());
        }
        let mut random = self.seeds.random();
        random.seek(drawn);
        let fill = fill(self.size, self.bytes.as_ref().map(|b| b.most));
        self.origins = Origins::Noted(Journal::restored(fill, random, drawn, &buffered));
        let stage = self.cx.recall(&self.node, &self.node.inputs[0], buffered.runs)?;
        Ok(Back { stage, order: buffered.order, rows, come: vec![], sizes: vec![] })
    }
}

fn fill(size: usize, bytes: Option<usize>) -> Fill {
    if bytes.is_some() { Fill::Noted(VecDeque::new()) } else { Fill::UpTo(size) }
}

/// Access to the input by number. Not where that depends on what happened in this process, as it does for a cache.
fn numbered(cx: &BuildCx, input: &Plan) -> Result<Option<Arc<dyn Index>>> {
    let mut cached = false;
    input.walk(&mut |p| cached |= p.name() == "cache");
    // Where errors are left out, a number does not say how many came before it.
    if cached || cx.run.errors.is_some() { Ok(None) } else { cx.index(input) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Column, Pos, Tensor};
    use crate::runtime::PassSeeds;

    fn rows(first: u64, n: usize, bytes: usize) -> Chunk {
        let data: Vec<u8> = (0..n * bytes).map(|i| (first as usize + i / bytes) as u8).collect();
        Chunk::new(n, Pos::Run(first), [Column::Dense(Tensor::from_items([n, bytes], &data))])
    }

    struct Source(u64, usize);

    impl Stage for Source {
        fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
            if self.0 >= 2000 {
                return Pull::End;
            }
            let n = want.min(16).min(2000 - self.0 as usize);
            self.0 += n as u64;
            Pull::Rows(rows(self.0 - n as u64, n, self.1))
        }
        fn mark(&mut self, out: &mut Mark) {
            out.number(self.0);
        }
        fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
            self.0 = at.number()?;
            Ok(())
        }
    }

    fn run(bytes: usize) -> (Vec<u64>, usize) {
        let ds = crate::Dataset::range(1).unwrap().shuffle(Some(1), None, true).unwrap();
        let cx = crate::runtime::testing_cx(ds.plan());
        let seeds = Arc::new(PassSeeds::new(Some(1), Some(2), false)).start(&cx);
        let source = Box::new(Source(0, bytes));
        let mut stage = BufferStage::new(&cx, ds.plan(), source, (100, None), seeds, None).unwrap();
        let cancelled = crate::runtime::sync::atomic::AtomicBool::new(false);
        let waker: std::sync::Weak<dyn crate::runtime::Wake> = std::sync::Weak::<Never>::new();
        let mut cx = Cx::new(&waker, &cancelled);
        let (mut order, mut most) = (vec![], 0);
        while let Pull::Rows(chunk) = stage.next(&mut cx, 7) {
            for r in 0..chunk.rows() {
                assert_eq!(chunk.element(r)[0].tensor().items::<u8>()[0], chunk.pos.at(r) as u8);
                order.push(chunk.pos.at(r));
            }
            let bytes: usize = stage.parts.slots.iter().flatten().map(|p| p.chunk.nbytes()).sum();
            most = most.max(bytes);
        }
        assert!(stage.parts.slots.iter().all(|s| s.is_none()));
        assert_eq!((stage.parts.live, stage.parts.dead), (0, 0));
        (order, most)
    }

    struct Never;
    impl crate::runtime::Wake for Never {
        fn wake(&self) {}
    }

    /// Has much to tell of where it is.
    struct Telling(Source, Arc<Journal>);

    impl Stage for Telling {
        fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
            self.0.next(cx, want)
        }
        fn mark(&mut self, out: &mut Mark) {
            self.1.mark(0, 0, &mut Vec::new(), out);
        }
        fn seek(&mut self, _: &mut At<'_>) -> Result<()> {
            unreachable!("nobody goes back")
        }
    }

    #[test]
    fn nothing_is_noted_that_nobody_reads() {
        let ds = crate::Dataset::range(1).unwrap().shuffle(Some(1), None, true).unwrap();
        let cx = crate::runtime::testing_cx(ds.plan());
        let seeds = Arc::new(PassSeeds::new(Some(1), Some(2), false)).start(&cx);
        let journal = Journal::new(fill(1, None), seeds.random());
        let source = Box::new(Telling(Source(0, 10), journal));
        let mut stage = BufferStage::new(&cx, ds.plan(), source, (100, Some(500)), seeds, None).unwrap();
        let cancelled = crate::runtime::sync::atomic::AtomicBool::new(false);
        let waker: std::sync::Weak<dyn crate::runtime::Wake> = std::sync::Weak::<Never>::new();
        let mut cx = Cx::new(&waker, &cancelled);
        let mut given = 0;
        while let Pull::Rows(chunk) = stage.next(&mut cx, 7) {
            given += chunk.rows();
            assert!(stage.bytes.as_ref().unwrap().fills.is_empty());
        }
        assert_eq!(given, 2000);
    }

    #[test]
    fn memory_is_bounded_and_the_order_does_not_depend_on_it() {
        let (small, _) = run(1);
        let (large, most) = run(100_000);
        assert_eq!(small, large);
        // A hundred rows of 100 kB, twice that at most, and what came in last.
        assert!(most < 100_000 * 230, "{most}");
        let mut all = large;
        all.sort();
        assert_eq!(all, (0..2000).collect::<Vec<_>>());
    }
}
