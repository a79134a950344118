//! What a user can ask of a whole pipeline. `None` everywhere means: the system decides.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// False lets operators deliver in any order unless they were told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// At most this many workers on this pipeline at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_budget: Option<usize>,
    /// Cores that this pipeline leaves to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leave_cores: Option<usize>,
    /// Bytes that this pipeline may hold, in buffers and on their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<usize>,
    /// Work ahead of the consumer: on unless said otherwise, here or by a last `prefetch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<bool>,
    /// Improve the plan before running it (on unless said otherwise).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<bool>,
    /// A fixed number of rows a chunk, for tests: results must not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_rows: Option<usize>,
    /// What becomes of elements that fail, wherever an operator does not say otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// More elements that one operator leaves out than this are an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_errors: Option<MaxErrors>,
    /// The folder that `OnError::Quarantine` writes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// How long a consumer waits before it says so in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_seconds: Option<f64>,
    /// tf.data's other options: kept so that they can be read back; they have nothing to decide here.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub other: serde_json::Map<String, serde_json::Value>,
}

impl Options {
    /// Takes over every field that the later options set.
    pub fn merge(&mut self, later: &Options) {
        let Options {
            deterministic,
            cpu_budget,
            leave_cores,
            memory_limit,
            prefetch,
            rewrite,
            chunk_rows,
            on_error,
            max_errors,
            quarantine,
            stall_seconds,
            other,
        } = later;
        fn set<T: Clone>(own: &mut Option<T>, new: &Option<T>) {
            if new.is_some() {
                own.clone_from(new);
            }
        }
        set(&mut self.deterministic, deterministic);
        set(&mut self.cpu_budget, cpu_budget);
        set(&mut self.leave_cores, leave_cores);
        set(&mut self.memory_limit, memory_limit);
        set(&mut self.prefetch, prefetch);
        set(&mut self.rewrite, rewrite);
        set(&mut self.chunk_rows, chunk_rows);
        set(&mut self.on_error, on_error);
        set(&mut self.max_errors, max_errors);
        set(&mut self.quarantine, quarantine);
        set(&mut self.stall_seconds, stall_seconds);
        other.iter().for_each(|(k, v)| drop(self.other.insert(k.clone(), v.clone())));
    }
}

/// What becomes of an element that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The consumer gets the error in the place of the element.
    #[default]
    Raise,
    /// It is left out, and counted.
    Skip,
    /// It is left out, counted, and written to the folder of `Options::quarantine` with its origin and the reason.
    Quarantine,
}

/// How many elements an operator may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxErrors {
    Count(u64),
    /// Of all that came to it, from 0 to 1; looked at once there were `MaxErrors::SEEN`.
    Share(f64),
}

impl MaxErrors {
    /// A share says little of fewer elements than this.
    pub const SEEN: u64 = 100;
    /// Whether so many of so many are too many.
    pub fn exceeded(self, failed: u64, seen: u64) -> bool {
        match self {
            MaxErrors::Count(most) => failed > most,
            MaxErrors::Share(most) => seen >= MaxErrors::SEEN && failed as f64 > most * seen as f64,
        }
    }
}

/// `"256MB"`, `"1.5 GiB"` or a plain number.
pub fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..split].trim().parse().ok()?;
    let unit = match text[split..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1048576.0,
        "gib" => 1073741824.0,
        _ => return None,
    };
    (number >= 0.0 && number.is_finite()).then_some((number * unit) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_units() {
        assert_eq!(parse_bytes("256MB"), Some(256_000_000));
        assert_eq!(parse_bytes(" 1.5 GiB"), Some(1_610_612_736));
        assert_eq!(parse_bytes("12"), Some(12));
        assert_eq!(parse_bytes("many"), None);
    }

    #[test]
    fn bounds_are_counts_or_shares() {
        let read = |json: &str| serde_json::from_str::<MaxErrors>(json).unwrap();
        assert_eq!((read("3"), read("0.5")), (MaxErrors::Count(3), MaxErrors::Share(0.5)));
        assert!(!read("3").exceeded(3, 3) && read("3").exceeded(4, 1000));
        assert!(!read("0.5").exceeded(40, 60), "too few to tell");
        assert!(!read("0.5").exceeded(50, 100) && read("0.5").exceeded(51, 100));
    }

    #[test]
    fn later_options_win_field_by_field() {
        let mut a = Options { deterministic: Some(true), chunk_rows: Some(1), ..Default::default() };
        a.merge(&Options { deterministic: Some(false), ..Default::default() });
        assert_eq!((a.deterministic, a.chunk_rows), (Some(false), Some(1)));
    }
}
