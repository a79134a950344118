//! `snapshot(path, reader)`: the elements of the first complete pass go into shards on disk; later passes, of other
//! processes too, read them there, as a function of the shards says.
//!
//! 1. The input has pairs: the number of each element's shard, which the map before it made, and the element. So workers
//!    compute the numbers, and the function is a part of what the snapshot is known by (`kept_set.rs`).
//! 2. A pass finds a whole snapshot and reads it, or it finds none: then it gives the elements of the input in their
//!    order, and writes them. What it writes is a saved set (`save/set.rs`): it is there when its manifest is, which comes
//!    last. A pass that breaks off, or in which an element failed, leaves nothing. Nor does one beside another that writes.
//! 3. Reading is a plan of its own: `load` of all shards, or what the reader makes of a dataset of them, each a `load`.
//! 4. Workers may have written all of it for a consumer who then left. So that it does not matter whether they had, a
//!    snapshot is read like that only once somebody has seen the end of a pass over it (`runtime/ends.rs`), which the
//!    manifest says; before that, passes give what the input would give: the elements in the order in which they came, which
//!    is kept beside the shards (`in_order.rs`). And what is written is the first pass over the input, whichever this is.
//! 5. A state says which of these its pass did. One that wrote goes on with its input where the snapshot is whole by
//!    now. Where there is none, it begins its input once more and leaves out what was given, so that what it writes is
//!    whole and later passes find what they would have found. One that read what the reader gives needs the snapshot, and so
//!    does what begins behind an end that was seen.

mod in_order;
mod stage;

use super::flat_map::traced;
use super::kept_files::KeptFiles;
use super::kept_set;
use crate::dataset::Dataset;
use crate::element::{DType, Leaf, Spec, Tensor, Tree};
use crate::error::{Error, Result};
use crate::expr::{Attrs, Builder, NodeId};
use crate::op::{Function, Op, OpInfo, Param, Props, read};
use crate::plan::{Bound, Card, Plan};
use crate::runtime::{BuildCx, Built};
use crate::save;
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use stage::{Place, SnapshotStage};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "snapshot",
    doc: "Writes the elements of the first complete pass into shards on disk; later passes read them there.",
    params: &[
        Param::new("path", "", "the folder to keep them in"),
        Param::new("compression", "None", "of the files in it: LZ4 or ZSTD"),
        Param::new(
            "reader",
            "None",
            "from a dataset of shards, each a dataset, to one of elements; None: in their order",
        ),
    ],
    read: read::<Snapshot>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reader: Option<Function>,
    /// What stands before it, as it was asked for: the snapshot is known by it.
    #[serde(skip)]
    input: OnceLock<Plan>,
    #[serde(skip)]
    identity: OnceLock<Vec<u8>>,
}

/// From a dataset of shards, each a dataset, to one of elements.
pub type Reader<'a> = &'a dyn Fn(&Dataset) -> Result<Dataset>;

impl Dataset {
    /// Keeps the elements in a folder, for later processes too, in shards: the traced `shard` gives the number of each
    /// element's. Later passes read what `reader` makes of a dataset of the shards; without it, one shard after the other.
    ///
    /// ```
    /// # use feedline::{Dataset, expr::Attrs};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let odd = |b: &mut feedline::expr::Builder, x: &[usize]| {
    ///     let two = b.constant(feedline::element::Tensor::scalar(2i64).into())?;
    ///     b.call("mod", &[x[0], two], Attrs::default())
    /// };
    /// let ds = Dataset::range(5)?.snapshot_in_shards(dir.path().to_str().unwrap(), "AUTO", odd, None)?;
    /// let pass = || -> Vec<i64> { ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().item()).collect() };
    /// assert_eq!((pass(), pass()), (vec![0, 1, 2, 3, 4], vec![0, 2, 4, 1, 3]));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn snapshot_in_shards(
        &self,
        folder: &str,
        compression: &str,
        shard: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>,
        reader: Option<Reader<'_>>,
    ) -> Result<Dataset> {
        let reader = reader.map(|f| traced_reader(self.spec(), f)).transpose()?;
        let (path, compression) = (folder.into(), Some(compression.into()));
        let (input, identity) = Default::default();
        self.numbered(shard)?.apply(Snapshot { path, compression, reader, input, identity })
    }
    /// Each element with the number of its shard in front. One that is none fails its element.
    fn numbered(&self, shard: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>) -> Result<Dataset> {
        let mut b = Builder::new(self.spec());
        let leaves: Vec<NodeId> = (0..self.spec().leaf_count()).collect();
        let mut number = shard(&mut b, &leaves)?;
        if b.leaf(number).dtype().is_some_and(|dtype| dtype.is_int()) {
            let plain = |json: serde_json::Value| Ok::<Attrs, Error>(serde_json::from_value(json)?);
            number = b.call("cast", &[number], plain(serde_json::json!({ "dtype": DType::Int64 }))?)?;
            let (first, end) =
                (b.constant(Tensor::scalar(0i64).into())?, b.constant(Tensor::scalar(save::MOST_SHARDS).into())?);
            let from = b.call("greater_equal", &[number, first], Attrs::default())?;
            let to = b.call("less", &[number, end], Attrs::default())?;
            let fits = b.call("logical_and", &[from, to], Attrs::default())?;
            number = b.call(
                "ensure",
                &[number, fits],
                plain(serde_json::json!({ "message": format!("snapshot: {}", save::shard_numbers()) }))?,
            )?;
        }
        let mut leaves = leaves.into_iter();
        let element = self.spec().try_map(&mut |_| leaves.next().ok_or_else(|| Error::internal("a leaf too many")))?;
        self.map_graph(b.finish(&Tree::tuple(vec![Tree::Leaf(number), element])))
    }
}

/// A dataset of shards of elements of this spec, as a value.
fn shards_leaf(spec: &Spec) -> Leaf {
    Leaf::Dataset(Arc::new(Spec::leaf(Leaf::Dataset(Arc::new(spec.clone())))))
}

fn traced_reader(spec: &Spec, reader: Reader<'_>) -> Result<Function> {
    let shard = Spec::leaf(Leaf::Dataset(Arc::new(spec.clone())));
    traced(&Spec::leaf(shards_leaf(spec)), |b, args| {
        let shards = super::nested::NestedInput::new(b.export(args[0]), shard);
        let made = reader(&Dataset::source(shards)?)?;
        Ok(b.dataset(Bound::nested(made.plan().clone()), made.spec().clone()))
    })
}

/// The elements of pairs of numbers and elements.
fn elements(pairs: &Spec) -> Result<&Spec> {
    let Tree::Tuple { items, .. } = pairs else {
        return Err(Error::usage(format!("the input must have pairs of a shard's number and an element, not {pairs}")));
    };
    match &items[..] {
        [number, element] if number.may_be_scalar(DType::Int64) => Ok(element),
        [number, _] => Err(Error::usage(format!(
            "shard_func must return one whole number, an integer scalar, but returns {number}"
        ))),
        _ => Err(Error::usage(format!("the input must have pairs of a shard's number and an element, not {pairs}"))),
    }
}

impl Snapshot {
    fn check_reader(&self, spec: &Spec) -> Result<()> {
        let Some(reader) = &self.reader else { return Ok(()) };
        reader.takes(&[&Spec::leaf(shards_leaf(spec))])?;
        let Some(Leaf::Dataset(got)) = reader.spec().as_leaf() else {
            return Err(Error::usage(format!("reader_func must return a dataset, but returns {}", reader.spec())));
        };
        let fits =
            **got == *spec || spec.join(got).is_ok_and(|joint| joint == *spec && spec.leaf_order(got).is_sorted());
        match fits {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "reader_func must return a dataset of the elements that were written, {spec}, but returns one of {got}"
            ))),
        }
    }
    fn place(&self, cx: &BuildCx, node: &Plan) -> Result<Place> {
        let input = self.input.get().unwrap_or(&node.inputs[0]);
        let mut identity = kept_set::known(&self.identity, input)?.to_vec();
        identity.extend(b"snapshot");
        // Where errors are left out, other elements come.
        if cx.run.errors.is_some() {
            identity.extend(b"leaves out errors");
        }
        let (folder, listed) = kept_set::place(&self.path, &identity, input, &cx.env)?;
        Ok(Place {
            node: node.id,
            folder,
            files: KeptFiles::new("snapshot", listed, cx),
            spec: node.spec.clone(),
            compression: save::compression(self.compression.as_deref().unwrap_or(""))?,
        })
    }
}

impl Op for Snapshot {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let spec = elements(&inputs[0].spec)?;
        save::check_storable(spec)?;
        save::compression(self.compression.as_deref().unwrap_or(""))?;
        self.check_reader(spec)?;
        let _brief = brief();
        self.input.get_or_init(|| inputs[0].clone());
        Ok(spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    /// Not pure: the first pass has another order than those behind it.
    fn props(&self) -> Props {
        Props { pure: false, partial: true, ..super::function_props(&self.functions()) }
    }
    fn functions(&self) -> Vec<&Function> {
        self.reader.iter().collect()
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let place = self.place(cx, node)?;
        let stage = SnapshotStage::new(cx.clone(), node.inputs[0].clone(), place, self.reader.clone())?;
        Ok(Built::Stage(Box::new(stage)))
    }
    fn is_read_by_ends(&self) -> bool {
        true
    }
    fn has_ended(&self, cx: &BuildCx, node: &Plan) -> Result<bool> {
        self.place(cx, node)?.has_ended(cx)
    }
    fn recall_end(&self, cx: &BuildCx, node: &Plan) -> Result<()> {
        self.place(cx, node)?.recall_end(cx)
    }
    /// Where they are kept does not change what they are.
    fn tunables(&self) -> &'static [&'static str] {
        &["path", "compression"]
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cache::tests::counted;
    use crate::ops::testing::{events, failing, in_chunks, ints, until};
    use crate::save::Manifest;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::Ordering::Relaxed;

    /// `x mod n` as the number of a shard.
    fn modulo(n: i64) -> impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId> {
        move |b, x| {
            let n = b.constant(Tensor::scalar(n).into())?;
            b.call("mod", &[x[0], n], Attrs::default())
        }
    }
    /// One element of each shard in turn; the shards in another order in each pass.
    fn mixed(shards: &Dataset) -> Result<Dataset> {
        let spec = match shards.spec().as_leaf() {
            Some(Leaf::Dataset(spec)) => (**spec).clone(),
            _ => return Err(Error::internal("no shards")),
        };
        shards.shuffle(Some(8), Some(5), true)?.interleave(3, 1, |b, x| {
            let shard = super::super::nested::NestedInput::new(b.export(x[0]), spec);
            Ok(b.dataset(Bound::nested(Dataset::source(shard)?.plan().clone()), Spec::scalar(DType::Int64)))
        })
    }
    /// Without workers that read a small input to its end before anybody asks.
    fn not_ahead(ds: &Dataset) -> Dataset {
        ds.with_options(crate::Options { prefetch: Some(false), ..Default::default() }).unwrap()
    }
    fn name(folder: &Path) -> &str {
        folder.to_str().unwrap()
    }
    /// The folders of the snapshots there.
    fn places(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
    fn files(place: &Path) -> Vec<Vec<String>> {
        let manifest = Manifest::read(name(place)).unwrap().unwrap();
        manifest.shards.iter().map(|files| files.iter().map(|f| save::within(name(place), &f.name)).collect()).collect()
    }

    #[test]
    fn written_in_order_and_read_by_shards() {
        let dir = tempfile::tempdir().unwrap();
        let (all, by_shard): (Vec<i64>, Vec<i64>) =
            ((0..5000).collect(), (0..3).flat_map(|k| (k..5000).step_by(3)).collect());
        let (ds, calls) = counted(5000, -1);
        let kept = ds.snapshot_in_shards(name(dir.path()), "AUTO", modulo(3), None).unwrap();
        assert_eq!(kept.cardinality(), Card::Known(5000));
        assert_eq!((ints(&kept), ints(&kept), ints(&in_chunks(&kept, 7))), (all, by_shard.clone(), by_shard.clone()));
        assert_eq!(calls.load(Relaxed), 5000);
        // Another dataset of the same plan, as a later process has it; the shards are a saved set.
        let (again, calls) = counted(5000, -1);
        let again = again.snapshot_in_shards(name(dir.path()), "AUTO", modulo(3), None).unwrap();
        assert_eq!((ints(&again), calls.load(Relaxed)), (by_shard.clone(), 0));
        assert_eq!(files(&places(dir.path())[0]).len(), 3);
        assert_eq!(ints(&Dataset::load(name(&places(dir.path())[0])).unwrap()), by_shard);
        // With other shards it is another one.
        let other = again.plan().inputs[0].inputs[0].clone();
        let other = Dataset::from_plan(other).snapshot_in_shards(name(dir.path()), "AUTO", modulo(2), None).unwrap();
        assert_eq!((ints(&other)[1], ints(&other)[1], places(dir.path()).len()), (1, 2, 2));
    }

    #[test]
    fn a_reader_says_in_what_order_shards_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let ds = Dataset::range(40).unwrap();
        let kept = ds.snapshot_in_shards(name(dir.path()), "NONE", modulo(8), Some(&mixed)).unwrap();
        assert_eq!(ints(&kept), (0..40).collect::<Vec<_>>());
        let (second, third) = (ints(&kept), ints(&kept));
        assert!(second != third && second != (0..40).collect::<Vec<_>>(), "{second:?}");
        for pass in [&second, &third] {
            let mut all = pass.clone();
            all.sort_unstable();
            assert_eq!(all, (0..40).collect::<Vec<_>>());
        }
        // A new process begins with the first order of the reader, whatever workers and chunks it has.
        for rows in [1, 3, 100] {
            let again = ds.snapshot_in_shards(name(dir.path()), "NONE", modulo(8), Some(&mixed)).unwrap();
            assert_eq!(ints(&in_chunks(&again, rows)), second);
        }
    }

    #[test]
    fn what_is_not_complete_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (ds, calls) = counted(4, 1);
        let ds = ds.snapshot_in_shards(name(dir.path()), "NONE", modulo(2), None).unwrap();
        assert_eq!(events(&ds), "0 ! 2 3");
        let left = not_ahead(&ds).iter().unwrap().take(2).count();
        let first = not_ahead(&ds).iter().unwrap();
        // `first` holds the lock: this pass gives its input and keeps nothing.
        assert_eq!((left, events(&ds).as_str()), (2, "0 1 2 3"));
        assert_eq!(first.count(), 4);
        let before = calls.load(Relaxed);
        assert_eq!((events(&ds).as_str(), calls.load(Relaxed)), ("0 2 1 3", before));
    }

    #[test]
    fn what_a_killed_writer_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let ds = Dataset::range(4).unwrap();
        let ds = ds.snapshot_in_shards(name(dir.path()), "NONE", modulo(2), None).unwrap();
        assert_eq!(not_ahead(&ds).iter().unwrap().take(1).count(), 1);
        let left = places(dir.path())[0].join("run-1-2-3");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join("00000-00000.arrow"), "half").unwrap();
        assert_eq!((ints(&ds), ints(&ds)), (vec![0, 1, 2, 3], vec![0, 2, 1, 3]));
        assert!(!left.exists());
    }

    /// Numbers to which that in a file is added: one that is known by name only while a pass runs.
    fn shifted_by(file: &str) -> Dataset {
        let shift = |b: &mut Builder, x: &[NodeId]| {
            let name = b.constant(Tensor::string(file.as_bytes()).into())?;
            let text = b.call("io.read_file", &[name], Attrs::default())?;
            let number = b.call(
                "strings.to_number",
                &[text],
                serde_json::from_value(serde_json::json!({ "out_type": DType::Int64 }))?,
            )?;
            b.call("add", &[x[0], number], Attrs::default())
        };
        Dataset::range(40).unwrap().map(shift).unwrap()
    }

    #[test]
    fn a_pass_goes_on_with_what_was_made_anew_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kept) = (dir.path().join("number"), dir.path().join("kept"));
        let ds = || shifted_by(name(&file)).snapshot_in_shards(name(&kept), "NONE", modulo(8), Some(&mixed)).unwrap();
        std::fs::write(&file, "0").unwrap();
        assert_eq!(ints(&ds()), (0..40).collect::<Vec<_>>());
        // Shards are opened when their turn comes: most are not yet.
        let old = not_ahead(&in_chunks(&ds(), 1));
        let mut reading = old.iter().unwrap();
        let mut all: Vec<i64> = reading.by_ref().take(2).map(|e| e.unwrap()[0].tensor().item()).collect();
        std::fs::write(&file, "1000").unwrap();
        assert_eq!(ints(&ds()), (1000..1040).collect::<Vec<_>>());
        let runs =
            || std::fs::read_dir(&places(&kept)[0]).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count();
        assert_eq!(runs(), 2);
        all.extend(reading.by_ref().map(|e| e.unwrap()[0].tensor().item::<i64>()));
        all.sort_unstable();
        assert_eq!(all, (0..40).collect::<Vec<_>>());
        drop(reading);
        until(|| runs() == 1);
        assert!(ints(&ds())[0] >= 1000);
    }

    #[test]
    fn shards_have_small_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let shifted = |by: i64| {
            move |b: &mut Builder, x: &[NodeId]| {
                let by = b.constant(Tensor::scalar(by).into())?;
                b.call("add", &[x[0], by], Attrs::default())
            }
        };
        for (by, expect) in [(-1, "! 1 2"), (510, "0 1 !"), (0, "0 1 2")] {
            let ds = Dataset::range(3).unwrap().snapshot_in_shards(name(dir.path()), "", shifted(by), None).unwrap();
            for rows in [1, 2, 100] {
                assert_eq!(events(&in_chunks(&ds, rows)), expect, "{by}");
            }
            if let Some(error) = ds.iter().unwrap().find_map(|e| e.err()) {
                let text = error.to_string();
                let element = if by < 0 { "element 0" } else { "element 2" };
                assert!(text.contains("a number from 0 to 511") && text.contains(element), "{text}");
            }
        }
        // What was tampered with is refused where it is written.
        let pairs = Dataset::range(3).unwrap().map_graph({
            let mut b = Builder::new(&Spec::scalar(DType::Int64));
            let far = b.constant(Tensor::scalar(1i64 << 40).into()).unwrap();
            b.finish(&Tree::tuple(vec![Tree::Leaf(far), Tree::Leaf(0)]))
        });
        let params = serde_json::json!({ "path": name(dir.path()) });
        let op = (INFO.read)(params).unwrap();
        let ds = Dataset::from_plan(Plan::new(op, vec![pairs.unwrap().plan().clone()]).unwrap());
        let text = ds.iter().unwrap().find_map(|e| e.err()).unwrap().to_string();
        assert!(text.contains("from 0 to 511") && text.contains("element 0"), "{text}");
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let ds = Dataset::range(3).unwrap();
        let half = |b: &mut Builder, x: &[NodeId]| {
            let attrs = serde_json::from_value(serde_json::json!({ "dtype": "float32" }))?;
            b.call("cast", &[x[0]], attrs)
        };
        let text = ds.snapshot_in_shards("x", "AUTO", half, None).unwrap_err().to_string();
        assert!(text.contains("snapshot") && text.contains("integer scalar") && text.contains("float32"), "{text}");
        let pair = ds.batch(2, true).unwrap().snapshot_in_shards("x", "AUTO", |_, x| Ok(x[0]), None);
        assert!(pair.unwrap_err().to_string().contains("integer scalar"));
        let batches = |shards: &Dataset| mixed(shards)?.batch(2, false);
        let text = ds.snapshot_in_shards("x", "AUTO", modulo(2), Some(&batches)).unwrap_err().to_string();
        assert!(text.contains("reader_func must return a dataset of the elements") && text.contains("int64"), "{text}");
        assert!(ds.snapshot_in_shards("x", "LZ77", modulo(2), None).unwrap_err().to_string().contains("LZ77"));
        assert!(
            ds.window(1, 1, 1, false)
                .unwrap()
                .snapshot_in_shards("x", "", |b, _| b.constant(Tensor::scalar(0i64).into()), None)
                .is_err()
        );
    }

    /// The rest of a pass that goes on from a state.
    fn rest(ds: &Dataset, state: &crate::runtime::State) -> Vec<i64> {
        ds.iter_from(state).unwrap().map(|e| e.unwrap()[0].tensor().item()).collect()
    }

    #[test]
    fn states_go_on_in_both_kinds_of_passes() {
        let dir = tempfile::tempdir().unwrap();
        let place = |n: usize| dir.path().join(n.to_string());
        // Each pass over the input has an order of its own.
        let made = |n: usize| {
            let input = Dataset::range(40).unwrap().shuffle(Some(10), Some(7), true).unwrap();
            let kept = input.snapshot_in_shards(name(&place(n)), "NONE", modulo(8), Some(&mixed)).unwrap();
            in_chunks(&kept.repeat(Some(3)).unwrap(), [1, 3, 100][n % 3])
        };
        let ds = made(0);
        let mut iter = ds.iter().unwrap();
        let (mut all, mut states) = (Vec::new(), vec![iter.state().unwrap()]);
        while let Some(element) = iter.next() {
            all.push(element.unwrap()[0].tensor().item::<i64>());
            states.push(iter.state().unwrap());
        }
        assert_eq!(all.len(), 120);
        for (position, state) in states.iter().enumerate() {
            // Where the snapshot is, and what follows in this process.
            let here = made(0);
            assert_eq!(rest(&here, state), all[position..], "at {position}");
            // Where it is not: a pass that wrote begins again and writes, one that read cannot go on.
            let elsewhere = made(position + 1);
            if position < 40 {
                assert_eq!(rest(&elsewhere, state), all[position..], "at {position}, elsewhere");
                assert_eq!(files(&places(&place(position + 1))[0]).len(), 8);
            } else if (41..80).contains(&position) {
                let text = elsewhere.iter_from(state).err().unwrap().to_string();
                assert!(text.contains("snapshot") && text.contains("here is none"), "{text}");
            }
        }
    }

    #[test]
    fn a_state_of_another_snapshot_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let made = |folder: &str| {
            let input = Dataset::range(40).unwrap().shuffle(Some(10), Some(7), true).unwrap();
            input.snapshot_in_shards(name(&dir.path().join(folder)), "NONE", modulo(2), None).unwrap()
        };
        let (one, other) = (made("one"), made("other"));
        assert_eq!(ints(&one).len(), 40);
        let mut iter = one.iter().unwrap();
        iter.next().unwrap().unwrap();
        let state = iter.state().unwrap();
        assert_eq!(ints(&other).len(), 40);
        // As a version of before wrote it, in its second pass.
        let manifest = places(&dir.path().join("other"))[0].join("dataset.json");
        let written = std::fs::read_to_string(&manifest).unwrap();
        assert!(written.contains("\"epoch\": 0"));
        std::fs::write(&manifest, written.replace("\"epoch\": 0", "\"epoch\": 1")).unwrap();
        let text = other.iter_from(&state).err().unwrap().to_string();
        assert!(text.contains("another pass"), "{text}");
        assert_eq!(rest(&one, &state).len(), 39);
    }

    #[test]
    fn a_shuffle_behind_it_can_be_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let made = |n: usize| {
            let input = failing(60, &[]).snapshot_in_shards(name(&dir.path().join(n.to_string())), "", modulo(4), None);
            input.unwrap().shuffle(Some(10), Some(3), true).unwrap().repeat(Some(2)).unwrap()
        };
        let ds = made(0);
        let mut iter = ds.iter().unwrap();
        let (mut all, mut states) = (Vec::new(), Vec::new());
        while let Some(element) = iter.next() {
            all.push(element.unwrap()[0].tensor().item::<i64>());
            states.push(iter.state().unwrap());
        }
        for (position, state) in states.iter().enumerate().step_by(7) {
            assert_eq!(rest(&made(0), state), all[position + 1..], "at {position}");
            if position < 45 {
                assert_eq!(rest(&made(position + 1), state), all[position + 1..], "at {position}, elsewhere");
            }
        }
    }

    #[test]
    fn damage_says_what_to_remove() {
        let dir = tempfile::tempdir().unwrap();
        let flip = |file: &str| {
            let mut bytes = std::fs::read(file).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(file, bytes).unwrap();
        };
        let cut = |file: &str| {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        };
        let remove = |file: &str| std::fs::remove_file(file).unwrap();
        for (what, harm) in [("flip", flip as fn(&str)), ("cut", cut), ("remove", remove)] {
            for reader in [None, Some(&mixed as Reader<'_>)] {
                let folder = dir.path().join(format!("{what}-{}", reader.is_some()));
                let ds = Dataset::range(1000).unwrap();
                let ds = ds.snapshot_in_shards(name(&folder), "NONE", modulo(2), reader).unwrap();
                assert_eq!(ints(&ds).len(), 1000);
                let place = places(&folder).remove(0);
                harm(&files(&place)[1][0]);
                let read = || ds.iter()?.try_for_each(|element| element.map(|_| ()));
                let text = read().unwrap_err().to_string();
                assert!(text.contains(&format!("remove the folder {}", name(&place))), "{what}: {text}");
                assert!(text.contains(".arrow") && text.contains("snapshot"), "{what}: {text}");
                std::fs::remove_dir_all(place).unwrap();
                read().unwrap();
            }
        }
    }

    #[test]
    fn passes_that_leave_out_errors_have_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let ds = failing(4, &[2]).snapshot_in_shards(name(dir.path()), "", modulo(2), None).unwrap();
        let options = crate::Options { on_error: Some(crate::OnError::Skip), ..Default::default() };
        let skipping = ds.with_options(options).unwrap();
        assert_eq!((events(&skipping).as_str(), events(&skipping).as_str()), ("0 1 3", "0 1 3"));
        assert_eq!(events(&ds), "0 1 ! 3");
    }
}
