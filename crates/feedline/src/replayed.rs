//! A pipeline in which one element is given again and again from some operator on: what all that follows can do if all
//! before it were free, measured rather than computed.

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::plan::Plan;
use std::collections::HashMap;

impl Dataset {
    /// The pipeline as it runs, with the first element of operator number `id`, as meters and reports number them, in place
    /// of all that it gives.
    pub fn replayed(&self, id: u64) -> Result<Dataset> {
        let runs = self.plan().runs()?;
        let mut known = HashMap::new();
        let replayed = replaced(&runs, id, &mut known)?;
        if replayed.same(&runs) {
            return Err(Error::usage(format!(
                "there is no operator {id} in the pipeline itself; inside of functions nothing is replayed"
            )));
        }
        Ok(Dataset::from_plan(replayed))
    }
}

/// A plan that is used twice is replaced once.
fn replaced(plan: &Plan, id: u64, known: &mut HashMap<u64, Plan>) -> Result<Plan> {
    if let Some(plan) = known.get(&plan.id) {
        return Ok(plan.clone());
    }
    let made = if plan.id == id {
        Dataset::from_plan(plan.clone()).take(1)?.cache()?.repeat(None)?.plan().clone()
    } else {
        let inputs = plan.inputs.iter().map(|input| replaced(input, id, known)).collect::<Result<Vec<_>>>()?;
        match inputs.iter().zip(&plan.inputs).all(|(new, old)| new.same(old)) {
            true => plan.clone(),
            false => plan.with_inputs(inputs)?,
        }
    };
    known.insert(plan.id, made.clone());
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Tree;
    use crate::ops::testing::events;

    #[test]
    fn one_element_stands_for_all() -> Result<()> {
        let from_two = Dataset::range(5)?.skip(2)?;
        let id = from_two.plan().id;
        let ds = from_two.batch(3, false)?.unbatch()?.take(4)?;
        assert_eq!(events(&ds.replayed(id)?), "2 2 2 2");
        // A plan that is used twice stays one.
        let pair =
            Tree::tuple(vec![Tree::Leaf(from_two.clone()), Tree::Leaf(from_two.shuffle(Some(3), Some(1), true)?)]);
        let twice = Dataset::zip(&pair)?.take(7)?.replayed(id)?;
        assert_eq!(twice.iter()?.filter(|e| e.as_ref().is_ok_and(|e| e.len() == 2)).count(), 7);
        Ok(())
    }

    #[test]
    fn operators_of_others_are_refused() -> Result<()> {
        let other = Dataset::range(5)?;
        let refused = Dataset::range(5)?.batch(2, false)?.replayed(other.plan().id);
        assert!(refused.unwrap_err().to_string().contains("no operator"));
        Ok(())
    }
}
