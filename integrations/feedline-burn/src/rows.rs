//! Elements by number: a `burn` dataset of a pipeline whose operators all allow that.

use burn::data::dataset::{Dataset as BurnDataset, DatasetError};
use feedline::element::Element;
use feedline::runtime::Index;
use feedline::{Dataset, Result};
use std::sync::Arc;

/// A dataset of burn, for its own loaders, samplers and transforms.
///
/// ```
/// use burn::data::dataset::Dataset as _;
/// use feedline::Dataset;
/// use feedline_burn::Rows;
///
/// let ds = Dataset::range(10)?.shuffle(None, Some(1), true)?;
/// let rows = Rows::new(&ds, |element| Ok(element[0].tensor().item::<i64>()))?;
/// assert_eq!(rows.iter().map(|row| row.unwrap()).sum::<i64>(), 45);
/// # Ok::<(), feedline::Error>(())
/// ```
pub struct Rows<F> {
    index: Arc<dyn Index>,
    item: F,
}

impl<I, F: Fn(Element) -> Result<I> + Send + Sync> Rows<F> {
    /// `item` makes what burn's batchers take of an element: the components of its structure, in order.
    ///
    /// It is an error if an operator has to read in order (`filter`, a generator): use [`crate::Loader`] then.
    pub fn new(dataset: &Dataset, item: F) -> Result<Rows<F>> {
        Ok(Rows { index: dataset.index()?, item })
    }
}

impl<I, F: Fn(Element) -> Result<I> + Send + Sync> BurnDataset<I> for Rows<F> {
    fn get(&self, index: usize) -> std::result::Result<I, DatasetError> {
        Ok(self.get_many(vec![index])?.remove(0))
    }
    fn get_many(&self, indexes: Vec<usize>) -> std::result::Result<Vec<I>, DatasetError> {
        let len = self.len();
        if let Some(index) = indexes.iter().find(|i| **i >= len) {
            panic!("index {index} of a dataset of {len} elements");
        }
        let numbers: Vec<u64> = indexes.iter().map(|i| *i as u64).collect();
        // All at once: operators work on many elements at a time.
        let chunk = self.index.get(&numbers).map_err(DatasetError::new)?;
        (0..chunk.rows()).map(|row| (self.item)(chunk.element(row)).map_err(DatasetError::new)).collect()
    }
    fn len(&self) -> usize {
        self.index.len() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_elements_are_those_one_by_one() {
        let ds = Dataset::range(20).unwrap().shuffle(None, Some(3), true).unwrap();
        let rows = Rows::new(&ds, |e| Ok(e[0].tensor().item::<i64>())).unwrap();
        let one: Vec<i64> = [3, 0, 19].iter().map(|i| rows.get(*i).unwrap()).collect();
        assert_eq!(rows.get_many(vec![3, 0, 19]).unwrap(), one);
        assert_eq!(rows.len(), 20);
    }

    #[test]
    #[should_panic(expected = "index 20 of a dataset of 20")]
    fn beyond_the_end() {
        let rows = Rows::new(&Dataset::range(20).unwrap(), |e| Ok(e[0].tensor().item::<i64>())).unwrap();
        let _ = rows.get(20);
    }

    #[test]
    fn streams_are_refused() {
        let ds = Dataset::range(20).unwrap().filter_fn(|_| Ok(true)).unwrap();
        assert!(Rows::new(&ds, |_| Ok(())).err().unwrap().to_string().contains("filter"));
    }
}
