//! Pipelines for trial, made of one that is there: what would be if something were different, measured rather than
//! computed.

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::plan::Plan;
use std::collections::HashMap;

/// In how many steps an element is multiplied.
const STEPS: usize = 2;

impl Dataset {
    /// The pipeline as it runs, with the first element of operator number `id`, as meters and reports number them, in place
    /// of all that it gives: what follows it, as if all before it were free. It is held `times` times `times` over, so
    /// that many may travel together. `ends`: there are as many as there were, where these are few, instead of no end of
    /// them: a `repeat` behind it begins anew as often.
    pub fn replayed(&self, id: u64, times: i64, ends: bool) -> Result<Dataset> {
        self.with_other(id, |plan| {
            let mut held = Dataset::from_plan(plan.clone()).take(1)?.cache()?;
            // By and by: to begin a pass over few elements costs more than these.
            for _ in 0..STEPS {
                held = held.repeat(Some(times.max(1)))?.cache()?;
            }
            let held = held.repeat(None)?;
            let few = plan.card.known().and_then(|n| i64::try_from(n).ok()).filter(|n| ends && *n <= times * times);
            Ok(few.map_or(Ok(held.clone()), |all| held.take(all)?.cache())?.plan().clone())
        })
    }
    /// The pipeline as it runs, without operator number `id`: what goes in comes out of its place as it is.
    pub fn without(&self, id: u64) -> Result<Dataset> {
        self.with_other(id, |plan| match plan.inputs.as_slice() {
            [input] if input.spec == plan.spec => Ok(input.clone()),
            _ => Err(Error::usage(format!("{} makes other elements: nothing can stand in its place", plan.name()))),
        })
    }
    fn with_other(&self, id: u64, make: impl Fn(&Plan) -> Result<Plan>) -> Result<Dataset> {
        let runs = self.plan().runs()?;
        let other = replaced(&runs, id, &make, &mut HashMap::new())?;
        if other.same(&runs) {
            return Err(Error::usage(format!(
                "there is no operator {id} in the pipeline itself; what runs inside of functions cannot be tried"
            )));
        }
        Ok(Dataset::from_plan(other))
    }
}

/// A plan that is used twice is replaced once.
fn replaced(
    plan: &Plan,
    id: u64,
    make: &impl Fn(&Plan) -> Result<Plan>,
    known: &mut HashMap<u64, Plan>,
) -> Result<Plan> {
    if let Some(plan) = known.get(&plan.id) {
        return Ok(plan.clone());
    }
    let made = if plan.id == id {
        make(plan)?
    } else {
        let inputs = plan.inputs.iter().map(|input| replaced(input, id, make, known)).collect::<Result<Vec<_>>>()?;
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
        assert_eq!(events(&ds.replayed(id, 3, false)?), "2 2 2 2");
        let twice = from_two.batch(2, false)?.repeat(Some(2))?.unbatch()?;
        assert_eq!(events(&twice.replayed(id, 2, true)?), "2 2 2 2 2 2");
        // A plan that is used twice stays one.
        let pair =
            Tree::tuple(vec![Tree::Leaf(from_two.clone()), Tree::Leaf(from_two.shuffle(Some(3), Some(1), true)?)]);
        let twice = Dataset::zip(&pair)?.take(7)?.replayed(id, 1, false)?;
        assert_eq!(twice.iter()?.filter(|e| e.as_ref().is_ok_and(|e| e.len() == 2)).count(), 7);
        Ok(())
    }

    #[test]
    fn one_operator_is_left_out() -> Result<()> {
        let skips = Dataset::range(5)?.skip(2)?;
        let ds = skips.batch(2, false)?.unbatch()?;
        assert_eq!(events(&ds.without(skips.plan().id)?), "0 1 2 3 4");
        let batch = &ds.plan().inputs[0];
        assert!(ds.without(batch.id).unwrap_err().to_string().contains("makes other elements"));
        Ok(())
    }

    #[test]
    fn operators_of_others_are_refused() -> Result<()> {
        let other = Dataset::range(5)?;
        let refused = Dataset::range(5)?.batch(2, false)?.replayed(other.plan().id, 1, true);
        assert!(refused.unwrap_err().to_string().contains("no operator"));
        Ok(())
    }
}
