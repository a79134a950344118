//! Errors that say who can act (`Kind`) and where it happened (`At`): operator, file, byte, record, element.

use std::fmt;
use std::sync::Arc;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who can act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The call is wrong: a parameter, a dtype, a structure. Refused when the pipeline is built where possible.
    Usage,
    /// One element or record is wrong.
    Data,
    /// Data would be lost, or has been: too long for its place, cut off, of a wrong checksum.
    Loss,
    /// A file or a store is missing, unreadable, or failed.
    Io,
    /// The user's own function failed.
    Func,
    /// Something cannot fit into the memory that was allowed.
    Budget,
    /// The position or the number asked for is beyond the end of the data.
    Range,
    /// What the user said of the data is not so.
    Precondition,
    /// The pipeline was stopped.
    Cancelled,
    /// The pipeline was given up: what it needs (a process) is gone, and nothing comes after this.
    Aborted,
    /// Our fault.
    Internal,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Usage => "usage",
            Kind::Data => "data",
            Kind::Loss => "loss",
            Kind::Io => "io",
            Kind::Func => "function",
            Kind::Budget => "budget",
            Kind::Range => "range",
            Kind::Precondition => "precondition",
            Kind::Cancelled => "cancelled",
            Kind::Aborted => "aborted",
            Kind::Internal => "internal",
        }
    }
}

/// Where an error happened. Whatever is known is filled in on the way out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct At {
    /// The operator, as the user wrote it (`map`, `batch`).
    pub op: Option<Arc<str>>,
    /// The number of that operator in its process: known once somebody has decided what becomes of the error.
    pub node: Option<u64>,
    pub file: Option<Arc<str>>,
    pub byte: Option<u64>,
    /// The number of the record in its file.
    pub record: Option<u64>,
    /// Position of the element in the stream that the operator read.
    pub element: Option<u64>,
}

/// What went wrong, where, and the error below it. Cheap to clone: it travels in the place of an element.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    at: At,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    row: Option<Arc<dyn std::any::Any + Send + Sync>>,
    /// Nothing comes after it.
    ends: bool,
}

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            at: At::default(),
            source: None,
            row: None,
            ends: false,
        }))
    }
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(Kind::Usage, message)
    }
    pub fn data(message: impl Into<String>) -> Error {
        Error::new(Kind::Data, message)
    }
    pub fn func(message: impl Into<String>) -> Error {
        Error::new(Kind::Func, message)
    }
    pub fn range(message: impl Into<String>) -> Error {
        Error::new(Kind::Range, message)
    }
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(Kind::Internal, message)
    }
    /// A system call that failed, in words.
    pub fn io(error: &std::io::Error) -> Error {
        Error::new(Kind::Io, error.to_string())
    }
    pub fn loss(message: impl Into<String>) -> Error {
        Error::new(Kind::Loss, message)
    }
    pub fn cancelled() -> Error {
        Error::new(Kind::Cancelled, "the iterator was closed")
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }
    pub fn message(&self) -> &str {
        &self.0.message
    }
    pub fn at(&self) -> &At {
        &self.0.at
    }
    /// The error that caused this one, such as the user's own exception.
    pub fn cause(&self) -> Option<&Arc<dyn std::error::Error + Send + Sync>> {
        self.0.source.as_ref()
    }

    fn edit(mut self, f: impl FnOnce(&mut Inner)) -> Error {
        f(Arc::make_mut(&mut self.0));
        self
    }
    pub fn with_source(self, source: Arc<dyn std::error::Error + Send + Sync>) -> Error {
        self.edit(|e| e.source = Some(source))
    }
    /// Names the operator unless a more inner one has been named already.
    pub fn in_op(self, op: &str) -> Error {
        if self.0.at.op.is_some() {
            return self;
        }
        self.edit(|e| e.at.op = Some(op.into()))
    }
    pub fn at_element(self, element: u64) -> Error {
        if self.0.at.element.is_some() {
            return self;
        }
        self.edit(|e| e.at.element = Some(element))
    }
    /// Says which operator of a plan failed: from here on it is settled whose error it is.
    pub fn in_node(self, op: &str, node: u64) -> Error {
        if self.0.at.node.is_some() {
            return self;
        }
        self.in_op(op).edit(|e| e.at.node = Some(node))
    }
    /// The number of the record in its file.
    pub fn at_record(self, record: u64) -> Error {
        self.edit(|e| e.at.record = Some(record))
    }
    /// Brings along what could not be treated, in whatever form the caller has it.
    pub fn with_row(self, row: Arc<dyn std::any::Any + Send + Sync>) -> Error {
        if self.0.row.is_some() {
            return self;
        }
        self.edit(|e| e.row = Some(row))
    }
    pub fn row(&self) -> Option<&Arc<dyn std::any::Any + Send + Sync>> {
        self.0.row.as_ref()
    }
    /// Whoever fails with it gives nothing any more: it does not stand for one element, which may be left out.
    pub fn that_ends(self) -> Error {
        self.edit(|e| e.ends = true)
    }
    pub fn ends(&self) -> bool {
        self.0.ends || self.0.kind == Kind::Aborted
    }
    /// The place in the file, where the file itself is named later.
    pub fn at_byte(self, byte: u64) -> Error {
        self.edit(|e| e.at.byte = Some(byte))
    }
    /// The same where no place is known that is nearer.
    pub fn near_byte(self, byte: u64) -> Error {
        if self.0.at.byte.is_some() { self } else { self.at_byte(byte) }
    }
    /// The same error in other words: where it happened, and what caused it, stays.
    pub fn reworded(self, words: impl FnOnce(&str) -> String) -> Error {
        self.edit(|e| e.message = words(&e.message))
    }
    pub fn in_file(self, file: &str, byte: Option<u64>) -> Error {
        if self.0.at.file.is_some() {
            return self;
        }
        self.edit(|e| {
            e.at.file = Some(file.into());
            e.at.byte = byte.or(e.at.byte);
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { message, at, .. } = &*self.0;
        if let Some(op) = &at.op {
            write!(f, "{op}: ")?;
        }
        f.write_str(message)?;
        let mut places = Vec::new();
        match (&at.file, at.byte) {
            (Some(file), Some(byte)) => places.push(format!("{file} at byte {byte}")),
            (Some(file), None) => places.push(file.to_string()),
            (None, Some(byte)) => places.push(format!("byte {byte}")),
            (None, None) => {}
        }
        if let Some(record) = at.record {
            places.push(format!("record {record}"));
        }
        if let Some(element) = at.element {
            places.push(format!("element {element}"));
        }
        if !places.is_empty() {
            write!(f, " ({})", places.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.kind.name())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

impl From<serde_json::Error> for Error {
    fn from(e: serde_json::Error) -> Error {
        Error::usage(e.to_string())
    }
}

/// `bail!(Usage, "…{x}")`: return an error of that kind.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($fmt:tt)*) => {
        return Err($crate::Error::new($crate::Kind::$kind, format!($($fmt)*)).into())
    };
}
