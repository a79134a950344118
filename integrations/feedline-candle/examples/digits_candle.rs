//! Learns small pictures of digits with candle on the CPU, fed by a pipeline of feedline; then once more, interrupted in the
//! middle of an epoch, and gets the same weights.
//!
//! `cargo run --example digits_candle`

#[path = "../../digits.rs"]
mod digits;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Linear, Module, Optimizer, SGD, VarBuilder, VarMap, linear, loss};
use feedline::Dataset;
use feedline::runtime::State;
use feedline_candle::{Batches, batches, batches_from};
use std::collections::HashMap;

type Failure = Box<dyn std::error::Error>;
type Weights = HashMap<String, Tensor>;

const EPOCHS: u64 = 12;

struct Training {
    vars: VarMap,
    first: Linear,
    last: Linear,
    optimiser: SGD,
}

impl Training {
    /// With new weights, or those of another run. Plain gradient descent remembers nothing else.
    fn new(weights: Option<&Weights>) -> Result<Training, Failure> {
        let mut vars = VarMap::new();
        let made = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
        let (first, last) = (linear(64, 64, made.pp("first"))?, linear(64, 10, made.pp("last"))?);
        if let Some(weights) = weights {
            vars.set(weights.iter())?;
        }
        let optimiser = SGD::new(vars.all_vars(), 0.2)?;
        Ok(Training { vars, first, last, optimiser })
    }
    fn forward(&self, pictures: &Tensor) -> candle_core::Result<Tensor> {
        self.last.forward(&self.first.forward(pictures)?.relu()?)
    }
    fn step(&mut self, batch: &[Tensor]) -> Result<(), Failure> {
        let error = loss::cross_entropy(&self.forward(&batch[0])?, &batch[1])?;
        Ok(self.optimiser.backward_step(&error)?)
    }
    fn pass(&mut self, pass: Batches) -> Result<(), Failure> {
        for batch in pass {
            self.step(&batch?)?;
        }
        Ok(())
    }
    fn weights(&self) -> Result<Weights, Failure> {
        let vars = self.vars.data().lock().expect("nobody failed while holding it");
        // Copies: training writes into the variables.
        vars.iter().map(|(name, var)| Ok((name.clone(), var.as_tensor().copy()?))).collect()
    }
    fn accuracy(&self, test: &Dataset) -> Result<f64, Failure> {
        let (mut right, mut all) = (0.0, 0);
        for batch in batches(test, &Device::Cpu)? {
            let batch = batch?;
            let found = self.forward(&batch[0])?.argmax(1)?.to_dtype(DType::I64)?;
            right += found.eq(&batch[1])?.to_dtype(DType::F64)?.sum_all()?.to_scalar::<f64>()?;
            all += batch[1].dims()[0];
        }
        Ok(right / all as f64)
    }
}

fn data(count: usize, seed: u64) -> feedline::Result<Dataset> {
    // Another order in each pass.
    digits::digits(count, seed)?.shuffle(None, Some(1), true)?.batch(50, false)
}

/// Two epochs and seven batches of the third: the weights, and where the data was.
fn interrupted(start: &Weights) -> Result<(Weights, String), Failure> {
    let train = data(1000, 1)?;
    let mut training = Training::new(Some(start))?;
    for _ in 0..2 {
        training.pass(batches(&train, &Device::Cpu)?)?;
    }
    let mut pass = batches(&train, &Device::Cpu)?;
    for batch in pass.by_ref().take(7) {
        training.step(&batch?)?;
    }
    Ok((training.weights()?, pass.state()?.to_json()?.to_string()))
}

/// The rest, with a dataset and variables made anew, as another process would have them.
fn resumed((weights, state): (Weights, String)) -> Result<Training, Failure> {
    let train = data(1000, 1)?;
    let mut training = Training::new(Some(&weights))?;
    training.pass(batches_from(&train, &Device::Cpu, &State::from_json(&state.parse()?)?)?)?;
    for _ in 3..EPOCHS {
        training.pass(batches(&train, &Device::Cpu)?)?;
    }
    Ok(training)
}

fn main() -> Result<(), Failure> {
    let train = data(1000, 1)?;
    let mut straight = Training::new(None)?;
    let start = straight.weights()?;
    for _ in 0..EPOCHS {
        straight.pass(batches(&train, &Device::Cpu)?)?;
    }
    let right = straight.accuracy(&data(300, 2)?)?;
    println!("{:.1} % of new digits are right", 100.0 * right);
    assert!(right > 0.95);

    let resumed = resumed(interrupted(&start)?)?.weights()?;
    for (name, weights) in straight.weights()? {
        let bits = |t: &Tensor| {
            Ok::<_, Failure>(t.flatten_all()?.to_vec1::<f32>()?.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        assert_eq!(bits(&weights)?, bits(&resumed[&name])?, "the same {name} to the last bit");
    }
    println!("a run that was interrupted in the middle of an epoch ends with the same weights");
    Ok(())
}
