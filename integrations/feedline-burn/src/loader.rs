//! Batches of a pipeline: a `burn` data loader. The pipeline shuffles, batches and reads ahead by itself, so there is no
//! batcher, no strategy and no number of workers to choose.

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use feedline::element::Element;
use feedline::plan::Card;
use feedline::runtime::{Iter, State};
use feedline::{Dataset, Error, Result};
use std::sync::Arc;

/// The elements of a dataset, made into whatever a model takes: usually batches of tensors on a device.
///
/// Every `iter` is a pass of its own, with another order where the dataset is shuffled. Items are the elements of the
/// dataset: where it has batches, batches.
pub struct Loader<O> {
    dataset: Dataset,
    device: Device,
    make: Arc<Make<O>>,
}

type Make<O> = dyn Fn(Element, &Device) -> Result<O> + Send + Sync;

impl<O> Loader<O> {
    /// `make` gets the components of an element's structure, in order, and the device they are for.
    pub fn new(
        dataset: Dataset,
        device: &Device,
        make: impl Fn(Element, &Device) -> Result<O> + Send + Sync + 'static,
    ) -> Loader<O> {
        Loader { dataset, device: device.clone(), make: Arc::new(make) }
    }
    /// A pass as `iter` gives it, but one that can be asked where it is, and an error at once if it cannot begin.
    pub fn pass(&self) -> Result<Pass<'_, O>> {
        Ok(Pass { loader: self, from: Ok(self.dataset.iter()?), given: 0, ended: false })
    }
    /// The same from where another pass was when its [`Pass::state`] was taken, in this process or another. The next pass
    /// is then the one behind it.
    pub fn pass_from(&self, state: &State) -> Result<Pass<'_, O>> {
        let given = state.delivered() as usize;
        Ok(Pass { loader: self, from: Ok(self.dataset.iter_from(state)?), given, ended: false })
    }
    fn with(&self, dataset: Dataset, device: &Device) -> Loader<O> {
        Loader { dataset, device: device.clone(), make: self.make.clone() }
    }
}

impl<O: 'static> DataLoader<O> for Loader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let pass = self.pass();
        Box::new(pass.unwrap_or_else(|e| Pass { loader: self, from: Err(Some(e)), given: 0, ended: false }))
    }
    /// The number of elements, or 0 where it is not known before they are read.
    fn num_items(&self) -> usize {
        match self.dataset.cardinality() {
            Card::Known(count) => count as usize,
            Card::Infinite | Card::Unknown => 0,
        }
    }
    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(self.with(self.dataset.clone(), device))
    }
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let part = self.dataset.take(end as i64).and_then(|ds| ds.skip(start as i64));
        Arc::new(self.with(part.expect("take and skip fit every dataset"), &self.device))
    }
}

/// The elements of one pass. An error stands in the place of one of them.
pub struct Pass<'a, O> {
    loader: &'a Loader<O>,
    /// Or why there is no pass, which is told once: burn's `iter` cannot fail.
    from: std::result::Result<Iter, Option<Error>>,
    given: usize,
    ended: bool,
}

impl<O> Pass<'_, O> {
    /// Where the pass is; small, and exact in the middle of an epoch. What was read ahead is not lost.
    pub fn state(&mut self) -> Result<State> {
        match &mut self.from {
            Ok(iter) => iter.state(),
            Err(_) => Err(Error::usage("a pass that could not begin has no state")),
        }
    }
}

impl<O> Iterator for Pass<'_, O> {
    type Item = std::result::Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let element = match &mut self.from {
            Ok(iter) => iter.next(),
            Err(error) => error.take().map(Err),
        };
        let Some(element) = element else {
            self.ended = true;
            return None;
        };
        self.given += 1;
        let made = element.and_then(|element| (self.loader.make)(element, &self.loader.device));
        Some(made.map_err(DatasetError::new))
    }
}

impl<O: 'static> DataLoaderIterator<O> for Pass<'_, O> {
    /// Where the number of elements is not known, there is one more until the end is found.
    fn progress(&self) -> Progress {
        let items_total = match (self.loader.dataset.cardinality(), self.ended) {
            (Card::Known(count), false) => (count as usize).max(self.given),
            (_, false) => self.given + 1,
            (_, true) => self.given,
        };
        Progress { items_processed: self.given, items_total, unit: Some("batches".to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;
    use burn::tensor::Int;

    fn numbers(batch: std::result::Result<burn::tensor::Tensor<1, Int>, DatasetError>) -> Vec<i64> {
        batch.unwrap().into_data().convert::<i64>().try_to_vec().unwrap()
    }

    fn loader(ds: &Dataset) -> Loader<burn::tensor::Tensor<1, Int>> {
        Loader::new(ds.clone(), &Device::default(), |batch, device| tensor(&batch[0], device))
    }

    #[test]
    fn passes_and_progress() {
        let ds = Dataset::range(10).unwrap().shuffle(None, Some(1), true).unwrap().batch(4, false).unwrap();
        let loader = loader(&ds);
        let mut first = loader.iter();
        assert_eq!(first.progress().items_total, 3);
        let mut seen: Vec<Vec<i64>> = vec![numbers(first.next().unwrap())];
        assert_eq!((first.progress().items_processed, first.progress().is_completed()), (1, false));
        seen.extend(first.by_ref().map(numbers));
        assert!(first.progress().is_completed());
        let mut all = seen.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<i64>>());
        let second: Vec<Vec<i64>> = loader.iter().map(numbers).collect();
        assert_ne!(seen, second, "every pass has its order");
    }

    #[test]
    fn parts_share_out_every_pass() {
        let in_order = loader(&Dataset::range(10).unwrap().batch(4, false).unwrap());
        let part: Vec<Vec<i64>> = in_order.slice(1, 3).iter().map(numbers).collect();
        assert_eq!(part, [vec![4, 5, 6, 7], vec![8, 9]]);
        assert_eq!(in_order.slice(1, 3).to_device(&Device::default()).num_items(), 2);
        let shuffled = Dataset::range(10).unwrap().shuffle(None, Some(1), true).unwrap().batch(2, false).unwrap();
        let loader = loader(&shuffled);
        let parts = [loader.slice(0, 2), loader.slice(2, 5)];
        for epoch in 0..2 {
            let mut all = parts.iter().flat_map(|part| part.iter().flat_map(numbers)).collect::<Vec<i64>>();
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<i64>>(), "epoch {epoch}");
        }
    }

    #[test]
    fn a_pass_goes_on_where_another_was() {
        let ds = || Dataset::range(50).unwrap().shuffle(Some(20), Some(1), true).unwrap().batch(4, false).unwrap();
        let first = loader(&ds());
        let mut pass = first.pass().unwrap();
        pass.by_ref().take(5).for_each(|batch| drop(numbers(batch)));
        let state = pass.state().unwrap().to_json().unwrap();
        let rest: Vec<Vec<i64>> = pass.map(numbers).collect();
        assert_eq!(rest.len(), 8);
        let again = loader(&ds());
        let resumed = again.pass_from(&State::from_json(&state).unwrap()).unwrap();
        assert_eq!((resumed.progress().items_processed, resumed.progress().items_total), (5, 13));
        assert_eq!(resumed.map(numbers).collect::<Vec<_>>(), rest);
        let next = |loader: &Loader<_>| loader.iter().map(numbers).collect::<Vec<_>>();
        assert_eq!(next(&again), next(&first), "the next epoch is the same, too");
    }

    #[test]
    fn an_unknown_length_is_found_at_the_end() {
        let even = Dataset::range(9).unwrap().filter_fn(|e| Ok(e[0].tensor().item::<i64>() % 2 == 0)).unwrap();
        let loader = Loader::new(even, &Device::default(), |e, _| Ok(e[0].tensor().item::<i64>()));
        assert_eq!(loader.num_items(), 0);
        let mut pass = loader.pass().unwrap();
        for _ in 0..5 {
            assert!(!pass.progress().is_completed());
            pass.next().unwrap().unwrap();
        }
        assert!(pass.next().is_none());
        assert_eq!((pass.progress().items_total, pass.progress().is_completed()), (5, true));
    }

    #[test]
    fn a_pass_that_cannot_begin_says_why_once() {
        let ds = Dataset::tf_record(&["/no/such/file"], "").unwrap();
        let loader = Loader::new(ds, &Device::default(), |_, _| Ok(()));
        let told: Vec<String> = loader.iter().map(|item| item.unwrap_err().to_string()).collect();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("/no/such/file"), "{told:?}");
    }

    #[test]
    fn an_error_stands_in_the_place_of_its_batch() {
        let bad = |e: Element| match e[0].tensor().item::<i64>() {
            2 => Err(Error::data("two")),
            _ => Ok(e),
        };
        let ds = Dataset::range(4).unwrap();
        let ds = ds.map_fn(ds.spec().clone(), bad).unwrap();
        let loader = Loader::new(ds, &Device::default(), |e, _| Ok(e[0].tensor().item::<i64>()));
        let told: Vec<String> =
            loader.iter().map(|item| item.map_or_else(|e| e.to_string(), |n| n.to_string())).collect();
        assert_eq!(told.len(), 4);
        assert!(told[2].contains("two"), "{told:?}");
        assert_eq!([&told[0], &told[1], &told[3]], ["0", "1", "3"]);
    }
}
