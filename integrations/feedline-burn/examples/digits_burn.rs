//! Learns small pictures of digits with burn on the CPU, fed by a pipeline of feedline; then once more, interrupted in the
//! middle of an epoch, and gets the same weights.
//!
//! `cargo run --example digits_burn`

#[path = "../../digits.rs"]
mod digits;

use burn::data::dataloader::DataLoader;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device, Int, Tensor};
use feedline::runtime::State;
use feedline_burn::{Loader, Pass, tensor};

type Failure = Box<dyn std::error::Error>;
type Batch = (Tensor<2>, Tensor<1, Int>);

const EPOCHS: u64 = 8;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    fn new(device: &Device) -> Net {
        Net { first: LinearConfig::new(64, 64).init(device), last: LinearConfig::new(64, 10).init(device) }
    }
    fn forward(&self, pictures: Tensor<2>) -> Tensor<2> {
        self.last.forward(Relu::new().forward(self.first.forward(pictures)))
    }
}

/// What changes while a model is trained.
struct Training {
    net: Net,
    optimiser: ModuleOptimizer,
}

impl Training {
    fn step(self, (pictures, labels): Batch) -> Training {
        let Training { net, mut optimiser } = self;
        let loss = CrossEntropyLossConfig::new().init(&pictures.device());
        let error = loss.forward(net.forward(pictures), labels);
        let slopes = GradientsParams::from_grads(error.backward(), &net);
        Training { net: optimiser.step(5e-3, net, slopes), optimiser }
    }
    fn pass(mut self, pass: Pass<Batch>) -> Result<Training, Failure> {
        for batch in pass {
            self = self.step(batch?);
        }
        Ok(self)
    }
    /// Whole epochs up to the last.
    fn finish(mut self, train: &Loader<Batch>, from: u64) -> Result<Net, Failure> {
        for _ in from..EPOCHS {
            self = self.pass(train.pass()?)?;
        }
        Ok(self.net)
    }
}

/// All that a program needs to go on: what was learned, and where the data was.
struct Checkpoint {
    net: Bytes,
    optimiser: Bytes,
    data: String,
}

fn loader(count: usize, seed: u64, device: &Device) -> feedline::Result<Loader<Batch>> {
    // Another order in each pass.
    let ds = digits::digits(count, seed)?.shuffle(None, Some(1), true)?.batch(50, false)?;
    Ok(Loader::new(ds, device, |batch, device| Ok((tensor(&batch[0], device)?, tensor(&batch[1], device)?))))
}

/// Two epochs and seven batches of the third.
fn interrupted(start: Net, device: &Device) -> Result<Checkpoint, Failure> {
    let train = loader(1000, 1, device)?;
    let mut training = Training { net: start, optimiser: AdamConfig::new().init() };
    for _ in 0..2 {
        training = training.pass(train.pass()?)?;
    }
    let mut pass = train.pass()?;
    for batch in pass.by_ref().take(7) {
        training = training.step(batch?);
    }
    let data = pass.state()?.to_json()?.to_string();
    Ok(Checkpoint { net: training.net.into_record().into_bytes()?, optimiser: training.optimiser.into_bytes()?, data })
}

/// The rest, with a loader and a net made anew, as another process would have them.
fn resumed(checkpoint: Checkpoint, device: &Device) -> Result<Net, Failure> {
    let train = loader(1000, 1, device)?;
    let state = State::from_json(&checkpoint.data.parse()?)?;
    let training = Training {
        net: Net::new(device).try_load_record(ModuleRecord::from_bytes(checkpoint.net)?)?,
        optimiser: AdamConfig::new().init().from_bytes(checkpoint.optimiser)?,
    };
    training.pass(train.pass_from(&state)?)?.finish(&train, 3)
}

fn accuracy(net: &Net, test: &Loader<Batch>) -> Result<f64, Failure> {
    let (mut right, mut all) = (0, 0);
    for batch in test.iter() {
        let (pictures, labels) = batch?;
        all += labels.dims()[0];
        let found = net.forward(pictures).argmax(1).reshape([-1]);
        right += found.equal(labels).int().sum().into_scalar::<i64>();
    }
    Ok(right as f64 / all as f64)
}

fn main() -> Result<(), Failure> {
    let device = Device::default().autodiff();
    device.seed(1);
    let start = Net::new(&device);

    let straight = Training { net: start.clone(), optimiser: AdamConfig::new().init() };
    let straight = straight.finish(&loader(1000, 1, &device)?, 0)?;
    let right = accuracy(&straight, &loader(300, 2, &device)?)?;
    println!("{:.1} % of new digits are right", 100.0 * right);
    assert!(right > 0.95);

    let resumed = resumed(interrupted(start, &device)?, &device)?;
    for (a, b) in [(straight.first, resumed.first), (straight.last, resumed.last)] {
        assert_eq!(a.weight.val().into_data(), b.weight.val().into_data(), "the same weights to the last bit");
    }
    println!("a run that was interrupted in the middle of an epoch ends with the same weights");
    Ok(())
}
