//! NumPy's .npy: a short header in Python's own notation, then the items. The header is read by a parser of just that
//! notation; nothing is ever evaluated or unpickled.

use feedline_io::{Error, Result};

/// The first bytes of every file.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers are some hundred bytes; a structured dtype of a thousand fields fits in here.
pub const MAX_HEADER: usize = 1 << 20;
/// Nesting of structured dtypes.
const MAX_DEPTH: usize = 32;
const MAX_RANK: usize = 64;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    /// Dates and time spans: int64 in their unit.
    Time,
    /// Bytes, filled up with zeros.
    Bytes,
    /// UTF-32, filled up with zeros.
    Text,
}

/// One field of an item; an array without fields has one with an empty name.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name, after the names of the structures around it.
    pub path: Vec<String>,
    pub kind: Kind,
    /// Bytes of one value.
    pub size: usize,
    /// The bytes of a number stand in the other order than this machine's.
    pub swapped: bool,
    /// Where in the item it begins.
    pub offset: usize,
    /// Axes of the field itself.
    pub shape: Vec<usize>,
}

/// What the header says.
#[derive(Clone, Debug, PartialEq)]
pub struct Npy {
    pub fields: Vec<Field>,
    /// Bytes of one item, with all its fields and the gaps between them.
    pub item: usize,
    /// The first axis varies fastest.
    pub fortran: bool,
    pub shape: Vec<usize>,
    /// Where the items begin.
    pub start: usize,
}

impl Npy {
    /// Bytes of all items.
    pub fn bytes(&self) -> u64 {
        // Checked when the header was read.
        self.shape.iter().product::<usize>() as u64 * self.item as u64
    }
    /// Whether an item is one value, not a structure.
    pub fn is_plain(&self) -> bool {
        matches!(self.fields.as_slice(), [one] if one.path.is_empty())
    }
}

/// How many bytes from the beginning of a file are needed to read its header: more than `head` has, or no more.
pub fn header_len(head: &[u8]) -> Result<usize> {
    if head.len() < 8 || &head[..6] != MAGIC {
        return Err(Error::data(format!(
            "is not an .npy file: it begins with {:?}",
            String::from_utf8_lossy(&head[..head.len().min(6)])
        )));
    }
    let (len, at) = match head[6] {
        1 => (head.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))), 10),
        2 | 3 => (head.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize), 12),
        version => return Err(Error::data(format!("is an .npy file of version {version}; 1 to 3 are known"))),
    };
    let len = len.ok_or_else(|| Error::loss("the header is cut off"))?;
    if len > MAX_HEADER {
        return Err(Error::data(format!("the header claims to have {len} bytes; {MAX_HEADER} are the most")));
    }
    Ok(at + len)
}

/// Reads the header at the beginning of `bytes`, which must have all of it.
pub fn parse(bytes: &[u8]) -> Result<Npy> {
    let start = header_len(bytes)?;
    let text =
        bytes.get(if bytes[6] == 1 { 10 } else { 12 }..start).ok_or_else(|| Error::loss("the header is cut off"))?;
    let at = |e: Error| Error::new(e.kind(), format!("the header cannot be read: {}", e.message()));
    // Before version 3, names are Latin-1: a byte is a character.
    let latin: String;
    let text = match bytes[6] < 3 && !text.is_ascii() {
        true => {
            latin = text.iter().map(|b| char::from(*b)).collect();
            latin.as_bytes()
        }
        false => text,
    };
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0).map_err(at)?;
    parser.space();
    if parser.at < text.len() {
        return Err(at(Error::data(format!("there is more behind it, at character {}", parser.at))));
    }
    let Literal::Dict(dict) = value else { return Err(at(Error::data("it is no dict"))) };
    let find = |name: &str| {
        dict.iter().find(|(k, _)| k == name).map(|(_, v)| v).ok_or_else(|| Error::data(format!("{name:?} is missing")))
    };
    let Literal::Bool(fortran) = find("fortran_order").map_err(at)? else {
        return Err(at(Error::data("fortran_order is no bool")));
    };
    let shape = sizes(find("shape").map_err(at)?).map_err(at)?;
    let mut fields = Vec::new();
    let item = fields_of(find("descr").map_err(at)?, &mut vec![], 0, &mut fields).map_err(at)?;
    // With zeros counted as ones no product of some of the sizes overflows later.
    let all = shape.iter().try_fold(item.max(1), |n, &d| n.checked_mul(d.max(1)));
    if all.is_none_or(|n| n > isize::MAX as usize / 16) {
        return Err(at(Error::data(format!("the shape {shape:?} is too large"))));
    }
    Ok(Npy { fields, item, fortran: *fortran, shape, start })
}

/// Adds the fields of a dtype that begins at byte `offset` of the item; returns its size.
fn fields_of(descr: &Literal, path: &mut Vec<String>, offset: usize, out: &mut Vec<Field>) -> Result<usize> {
    match descr {
        Literal::Text(code) => {
            let Some((kind, size, swapped)) = scalar(code, path)? else {
                // Padding between fields.
                return padding(code);
            };
            out.push(Field { path: path.clone(), kind, size, swapped, offset, shape: vec![] });
            Ok(size)
        }
        Literal::List(fields) => {
            if path.len() >= MAX_DEPTH {
                return Err(Error::data("structures are nested too deeply"));
            }
            let mut size = 0usize;
            for field in fields {
                let Literal::Tuple(parts) = field else { return Err(Error::data("a field is no tuple")) };
                let (name, descr, shape) = match parts.as_slice() {
                    [name, descr] => (name, descr, vec![]),
                    [name, descr, shape] => (name, descr, sizes(shape)?),
                    _ => return Err(Error::data("a field has neither two nor three parts")),
                };
                let name = match name {
                    Literal::Text(name) => name,
                    // A title and a name.
                    Literal::Tuple(both) => match both.as_slice() {
                        [_, Literal::Text(name)] => name,
                        _ => return Err(Error::data("a field has no name")),
                    },
                    _ => return Err(Error::data("a field has no name")),
                };
                path.push(name.clone());
                let first = out.len();
                let start = offset.checked_add(size).ok_or_else(|| Error::data("an item is too large"))?;
                let one = fields_of(descr, path, start, out)?;
                path.pop();
                let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
                if !shape.is_empty() {
                    match &mut out[first..] {
                        [field] if matches!(descr, Literal::Text(_)) => field.shape = shape,
                        [] => {}
                        _ => {
                            return Err(Error::data(format!(
                                "field {name:?} is an array of structures: not supported"
                            )));
                        }
                    }
                }
                size = count
                    .and_then(|n| n.checked_mul(one))
                    .and_then(|n| n.checked_add(size))
                    .filter(|n| *n <= isize::MAX as usize / 16)
                    .ok_or_else(|| Error::data("an item is too large"))?;
            }
            if let Some(twice) = out.iter().enumerate().find(|(i, f)| out[..*i].iter().any(|g| g.path == f.path)) {
                return Err(Error::data(format!("field {:?} is there twice", twice.1.path.join("."))));
            }
            Ok(size)
        }
        _ => Err(Error::data("descr is neither text nor a list of fields")),
    }
}

/// The size of a field that has no name and no type.
fn padding(code: &str) -> Result<usize> {
    code[2..].parse().map_err(|_| Error::data(format!("the type {code:?} is not known")))
}

/// The type that a code such as `<f4` stands for; `None` for padding.
fn scalar(code: &str, path: &[String]) -> Result<Option<(Kind, usize, bool)>> {
    let unknown = || Error::data(format!("the type {code:?} is not known"));
    if !code.is_ascii() || code.len() < 2 {
        return Err(unknown());
    }
    let order = code.as_bytes()[0];
    if !b"<>|=".contains(&order) {
        return Err(unknown());
    }
    let (letter, rest) = (code.as_bytes()[1], &code[2..]);
    let digits = rest.split('[').next().unwrap_or("");
    if letter == b'O' {
        return Err(Error::data(
            "the items are Python objects, which only pickle can read, and that may run any code; save them as numbers, \
             as text (dtype='U' or 'S'), or as one file for each array",
        ));
    }
    let size: usize = digits.parse().map_err(|_| unknown())?;
    let big = order == b'>' && size > 1;
    let swapped = |size: usize| size > 1 && order != b'|' && order != b'=' && big != cfg!(target_endian = "big");
    Ok(Some(match (letter, size) {
        (b'b', 1) => (Kind::Bool, 1, false),
        (b'i', 1 | 2 | 4 | 8) => (Kind::Int, size, swapped(size)),
        (b'u', 1 | 2 | 4 | 8) => (Kind::Uint, size, swapped(size)),
        (b'f', 2 | 4 | 8) => (Kind::Float, size, swapped(size)),
        (b'M' | b'm', 8) => (Kind::Time, 8, swapped(8)),
        (b'S' | b'a', n) if n <= isize::MAX as usize / 16 => (Kind::Bytes, n, false),
        (b'U', n) if n <= isize::MAX as usize / 64 => (Kind::Text, n * 4, swapped(4)),
        (b'V', n) if path.last().is_some_and(|name| name.is_empty()) && n <= isize::MAX as usize / 16 => {
            return Ok(None);
        }
        (b'V', 2) => {
            return Err(Error::data(
                "the items are 2 raw bytes (|V2), perhaps bfloat16, which .npy has no name for; save them as float32",
            ));
        }
        (b'c', _) => return Err(Error::data("the items are complex numbers; save their real and imaginary parts")),
        _ => return Err(unknown()),
    }))
}

/// A tuple of sizes, or one size.
fn sizes(value: &Literal) -> Result<Vec<usize>> {
    let one = |v: &Literal| match v {
        Literal::Int(n) => usize::try_from(*n).map_err(|_| Error::data(format!("{n} is no size"))),
        _ => Err(Error::data("the shape has something other than numbers")),
    };
    let shape = match value {
        Literal::Tuple(list) | Literal::List(list) => list.iter().map(one).collect::<Result<Vec<_>>>()?,
        single => vec![one(single)?],
    };
    if shape.len() > MAX_RANK {
        return Err(Error::data(format!("{} axes are too many", shape.len())));
    }
    Ok(shape)
}

/// The part of Python's notation that headers are written in.
#[derive(Debug)]
enum Literal {
    Text(String),
    Int(i64),
    Bool(bool),
    None,
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    Dict(Vec<(String, Literal)>),
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    fn unexpected<T>(&self) -> Result<T> {
        Err(Error::data(match self.peek() {
            Some(c) => format!("{:?} is not expected at character {}", char::from(c), self.at),
            None => "it ends in the middle".into(),
        }))
    }
    fn takes(&mut self, word: &[u8]) -> bool {
        let is = self.text[self.at..].starts_with(word);
        if is {
            self.at += word.len();
        }
        is
    }
    fn value(&mut self, depth: usize) -> Result<Literal> {
        if depth > 2 * MAX_DEPTH + 4 {
            return Err(Error::data("it is nested too deeply"));
        }
        self.space();
        match self.peek() {
            Some(b'\'' | b'"') => Ok(Literal::Text(self.string()?)),
            Some(b'0'..=b'9' | b'-') => self.int(),
            Some(b'(') => {
                let (items, comma) = self.items(b')', depth)?;
                // Brackets around one value are only brackets.
                Ok(match <[Literal; 1]>::try_from(items) {
                    Ok([one]) if !comma => one,
                    Ok(one) => Literal::Tuple(one.into()),
                    Err(items) => Literal::Tuple(items),
                })
            }
            Some(b'[') => Ok(Literal::List(self.items(b']', depth)?.0)),
            Some(b'{') => self.dict(depth),
            _ if self.takes(b"True") => Ok(Literal::Bool(true)),
            _ if self.takes(b"False") => Ok(Literal::Bool(false)),
            _ if self.takes(b"None") => Ok(Literal::None),
            _ => self.unexpected(),
        }
    }
    /// Values up to a closing bracket, and whether there was a comma.
    fn items(&mut self, close: u8, depth: usize) -> Result<(Vec<Literal>, bool)> {
        self.at += 1;
        let (mut items, mut comma) = (Vec::new(), false);
        loop {
            self.space();
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok((items, comma));
            }
            if !items.is_empty() && !std::mem::take(&mut comma) {
                return self.unexpected();
            }
            items.push(self.value(depth + 1)?);
            self.space();
            comma = self.takes(b",");
        }
    }
    fn dict(&mut self, depth: usize) -> Result<Literal> {
        self.at += 1;
        let (mut entries, mut comma) = (Vec::new(), true);
        loop {
            self.space();
            if self.takes(b"}") {
                return Ok(Literal::Dict(entries));
            }
            if !comma || !matches!(self.peek(), Some(b'\'' | b'"')) {
                return self.unexpected();
            }
            let key = self.string()?;
            self.space();
            if !self.takes(b":") {
                return self.unexpected();
            }
            entries.push((key, self.value(depth + 1)?));
            self.space();
            comma = self.takes(b",");
        }
    }
    fn int(&mut self) -> Result<Literal> {
        let from = self.at;
        self.at += 1;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.text[from..self.at]).unwrap_or("");
        // Python 2 wrote long numbers with an L.
        self.takes(b"L");
        text.parse().map(Literal::Int).map_err(|_| Error::data(format!("{text} is no whole number of 64 bits")))
    }
    fn string(&mut self) -> Result<String> {
        let quote = self.text[self.at];
        let mut out = Vec::new();
        loop {
            self.at += 1;
            match self.peek() {
                None => return self.unexpected(),
                Some(c) if c == quote => {
                    self.at += 1;
                    return String::from_utf8(out).map_err(|_| Error::data("a name is not UTF-8"));
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(c @ (b'\\' | b'\'' | b'"')) => out.push(c),
                        _ => return Err(Error::data("a name has an escape that is not known")),
                    }
                }
                Some(c) => out.push(c),
            }
        }
    }
}

/// A header for items of one type, filled up so that the items begin at a multiple of 64 and the number of rows can be
/// written again when it is known: every number has the same length here.
pub fn header(descr: &str, rows: u64, inner: &[usize]) -> Vec<u8> {
    let inner: String = inner.iter().map(|d| format!(", {d}")).collect();
    let comma = if inner.is_empty() { "," } else { "" };
    let dict = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({rows}{comma}{inner}), }}");
    // As NumPy does, room for the largest number that the first axis can be.
    let room = 20 - rows.to_string().len();
    let small = 10 + dict.len() + room + 1;
    let (version, at) = if small.next_multiple_of(64) - 10 <= usize::from(u16::MAX) { (1, 10) } else { (2, 12) };
    let end = (at + dict.len() + room + 1).next_multiple_of(64);
    let mut out = MAGIC.to_vec();
    out.extend([version, 0]);
    match version {
        1 => out.extend(((end - at) as u16).to_le_bytes()),
        _ => out.extend(((end - at) as u32).to_le_bytes()),
    }
    out.extend(dict.as_bytes());
    out.resize(end - 1, b' ');
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(dict: &str) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((dict.len() as u16).to_le_bytes());
        out.extend(dict.as_bytes());
        out
    }
    fn read(dict: &str) -> Result<Npy> {
        parse(&made(dict))
    }
    fn refused(dict: &str) -> String {
        read(dict).expect_err("refused").to_string()
    }

    #[test]
    fn headers_as_numpy_writes_them() {
        let npy = read("{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }  \n").unwrap();
        assert_eq!((npy.item, npy.fortran, npy.shape.as_slice()), (4, false, [60000, 28, 28].as_slice()));
        assert!(npy.is_plain());
        assert_eq!((npy.fields[0].kind, npy.fields[0].swapped), (Kind::Float, false));
        let npy = read("{'descr': '>i8', 'fortran_order': True, 'shape': (3,), }").unwrap();
        assert!(npy.fields[0].swapped && npy.fortran);
        assert_eq!(read("{'descr': '|b1', 'fortran_order': False, 'shape': (), }").unwrap().shape, [0usize; 0]);
        assert_eq!(read("{'descr': '<U5', 'fortran_order': False, 'shape': (2L,), }").unwrap().item, 20);
    }

    #[test]
    fn names_are_latin_1_before_version_3() {
        let dict = "{'descr': [('gr\u{f6}\u{df}e', '<i4')], 'fortran_order': False, 'shape': (7,), }";
        let mut latin = made(&"x".repeat(dict.chars().count()));
        latin.splice(10.., dict.chars().map(|c| c as u8));
        assert_eq!(parse(&latin).unwrap().fields[0].path, ["gr\u{f6}\u{df}e"]);
        let mut utf8 = made(dict);
        utf8[6] = 3;
        utf8.splice(8..10, (dict.len() as u32).to_le_bytes());
        assert_eq!(parse(&utf8).unwrap().fields[0].path, ["gr\u{f6}\u{df}e"]);
    }

    #[test]
    fn structures() {
        let npy = read(
            "{'descr': [('a', '<i4'), ('', '|V4'), ('b', [('c', '>f8'), (('title', 'd'), '|S3', (2,))])], \
             'fortran_order': False, 'shape': (7,), }",
        )
        .unwrap();
        let fields: Vec<_> = npy.fields.iter().map(|f| (f.path.join("."), f.offset, f.shape.clone())).collect();
        assert_eq!(npy.item, 22);
        assert_eq!(fields, [("a".into(), 0, vec![]), ("b.c".into(), 8, vec![]), ("b.d".into(), 16, vec![2])]);
        assert!(!npy.is_plain());
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(refused("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }").contains("pickle"));
        assert!(refused("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }").contains("complex"));
        assert!(refused("{'descr': '<V2', 'fortran_order': False, 'shape': (3,), }").contains("bfloat16"));
        assert!(refused("{'descr': '<f4', 'shape': (3,), }").contains("fortran_order"));
        assert!(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }").contains("no size"));
        assert!(
            refused("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }").contains("large")
        );
        assert!(
            refused("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9), }")
                .contains("large")
        );
        assert!(refused("__import__('os').system('true')").contains("not expected"));
        assert!(refused(&"(".repeat(5000)).contains("deeply"));
        assert!(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } + 1").contains("more behind"));
        assert!(
            refused("{'descr': [('a', '<i4'), ('a', '<i4')], 'fortran_order': False, 'shape': (1,)}").contains("twice")
        );
        assert!(parse(b"PK\x03\x04zzzzzzzz").unwrap_err().to_string().contains("PK"));
        assert!(parse(b"\x93NUMPY\x01\x00\xff").is_err());
        assert!(parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").unwrap_err().to_string().contains("claims"));
    }

    #[test]
    fn written_headers_read_back_and_keep_their_length() {
        for (descr, inner) in [("'<f4'", vec![28, 28]), ("'|S7'", vec![]), ("'<i8'", vec![0])] {
            let (small, large) = (header(descr, 0, &inner), header(descr, u64::MAX / 1000, &inner));
            assert_eq!(small.len(), large.len());
            assert_eq!(small.len() % 64, 0);
            let npy = parse(&header(descr, 5, &inner)).unwrap();
            assert_eq!((npy.shape[0], &npy.shape[1..], npy.start), (5, inner.as_slice(), small.len()));
        }
    }
}
