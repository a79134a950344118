//! A saved set: a folder with a manifest, `dataset.json`, and a run of Arrow files.
//!
//! 1. Each shard is a row of files of about `FILE_BYTES`, and each file a row of record batches of about `BLOCK_BYTES`, the
//!    blocks. What an element is like in a file is said in `stored.rs`.
//! 2. All files of a run lie in a folder of their own. The manifest names them, with the checksum of every block, and is
//!    written last, in one step: a run that was killed is not there, and what was there before still is.
//! 3. A run that is to be gone on with commits what it has from time to time: it ends its files and names them in another
//!    manifest, `partial.json`, with where they break off. Whoever goes on takes these files over and adds its own.
//! 4. Whoever deals rows to shards may have their order kept, too: in another row of files, with the shard and the position
//!    of each row, which the manifest names among what it says of its origin.
//! 5. One process at a time writes to a folder. It removes what no manifest refers to any more and nobody reads
//!    (`lease.rs`).
//! 6. Blocks of different shards are written side by side where a whole pass is saved (`portions.rs`). Inside of a pipeline
//!    the stage that keeps its rows writes them itself, since no worker may wait for another.

use super::arrays::{Binary, batch_of, schema_of};
use super::folder::{Folder, local, new_run};
use super::lease::offer;
use super::stored::{stored_spec, to_stored};
use super::{Output, Portions, Progress, Saved, Staged};
use crate::dataset::iterate;
use crate::element::{Chunk, Column, DType, Leaf, Pos, Spec, Tensor, Tree};
use crate::error::{Error, Kind, Result};
use crate::plan::{Bound, Card};
use crate::runtime::Pool;
use feedline_formats::arrow_ipc::ArrowWriter;
use feedline_formats::columnar::schema::SchemaRef;
use feedline_formats::tfrecord::{crc_of_more, masked};
use feedline_io::scratch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const MANIFEST: &str = "dataset.json";
pub const PARTIAL: &str = "partial.json";
/// Changes whenever sets of before cannot be read any more.
const VERSION: u64 = 1;
const BLOCK_BYTES: usize = 4 << 20;
/// Where memory is short, blocks are smaller; yet each has a description, and is read by itself.
const LEAST_BLOCK_BYTES: usize = 256 << 10;
const BLOCK_ROWS: usize = 64 << 10;
const FILE_BYTES: u64 = 256 << 20;
/// Rows that wait to be written, of all shards together; where memory is short, this part of the limit.
const WAITING_BYTES: usize = 64 << 20;
const WAITING_PART: usize = 8;
/// Each has an open file.
pub const MOST_SHARDS: i64 = 512;
/// What an origin says, if anything: `false` as long as nobody is known to have seen the end of the pass that was kept.
pub const SEEN: &str = "seen";
/// And where the order of rows is that were dealt.
const ORDER: &str = "order";
/// More than any manifest of a set that fits on a disk.
const MOST_MANIFEST: u64 = 1 << 30;
/// What a killed run may lose: this, or this part of the time it took.
const COMMIT_AFTER: Duration = Duration::from_secs(1);
const COMMIT_PART: u32 = 16;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format, under a name that says what the file is.
    feedline_dataset: u64,
    pub elements: u64,
    pub compression: String,
    pub spec: Spec,
    /// The files of each shard, in the order of their elements.
    pub shards: Vec<Vec<File>>,
    /// What a cache was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Below the folder of the manifest.
    pub name: String,
    pub elements: u64,
    pub bytes: u64,
    /// The checksum of each block: masked CRC-32C, as in TFRecord files.
    pub blocks: Vec<u32>,
}

impl Manifest {
    /// The manifest of a folder; `None` if there is none.
    pub fn read(folder: &str) -> Result<Option<Manifest>> {
        Manifest::read_named(folder, MANIFEST)
    }
    /// What was committed of a run that has not ended.
    pub fn read_partial(folder: &str) -> Result<Option<Manifest>> {
        Manifest::read_named(folder, PARTIAL)
    }
    pub(super) fn read_named(folder: &str, name: &str) -> Result<Option<Manifest>> {
        let name = within(folder, name);
        if !feedline_io::exists(&name)? {
            return Ok(None);
        }
        let bad = |text: String| Error::data(text).in_file(&name, None);
        let source = feedline_io::open(&name)?;
        let len = source.clone().stat().wait()?.len;
        if len > MOST_MANIFEST {
            return Err(bad(format!("{len} bytes are too many for a manifest")));
        }
        let text = source.read(0, len as usize).wait()?;
        let json: serde_json::Value =
            serde_json::from_slice(text.as_slice()).map_err(|e| bad(format!("is no manifest of a saved set: {e}")))?;
        match json.get("feedline_dataset").and_then(|v| v.as_u64()) {
            Some(VERSION) => {}
            Some(n) => return Err(bad(format!("is of version {n}; this feedline reads version {VERSION}"))),
            None => return Err(bad("is no manifest of a saved set".into())),
        }
        let manifest: Manifest = serde_json::from_value(json).map_err(|e| bad(format!("is damaged: {e}")))?;
        match manifest.shards.iter().flatten().find(|file| file.is_outside()) {
            Some(file) => Err(bad(format!("{:?} is no file of this set", file.name))),
            None => Ok(Some(manifest)),
        }
    }
    fn write(&self, folder: &str, name: &str) -> Result<()> {
        let name = within(folder, name);
        let mut output = feedline_io::create(&name)?;
        output
            .write_all(serde_json::to_string_pretty(self)?.as_bytes())
            .map_err(|e| Error::new(Kind::Io, e.to_string()).in_file(&name, None).with_source(Arc::new(e)))?;
        output.commit()
    }
    /// The part of a set of one shard that has its first `elements`, if a file ends there.
    pub fn up_to(&self, elements: u64) -> Option<Manifest> {
        let [files] = &self.shards[..] else { return None };
        let mut held = 0;
        let more = |file: &&File| {
            let more = held < elements;
            held += if more { file.elements } else { 0 };
            more
        };
        let shards = vec![files.iter().take_while(more).cloned().collect()];
        (held == elements).then(|| Manifest { elements, shards, ..self.clone() })
    }
    fn files(&self) -> HashSet<&str> {
        let order = self.origin.as_ref().and_then(|origin| origin[ORDER]["files"].as_array()).into_iter().flatten();
        let order = order.filter_map(|file| file["name"].as_str());
        self.shards.iter().flatten().map(|file| file.name.as_str()).chain(order).collect()
    }
    /// Whether somebody has seen the end of the pass that was kept, as far as that matters.
    pub fn is_seen(&self) -> bool {
        self.origin.as_ref().is_none_or(|origin| origin[SEEN] != false)
    }
    /// Whether that was the pass of this name.
    pub fn is_seen_by(&self, pass: u64) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin[SEEN] == pass)
    }
    /// The order in which its rows were dealt, if it was kept: a set of positions and numbers of shards, and those numbers.
    pub fn order(&self) -> Result<Option<(Manifest, Vec<i64>)>> {
        let Some(order) = self.origin.as_ref().and_then(|origin| origin.get(ORDER)) else { return Ok(None) };
        let files: Vec<File> = serde_json::from_value(order["files"].clone())?;
        let numbers: Vec<i64> = serde_json::from_value(order["shards"].clone())?;
        let elements = files.iter().map(|file| file.elements).sum();
        if elements != self.elements || numbers.len() != self.shards.len() || files.iter().any(|f| f.is_outside()) {
            return Err(Error::data("the order of its elements is damaged"));
        }
        Ok(Some((
            Manifest { spec: order_spec(), elements, shards: vec![files], origin: None, ..self.clone() },
            numbers,
        )))
    }
}

/// A position, and the number of a shard.
fn order_spec() -> Spec {
    Spec::tuple(vec![Spec::scalar(DType::Int64); 2])
}

impl File {
    /// Whether its name leads out of the folder.
    fn is_outside(&self) -> bool {
        self.name.split('/').any(|part| part.is_empty() || part == "..")
    }
}

/// Says in a folder that the end of what was kept there was seen, if it still is what is there, and by which pass if it has
/// a name.
pub fn tell_seen(folder: &str, kept: &Manifest, pass: Option<u64>) {
    let tell = || {
        // Whoever writes has something better.
        let _lock = match local(folder) {
            Some(_) => match Folder::lock(folder)? {
                Some(lock) => Some(lock),
                None => return Ok(()),
            },
            None => None,
        };
        if let Some(mut manifest) = Manifest::read(folder)?.filter(|found| found == kept)
            && let Some(origin) = &mut manifest.origin
        {
            origin[SEEN] = pass.map_or(true.into(), Into::into);
            manifest.write(folder, MANIFEST)?;
        }
        Ok::<(), Error>(())
    };
    if let Err(error) = tell() {
        log::warn!("what was kept of a pass is not known to be read: {error}");
    }
}

pub fn within(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/'))
}

/// What TensorFlow's names of compressions mean here: Arrow has two of its own.
pub fn compression(name: &str) -> Result<&'static str> {
    match name.to_ascii_uppercase().as_str() {
        "" | "NONE" => Ok("none"),
        "LZ4" | "SNAPPY" | "AUTO" => Ok("lz4"),
        "ZSTD" | "GZIP" => Ok("zstd"),
        _ => Err(Error::usage(format!(
            "there is no compression {name:?}; there are None, \"LZ4\" (also for \"SNAPPY\" and \"AUTO\") and \"ZSTD\" \
             (also for \"GZIP\")"
        ))),
    }
}

/// Whether elements of this spec can be saved.
pub fn check_storable(spec: &Spec) -> Result<()> {
    schema_of(&stored_spec(spec)?, &Binary::All(true)).map(|_| ())
}

/// Rows without their first column.
pub fn without_numbers(rows: &Chunk) -> Result<Chunk> {
    let columns = rows.columns().get(1..).ok_or_else(|| Error::internal("rows without the numbers of their shards"))?;
    Ok(Chunk::new(rows.rows(), rows.pos.clone(), columns.to_vec()))
}

/// A set that is being written. Dropped before `finish`, only what was committed is left of it.
pub struct SetWriter {
    place: Arc<Place>,
    shards: BTreeMap<i64, Filling>,
    /// In which rows were dealt, if that is kept: written as one more shard.
    order: Option<(Arc<Place>, Filling)>,
    /// `None` once it is dropped.
    desks: Option<Portions<Shard>>,
    /// Others write the blocks.
    is_helped: bool,
    elements: u64,
    block_bytes: usize,
    waiting_bytes: usize,
    /// `None` for an object store, which has no locks.
    lock: Option<Folder>,
    /// The files of this run are in a manifest.
    kept: bool,
    /// When it began and when it committed, and how many elements it had then.
    began: Instant,
    committed: (Instant, u64),
    /// A child of a fork has a copy of it, and must leave all files alone.
    process: u32,
}

/// What all files of a run have in common.
struct Place {
    folder: String,
    run: String,
    spec: Spec,
    schema: SchemaRef,
    compression: &'static str,
}

/// The next block of a shard.
struct Filling {
    desk: usize,
    waiting: Vec<Chunk>,
    bytes: usize,
}

/// The files of a shard.
struct Shard {
    number: i64,
    open: Option<Open>,
    files: Vec<File>,
}

impl Shard {
    fn open(&mut self, place: &Place) -> Result<&mut Open> {
        match &mut self.open {
            Some(open) => Ok(open),
            none => {
                offer_lock(&place.folder, &place.run)?;
                let name = format!("{}/{:05}-{:05}.arrow", place.run, self.number, self.files.len());
                Ok(none.insert(Open::new(&place.folder, name, &place.schema, place.compression)?))
            }
        }
    }
    fn write(&mut self, place: &Place, waiting: &[Chunk]) -> Result<()> {
        let rows = to_stored(&Chunk::concat(Pos::Run(0), waiting), &place.spec)?;
        let open = self.open(place)?;
        open.block(&rows, &place.schema)?;
        if open.file.bytes >= FILE_BYTES { self.end() } else { Ok(()) }
    }
    /// Ends the file that is open.
    fn end(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            self.files.push(open.finish()?);
        }
        Ok(())
    }
}

/// Where Arrow writes: everything goes on to the file at once. Of a message on its way the checksum is made.
struct Through {
    output: Box<dyn Output>,
    bytes: u64,
    message: Message,
}

/// A mark, the length of the description, the description, the body.
#[derive(Default)]
struct Message {
    head: [u8; 8],
    seen: usize,
    crc: u32,
}

impl Message {
    fn see(&mut self, mut bytes: &[u8]) {
        if let Some(missing) = self.head.get_mut(self.seen..) {
            let (front, rest) = bytes.split_at(missing.len().min(bytes.len()));
            missing[..front.len()].copy_from_slice(front);
            self.seen += front.len();
            bytes = rest;
        }
        let [_, _, _, _, length @ ..] = self.head;
        let body = self.head.len() + u32::from_le_bytes(length) as usize;
        let before = body.saturating_sub(self.seen).min(bytes.len());
        self.crc = crc_of_more(self.crc, &bytes[before..]);
        self.seen += bytes.len();
    }
}

impl Write for Through {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.output.write(bytes)?;
        self.bytes += n as u64;
        self.message.see(&bytes[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.output.flush()
    }
}

struct Open {
    path: String,
    file: File,
    arrow: ArrowWriter<Through>,
}

impl Open {
    fn new(folder: &str, name: String, schema: &SchemaRef, compression: &str) -> Result<Open> {
        let path = within(folder, &name);
        let output = Box::new(Staged::create(&path)?);
        let through = Through { output, bytes: 0, message: Message::default() };
        let arrow = ArrowWriter::new(through, schema, compression).map_err(|e| e.in_file(&path, None))?;
        Ok(Open { path, file: File { name, elements: 0, bytes: 0, blocks: vec![] }, arrow })
    }
    fn block(&mut self, rows: &Chunk, schema: &SchemaRef) -> Result<()> {
        let batch = batch_of(rows, schema)?;
        let through = self.arrow.out();
        through.message = Message::default();
        let at = through.bytes;
        self.arrow.write(&batch).map_err(|e| e.in_file(&self.path, Some(at)))?;
        let through = self.arrow.out();
        self.file.bytes = through.bytes;
        self.file.blocks.push(masked(through.message.crc));
        self.file.elements += rows.rows() as u64;
        Ok(())
    }
    fn finish(self) -> Result<File> {
        let Open { path, mut file, arrow } = self;
        let through = arrow.finish().map_err(|e| e.in_file(&path, Some(file.bytes)))?;
        file.bytes = through.bytes;
        through.output.commit()?;
        Ok(file)
    }
}

impl SetWriter {
    /// Begins a run in a folder; `None` while another process writes there.
    pub fn new(folder: &str, spec: &Spec, compression: &'static str) -> Result<Option<SetWriter>> {
        let schema = schema_of(&stored_spec(spec)?, &Binary::All(true))?;
        let lock = match local(folder) {
            None => None,
            Some(_) => match Folder::lock(folder)? {
                Some(lock) => Some(lock),
                None => return Ok(None),
            },
        };
        let (now, process) = (Instant::now(), std::process::id());
        let (folder, spec) = (folder.to_string(), spec.clone());
        Ok(Some(SetWriter {
            place: Arc::new(Place { folder, run: new_run(), spec, schema, compression }),
            shards: BTreeMap::new(),
            order: None,
            desks: Some(Portions::new(None, 1)),
            is_helped: false,
            elements: 0,
            block_bytes: BLOCK_BYTES,
            waiting_bytes: WAITING_BYTES,
            lock,
            kept: false,
            began: now,
            committed: (now, 0),
            process,
        }))
    }
    /// Blocks of about a part of the memory that there is.
    pub fn with_memory(mut self, limit: usize) -> SetWriter {
        self.block_bytes = (limit / 64).clamp(LEAST_BLOCK_BYTES, BLOCK_BYTES);
        self.waiting_bytes = (limit / WAITING_PART).clamp(LEAST_BLOCK_BYTES, WAITING_BYTES);
        self
    }
    /// Keeps the order in which rows are dealt.
    pub fn with_order(mut self) -> Result<SetWriter> {
        let Place { folder, run, .. } = &*self.place;
        let (folder, run, spec) = (folder.clone(), run.clone(), order_spec());
        let schema = schema_of(&stored_spec(&spec)?, &Binary::All(true))?;
        let desk = self.desks().add(Shard { number: MOST_SHARDS, open: None, files: vec![] });
        let filling = Filling { desk, waiting: vec![], bytes: 0 };
        self.order = Some((Arc::new(Place { folder, run, spec, schema, compression: "zstd" }), filling));
        Ok(self)
    }
    /// Shards are written by the workers of a pool, so many at once; whoever pushes has to `wait`.
    fn helped_by(mut self, (pool, most): (Arc<Pool>, usize)) -> SetWriter {
        self.is_helped = feedline_io::is_local(&self.place.folder);
        self.desks = Some(Portions::new(self.is_helped.then_some(pool), most));
        self
    }
    /// Until not too much is under way.
    fn wait(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.desks().wait(self.waiting_bytes / 2, watch)
    }
    fn settle(&self) -> Result<()> {
        self.desks().settle(&mut || Ok(()))
    }
    fn desks(&self) -> &Portions<Shard> {
        self.desks.as_ref().expect("it has them until it is dropped")
    }
    /// The next block of a shard, which is there from then on.
    fn filling(&mut self, shard: i64) -> &mut Filling {
        let desks = self.desks.as_ref().expect("it has them until it is dropped");
        self.shards.entry(shard).or_insert_with(|| {
            let desk = desks.add(Shard { number: shard, open: None, files: vec![] });
            Filling { desk, waiting: vec![], bytes: 0 }
        })
    }
    /// What it needs besides the rows that wait: those of a block in one piece, as they are stored, and a file's buffer.
    pub fn working_bytes(&self) -> usize {
        2 * self.block_bytes + (1 << 20)
    }
    /// Goes on behind what another run committed, and removes what nobody committed. A whole set stays until there is
    /// another: the files that it was made of may become again what they were.
    pub fn go_on(&mut self, partial: &Manifest) {
        for (shard, files) in (0..).zip(&partial.shards) {
            let (open, files) = (None, files.clone());
            let desk = self.desks().add(Shard { number: shard, open, files });
            self.shards.insert(shard, Filling { desk, waiting: vec![], bytes: 0 });
        }
        self.elements = partial.elements;
        self.committed.1 = partial.elements;
        if let Some(lock) = &self.lock {
            let whole = Manifest::read(&self.place.folder).ok().flatten();
            lock.sweep(&partial.files().into_iter().chain(whole.iter().flat_map(Manifest::files)).collect());
        }
    }
    /// How many it has, with those that wait.
    pub fn elements(&self) -> u64 {
        self.elements
    }
    /// Whether there is something to commit.
    pub fn has_news(&self) -> bool {
        self.committed.1 < self.elements && self.process == std::process::id()
    }
    /// Whether enough was written since the last commit that its loss would matter.
    pub fn is_due(&self) -> bool {
        let last = self.committed.0;
        self.has_news() && last.elapsed() >= COMMIT_AFTER.max(self.began.elapsed() / COMMIT_PART)
    }
    /// Keeps what was pushed so far, for whoever goes on from there: `origin` has to tell him where that is.
    pub fn commit(&mut self, origin: serde_json::Value) -> Result<()> {
        if !self.has_news() {
            return Ok(());
        }
        self.flush()?;
        let mut written = self.files();
        let last = written.keys().last().copied().unwrap_or(0);
        let shards = (0..=last).map(|shard| written.remove(&shard).unwrap_or_default()).collect();
        self.manifest(shards, Some(origin)).write(&self.place.folder, PARTIAL)?;
        self.kept = true;
        self.committed = (Instant::now(), self.elements);
        Ok(())
    }
    /// Writes what waits, then ends all files.
    fn flush(&mut self) -> Result<()> {
        for shard in self.shards.keys().copied().collect::<Vec<_>>() {
            self.write_block(shard)?;
        }
        self.write_order()?;
        self.settle()?;
        let order = self.order.iter().map(|(_, own)| own);
        self.shards.values().chain(order).for_each(|own| self.desks().push(own.desk, 0, Shard::end));
        self.settle()
    }
    /// The files of each shard, when all are ended.
    fn files(&self) -> BTreeMap<i64, Vec<File>> {
        let mut files = BTreeMap::new();
        self.desks().each(|shard| drop(files.insert(shard.number, shard.files.clone())));
        files
    }
    fn manifest(&self, shards: Vec<Vec<File>>, origin: Option<serde_json::Value>) -> Manifest {
        let Place { spec, compression, .. } = &*self.place;
        let (spec, compression, elements) = (spec.clone(), compression.to_string(), self.elements);
        Manifest { feedline_dataset: VERSION, elements, compression, spec, shards, origin }
    }
    /// Rows of a shard, behind those that it has.
    pub fn push(&mut self, shard: i64, rows: &Chunk) -> Result<()> {
        self.filling(shard);
        let most = (self.waiting_bytes / self.shards.len()).min(self.block_bytes);
        let bytes = rows.nbytes();
        let step = (rows.rows() * most).checked_div(bytes).unwrap_or(BLOCK_ROWS).clamp(1, BLOCK_ROWS);
        for from in (0..rows.rows()).step_by(step) {
            let piece = rows.slice(from..(from + step).min(rows.rows()));
            let own = self.filling(shard);
            own.bytes += bytes / rows.rows().max(1) * piece.rows();
            own.waiting.push(piece);
            if own.bytes >= most || own.waiting.iter().map(Chunk::rows).sum::<usize>() >= BLOCK_ROWS {
                self.write_block(shard)?;
            }
        }
        self.elements += rows.rows() as u64;
        Ok(())
    }
    /// Rows whose first column is the number of the shard that each goes to. Gives them without it.
    pub fn deal(&mut self, rows: &Chunk) -> Result<Chunk> {
        let elements = without_numbers(rows)?;
        let mut by_shard: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let mut order = Vec::new();
        for row in 0..rows.rows() {
            let value = rows.columns()[0].get(row);
            let number = crate::op::scalar_i64(&value).ok().filter(|n| (0..MOST_SHARDS).contains(n));
            let number = number.ok_or_else(|| {
                Error::data(format!("{}, not {value:?}", shard_numbers())).at_element(rows.pos.at(row))
            })?;
            by_shard.entry(number).or_default().push(row);
            if self.order.is_some() {
                order.push((rows.pos.at(row) as i64, number));
            }
        }
        if let Some((_, own)) = &mut self.order {
            let column = |of: fn(&(i64, i64)) -> i64| -> Column {
                Column::Dense(Tensor::from_items([order.len()], &order.iter().map(of).collect::<Vec<_>>()))
            };
            own.waiting.push(Chunk::new(order.len(), Pos::Run(0), [column(|row| row.0), column(|row| row.1)]));
            own.bytes += order.len();
            if own.bytes >= BLOCK_ROWS {
                self.write_order()?;
            }
        }
        for (shard, rows) in by_shard {
            match rows.len() == elements.rows() {
                true => self.push(shard, &elements)?,
                false => self.push(shard, &elements.take(&rows))?,
            }
        }
        Ok(elements)
    }
    fn write_order(&mut self) -> Result<()> {
        let Some((place, own)) = self.order.as_mut().filter(|(_, own)| !own.waiting.is_empty()) else { return Ok(()) };
        let (desk, place) = (own.desk, place.clone());
        let rows = std::mem::take(&mut own.waiting);
        own.bytes = 0;
        self.desks().push(desk, 0, move |shard| shard.write(&place, &rows));
        self.settle()
    }
    fn write_block(&mut self, shard: i64) -> Result<()> {
        let own = self.filling(shard);
        if own.waiting.is_empty() {
            return Ok(());
        }
        let (desk, rows, bytes) = (own.desk, std::mem::take(&mut own.waiting), std::mem::take(&mut own.bytes));
        let place = self.place.clone();
        if !self.is_helped {
            self.desks().push(desk, 0, move |shard| shard.write(&place, &rows));
            return self.settle();
        }
        self.desks().push(desk, bytes, move |shard| {
            // Those rows in one piece, and as they are stored.
            let _working = scratch(2 * bytes);
            shard.write(&place, &rows)
        });
        Ok(())
    }
    /// Writes what is left, then the manifest: from then on the set is there.
    pub fn finish(mut self, mut origin: Option<serde_json::Value>) -> Result<Manifest> {
        // An empty set has a file too: other tools find the columns there.
        if self.elements == 0 {
            let (desk, place) = (self.filling(0).desk, self.place.clone());
            self.desks().push(desk, 0, move |shard| shard.open(&place).map(|_| ()));
        }
        self.flush()?;
        let mut files = self.files();
        if self.order.is_some() {
            let order = files.remove(&MOST_SHARDS).unwrap_or_default();
            let told = serde_json::json!({ "files": order, "shards": files.keys().collect::<Vec<_>>() });
            origin.get_or_insert_default()[ORDER] = told;
        }
        let manifest = self.manifest(files.into_values().collect(), origin);
        manifest.write(&self.place.folder, MANIFEST)?;
        self.kept = true;
        if let (Some(lock), Some(folder)) = (&self.lock, local(&self.place.folder)) {
            // Nobody looks for a part once the whole is there.
            let _ = std::fs::remove_file(folder.join(PARTIAL));
            lock.sweep(&manifest.files());
        }
        Ok(manifest)
    }
}

/// Before a run has a file: whoever finds one can hold it.
fn offer_lock(folder: &str, run: &str) -> Result<()> {
    let Some(path) = local(folder) else { return Ok(()) };
    let failed = |e: std::io::Error| Error::new(Kind::Io, e.to_string()).in_file(folder, None).with_source(Arc::new(e));
    offer(&path.join(run)).map_err(failed)
}

impl Drop for SetWriter {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The files that are open belong to another process: not even their temporary names may go.
            std::mem::forget(self.desks.take());
            return;
        }
        self.desks = None;
        if let (false, Some(folder)) = (self.kept, local(&self.place.folder)) {
            let _ = std::fs::remove_dir_all(folder.join(&self.place.run));
        }
    }
}

/// Saves all elements. If they are `sharded`, the first component of each is the number of its shard, and not saved.
pub fn save_set(
    bound: &Bound,
    folder: &str,
    compression: &'static str,
    sharded: bool,
    watch: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Saved> {
    if bound.plan.card == Card::Infinite {
        return Err(Error::usage("the dataset is endless; cut it with take(n)").in_op("save"));
    }
    let whole = &bound.plan.spec;
    let spec = match whole {
        Tree::Tuple { items, .. } if sharded && items.len() == 2 && is_number(&items[0]) => &items[1],
        _ if sharded => {
            return Err(
                Error::usage("shard_func must return a whole number: that of the element's shard").in_op("save")
            );
        }
        whole => whole,
    };
    let mut writer = SetWriter::new(folder, spec, compression).map_err(|e| e.in_op("save"))?.ok_or_else(|| {
        Error::new(Kind::Io, "another process is saving here right now").in_file(folder, None).in_op("save")
    })?;
    let mut iter = iterate(bound)?;
    let entered = iter.enter();
    writer = writer.with_memory(iter.memory_limit()).helped_by(iter.workers());
    let _working = scratch(writer.working_bytes());
    drop(entered);
    let (mut elements, mut looked) = (0u64, Instant::now());
    while let Some(chunk) = iter.next_chunk(&mut || watch(Progress { elements, bytes: 0 }))? {
        // What is made of the rows on their way counts as the pipeline's.
        let entered = iter.enter();
        elements += chunk.rows() as u64;
        let written = if sharded { writer.deal(&chunk).map(|_| ()) } else { writer.push(0, &chunk) };
        let written = written.and_then(|()| writer.wait(&mut || watch(Progress { elements, bytes: 0 })));
        drop(entered);
        written.map_err(|e| e.in_op("save"))?;
        if looked.elapsed() > Duration::from_millis(100) {
            looked = Instant::now();
            watch(Progress { elements, bytes: 0 })?;
        }
    }
    let manifest = writer.finish(None).map_err(|e| e.in_op("save"))?;
    let files = manifest.shards.iter().flatten();
    let bytes = files.clone().map(|f| f.bytes).sum();
    Ok(Saved { files: files.map(|f| within(folder, &f.name)).collect(), elements, bytes })
}

fn is_number(spec: &Spec) -> bool {
    matches!(spec, Tree::Leaf(Leaf::Tensor { dtype: DType::Int64, .. }))
}

/// What an element's shard must be.
pub fn shard_numbers() -> String {
    format!("shard_func must give a number from 0 to {}", MOST_SHARDS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::element::{Dims, Element, Ragged, Sparse, Tensor, Value};
    use crate::ops::testing::{failing, ints, until};

    fn save(ds: &Dataset, folder: &str, compression: &'static str) -> Result<Saved> {
        let bound = Bound { plan: ds.plan().clone(), env: Arc::new([]) };
        save_set(&bound, folder, compression, false, &mut |_| Ok(()))
    }
    fn folder(dir: &tempfile::TempDir) -> String {
        dir.path().join("set").to_str().unwrap().into()
    }

    /// A leaf of each kind; rows differ in all that may differ.
    fn odd() -> Dataset {
        let tensor = |dtype, shape| Tree::Leaf(Leaf::tensor(dtype, shape));
        let ragged = Leaf::Ragged {
            dtype: DType::Int32,
            shape: Dims::of([None, None, Some(2)]),
            ragged_rank: 1,
            splits: DType::Int32,
        };
        let spec = Tree::Map {
            tag: None,
            items: vec![
                ("bf16".into(), tensor(DType::Bfloat16, Dims::of([Some(2)]))),
                ("empty".into(), tensor(DType::Float32, Dims::of([None, None]))),
                ("rank".into(), tensor(DType::String, Dims::unknown())),
                ("ragged".into(), Tree::Leaf(ragged)),
                ("sparse".into(), Tree::Leaf(Leaf::Sparse { dtype: DType::Bool, shape: Dims::of([None, Some(4)]) })),
                ("nested".into(), Tree::tuple(vec![tensor(DType::Uint8, Dims::of([None, Some(2)]))])),
            ],
        };
        let row = |e: Element| {
            let n = e[0].tensor().item::<i64>() as usize;
            let bf16 = Tensor::from_items([2], &[half::bf16::from_f32(n as f32), half::bf16::NAN]);
            let text = Tensor::strings(vec![1; n % 3], &[&[n as u8, 255][..]]);
            let splits: Arc<[i64]> = (0..=n as i64).map(|i| i * 2).collect();
            let values = Tensor::from_items([n * 2, 2], &vec![n as i32; n * 4]);
            let ragged = Ragged { values, splits: vec![splits], splits_dtype: DType::Int32 };
            let indices = Tensor::from_items([n, 2], &(0..n * 2).map(|i| (i / 2) as i64).collect::<Vec<_>>());
            let values = Tensor::from_items([n], &vec![crate::element::B8::from(true); n]);
            let sparse = Sparse { indices, values, shape: vec![n as i64, 4] };
            Ok([
                bf16.into(),
                Tensor::zeros(DType::Float32, [n % 2, n]).into(),
                text.into(),
                Value::Ragged(Arc::new(ragged)),
                Value::Sparse(Arc::new(sparse)),
                Tensor::from_items([n, 2], &vec![n as u8; n * 2]).into(),
            ]
            .into_iter()
            .collect())
        };
        Dataset::range(7).unwrap().map_fn(spec, row).unwrap()
    }

    #[test]
    fn elements_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let shown = |ds: &Dataset| -> Vec<String> { ds.iter().unwrap().map(|e| format!("{:?}", e.unwrap())).collect() };
        for compression in ["none", "lz4", "zstd"] {
            let saved = save(&odd(), &folder(&dir), compression).unwrap();
            assert_eq!((saved.elements, saved.files.len()), (7, 1));
            let loaded = Dataset::load(&folder(&dir)).unwrap();
            assert_eq!(loaded.spec(), odd().spec());
            assert_eq!(shown(&loaded), shown(&odd()));
        }
        // The lock, the manifest, and one run.
        until(|| std::fs::read_dir(folder(&dir)).unwrap().count() == 3);
    }

    #[test]
    fn a_run_that_breaks_off_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        assert!(Dataset::load(&folder).unwrap_err().to_string().contains("no saved dataset"));
        save(&Dataset::range(5).unwrap(), &folder, "none").unwrap();
        assert!(save(&failing(100, &[50]), &folder, "none").is_err());
        assert_eq!(ints(&Dataset::load(&folder).unwrap()), [0, 1, 2, 3, 4]);
        // A run of a killed process is not looked at, and goes with the next one.
        std::fs::create_dir(format!("{folder}/run-1-2-3")).unwrap();
        assert_eq!(ints(&Dataset::load(&folder).unwrap()).len(), 5);
        save(&Dataset::range(0).unwrap(), &folder, "none").unwrap();
        assert_eq!(ints(&Dataset::load(&folder).unwrap()), [0i64; 0]);
        until(|| std::fs::read_dir(&folder).unwrap().count() == 3);
    }

    #[test]
    fn shards_that_are_written_side_by_side_keep_their_order() {
        let spec =
            |leaf| Tree::Tuple { tag: None, items: vec![Tree::Leaf(Leaf::scalar(DType::Int64)), Tree::Leaf(leaf)] };
        let vectors = Leaf::tensor(DType::Int64, Dims::of([Some(512)]));
        let rows = Dataset::range(2000).unwrap().map_fn(spec(vectors), |e| {
            let n = e[0].tensor().item::<i64>();
            let row = Tensor::from_items([512], &[n; 512]);
            Ok([Value::Tensor(Tensor::scalar(n % 3)), row.into()].into_iter().collect())
        });
        // Blocks of half a megabyte and what is left of a chunk, of which two megabytes are under way.
        let options = crate::Options { memory_limit: Some(32 << 20), ..Default::default() };
        let rows = rows.unwrap().with_options(options).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let bound = Bound { plan: rows.plan().clone(), env: Arc::new([]) };
        let saved = save_set(&bound, &folder(&dir), "zstd", true, &mut |_| Ok(())).unwrap();
        assert_eq!((saved.elements, saved.files.len()), (2000, 3));
        let manifest = Manifest::read(&folder(&dir)).unwrap().unwrap();
        assert!(manifest.shards.iter().all(|files| files[0].blocks.len() > 2));
        let all = Dataset::load(&folder(&dir)).unwrap();
        let all: Vec<i64> = all.iter().unwrap().map(|e| e.unwrap()[0].tensor().items::<i64>()[511]).collect();
        assert!(all.into_iter().eq((0..3).flat_map(|shard| (shard..2000).step_by(3))));
    }

    #[test]
    fn one_process_at_a_time_writes() {
        let dir = tempfile::tempdir().unwrap();
        let ds = Dataset::range(5).unwrap();
        let writer = SetWriter::new(&folder(&dir), ds.spec(), "none").unwrap().unwrap();
        assert!(save(&ds, &folder(&dir), "none").unwrap_err().to_string().contains("another process is saving here"));
        drop(writer);
        assert!(save(&ds, &folder(&dir), "none").is_ok());
    }

    #[test]
    fn damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        let saved = save(&Dataset::range(1000).unwrap(), &folder, "none").unwrap();
        let mut bytes = std::fs::read(&saved.files[0]).unwrap();
        let at = bytes.windows(8).position(|w| w == 500i64.to_le_bytes()).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&saved.files[0], &bytes).unwrap();
        let ds = Dataset::load(&folder).unwrap();
        let error = ds.iter().unwrap().find_map(|e| e.err()).unwrap();
        assert!(error.kind() == Kind::Loss && error.to_string().contains("checksum"), "{error}");
        std::fs::write(&saved.files[0], &bytes[..bytes.len() / 2]).unwrap();
        let ds = Dataset::load(&folder).unwrap();
        assert!(ds.iter().map_or(true, |mut it| it.any(|e| e.is_err())));
        let manifest = format!("{folder}/{MANIFEST}");
        let text = std::fs::read_to_string(&manifest).unwrap();
        for (was, is) in [("run-", "../run-"), ("\"feedline_dataset\": 1", "\"feedline_dataset\": 9"), ("{", "[")] {
            std::fs::write(&manifest, text.replacen(was, is, 1)).unwrap();
            assert!(Dataset::load(&folder).is_err(), "{is}");
        }
    }

    #[test]
    fn large_sets_have_many_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Dataset::range(9).unwrap().map_fn(Spec::leaf(Leaf::tensor(DType::Uint8, Dims::of([None]))), |e| {
            Ok([Tensor::from_items([1 << 20], &vec![e[0].tensor().item::<i64>() as u8; 1 << 20]).into()]
                .into_iter()
                .collect())
        });
        save(&rows.unwrap(), &folder(&dir), "none").unwrap();
        let manifest = Manifest::read(&folder(&dir)).unwrap().unwrap();
        assert!(manifest.shards[0][0].blocks.len() > 1);
        let ds = Dataset::load(&folder(&dir)).unwrap();
        let first: Vec<u8> = ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().items::<u8>()[7]).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let index = ds.index().unwrap();
        assert_eq!(index.get(&[8]).unwrap().element(0)[0].tensor().items::<u8>()[0], 8);
    }
}
