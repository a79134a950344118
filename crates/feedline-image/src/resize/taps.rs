//! Which items of an axis each item of the resized axis is made of.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Bilinear,
    Nearest,
    Bicubic,
    Area,
    Lanczos3,
    Lanczos5,
    Gaussian,
    MitchellCubic,
}

impl Method {
    /// By TensorFlow's name.
    pub fn parse(name: &str) -> Option<Method> {
        Some(match name {
            "bilinear" => Method::Bilinear,
            "nearest" => Method::Nearest,
            "bicubic" => Method::Bicubic,
            "area" => Method::Area,
            "lanczos3" => Method::Lanczos3,
            "lanczos5" => Method::Lanczos5,
            "gaussian" => Method::Gaussian,
            "mitchellcubic" => Method::MitchellCubic,
            _ => return None,
        })
    }
    /// How far its kernel reaches.
    fn radius(self) -> f32 {
        match self {
            Method::Bilinear | Method::Nearest | Method::Area => 1.0,
            Method::Bicubic | Method::MitchellCubic => 2.0,
            Method::Lanczos3 => 3.0,
            Method::Lanczos5 => 5.0,
            Method::Gaussian => 1.5,
        }
    }
    fn kernel(self, x: f32) -> f32 {
        let x = x.abs();
        if x >= self.radius() {
            return 0.0;
        }
        let lanczos = |r: f32| {
            // Near zero the quotient is all rounding.
            if x <= 1e-3 {
                return 1.0;
            }
            let turn = std::f32::consts::PI * x;
            r * turn.sin() * (turn / r).sin() / (turn * turn)
        };
        match self {
            Method::Bilinear | Method::Nearest | Method::Area => 1.0 - x,
            Method::Bicubic if x >= 1.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Method::Bicubic => ((1.5 * x - 2.5) * x) * x + 1.0,
            Method::MitchellCubic if x >= 1.0 => (((-7.0 / 18.0) * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0,
            Method::MitchellCubic => (((7.0 / 6.0) * x - 2.0) * x) * x + 8.0 / 9.0,
            Method::Lanczos3 => lanczos(3.0),
            Method::Lanczos5 => lanczos(5.0),
            // Sigma is 0.5.
            Method::Gaussian => (-2.0 * x * x).exp(),
        }
    }
}

/// For each item of the result, the first item of the source that it is made of, and the weights of that and the following.
#[derive(Clone, Debug, Default)]
pub struct Taps {
    first: Vec<u32>,
    weights: Vec<f32>,
    /// Weights of an item; the same number for all.
    per: usize,
    /// The items of the source that are needed.
    source: Range<usize>,
}

impl Taps {
    /// For an axis of `input` items that becomes one of `output`; neither is 0.
    pub fn new(method: Method, antialias: bool, input: usize, output: usize) -> Taps {
        Taps::part(method, antialias, input, output, 0..output)
    }
    /// The same for some of the items of the result.
    pub fn part(method: Method, antialias: bool, input: usize, output: usize, part: Range<usize>) -> Taps {
        let mut taps = Taps::default();
        taps.set(method, antialias, input, output, part);
        taps
    }
    /// The same in the memory of other taps.
    pub fn set(&mut self, method: Method, antialias: bool, input: usize, output: usize, part: Range<usize>) {
        let scale = input as f32 / output as f32;
        self.first.clear();
        self.weights.clear();
        match (method, antialias) {
            (Method::Bilinear, false) => self.lerp(input, scale, part),
            (Method::Bicubic, false) => self.cubic(input, scale, part),
            (Method::Area, _) => self.mean(input, scale, part),
            _ => self.spread(method, antialias, input, scale, part),
        }
        let (low, high) = (self.first.iter().min(), self.first.iter().max());
        self.source = low.map_or(0, |n| *n as usize)..high.map_or(0, |n| *n as usize + self.per);
    }
    pub fn len(&self) -> usize {
        self.first.len()
    }
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
    /// The items of the source that are needed.
    pub fn source(&self) -> Range<usize> {
        self.source.clone()
    }
    /// For a source that lacks its first items.
    pub fn rebase(&mut self, lacks: usize) {
        self.first.iter_mut().for_each(|n| *n -= lacks as u32);
        self.source = self.source.start - lacks..self.source.end - lacks;
    }
    /// The result in reverse order.
    pub fn mirror(&mut self) {
        let (n, per) = (self.first.len(), self.per);
        self.first.reverse();
        for i in 0..n / 2 {
            let (front, back) = self.weights.split_at_mut((n - 1 - i) * per);
            front[i * per..][..per].swap_with_slice(&mut back[..per]);
        }
    }
    /// The first item of the source, and the weights.
    #[inline]
    pub fn at(&self, i: usize) -> (usize, &[f32]) {
        (self.first[i] as usize, &self.weights[i * self.per..][..self.per])
    }
    #[inline]
    pub fn per(&self) -> usize {
        self.per
    }
    #[inline]
    pub(super) fn all(&self) -> (&[u32], &[f32]) {
        (&self.first, &self.weights)
    }
    /// Begins a list with so many weights an item.
    fn begin(&mut self, per: usize, input: usize, part: &Range<usize>) {
        self.per = per.min(input);
        self.first.reserve(part.len());
        self.weights.reserve(part.len() * self.per);
    }
    /// Weights from item `first` on; at most `per`, all inside the source.
    fn push(&mut self, first: usize, input: usize, weights: &[f32]) {
        // The last items are read with zeros in front, so that all are made of equally many.
        let start = first.min(input - self.per);
        self.first.push(start as u32);
        let at = self.weights.len();
        self.weights.resize(at + self.per, 0.0);
        self.weights[at + first - start..][..weights.len()].copy_from_slice(weights);
    }

    fn lerp(&mut self, input: usize, scale: f32, part: Range<usize>) {
        self.begin(2, input, &part);
        for o in part {
            let x = (o as f32 + 0.5) * scale - 0.5;
            let share = x - x.floor();
            let (low, high) = (x.floor().max(0.0) as usize, (x.ceil().max(0.0) as usize).min(input - 1));
            match low.min(input - 1) {
                low if low == high => self.push(low, input, &[1.0]),
                low => self.push(low, input, &[1.0 - share, share]),
            }
        }
    }
    /// Keys' kernel, with weights from a table of 1024 steps.
    fn cubic(&mut self, input: usize, scale: f32, part: Range<usize>) {
        const STEPS: f32 = 1024.0;
        self.begin(4, input, &part);
        for o in part {
            let x = (o as f32 + 0.5) * scale - 0.5;
            let step = ((x - x.floor()) * STEPS).round_ties_even() / STEPS;
            let weights = [1.0 + step, step, 1.0 - step, 2.0 - step].map(|x| Method::Bicubic.kernel(x));
            let from = x.floor() as i64 - 1;
            let low = from.clamp(0, input as i64);
            let high = (from + 4).clamp(0, input as i64);
            let mut inside = [0.0; 4];
            let inside = &mut inside[..(high - low) as usize];
            inside.copy_from_slice(&weights[(low - from) as usize..(high - from) as usize]);
            let sum: f32 = inside.iter().sum();
            inside.iter_mut().for_each(|w| *w /= sum);
            self.push(low as usize, input, inside);
        }
    }
    fn mean(&mut self, input: usize, scale: f32, part: Range<usize>) {
        self.begin(scale.ceil() as usize + 1, input, &part);
        let mut weights = Vec::new();
        for o in part {
            let (low, high) = (o as f32 * scale, ((o + 1) as f32 * scale).min(input as f32));
            let (first, end) = (low.floor() as usize, (high.ceil() as usize).min(input));
            weights.clear();
            weights.extend((first..end).map(|i| (high.min((i + 1) as f32) - low.max(i as f32)) / scale));
            // Rounding can leave a sliver too many at the end.
            weights.truncate(self.per);
            self.push(first, input, &weights);
        }
    }
    fn spread(&mut self, method: Method, antialias: bool, input: usize, scale: f32, part: Range<usize>) {
        let wide = if antialias { scale.max(1.0) } else { 1.0 };
        let reach = method.radius() * wide;
        let center = |o: usize| (o as f32 + 0.5) * scale;
        let span = |o: usize| {
            let low = (center(o) - reach - 0.5).ceil().max(0.0) as usize;
            (low, ((center(o) + reach - 0.5).floor() as usize).min(input - 1))
        };
        let most = part.clone().map(span).map(|(low, high)| high + 1 - low).max();
        self.begin(most.unwrap_or(1), input, &part);
        let mut weights = Vec::new();
        for o in part {
            let ((low, high), center) = (span(o), center(o));
            weights.clear();
            weights.extend((low..=high).map(|i| method.kernel((i as f32 + 0.5 - center) / wide)));
            let sum: f32 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= sum);
            self.push(low, input, &weights);
        }
    }
}
