//! What texts are: the types of columns, and which numbers keep the text that they were written as.

use super::Type;
use feedline_io::{Error, Result};

/// The types of columns as far as some rows tell: a column may only widen, and empty fields tell nothing.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    types: Vec<Option<Type>>,
}

impl Inference {
    pub fn new(columns: usize) -> Inference {
        Inference { types: vec![None; columns] }
    }
    pub fn row(&mut self, texts: &[Vec<u8>], na: &[u8]) -> Result<()> {
        if texts.len() != self.types.len() {
            return Err(Error::data(format!(
                "the record has {} fields, {} are expected",
                texts.len(),
                self.types.len()
            )));
        }
        for (ty, text) in self.types.iter_mut().zip(texts) {
            if !text.is_empty() && text != na {
                *ty = Some(Type::infer(text, *ty));
            }
        }
        Ok(())
    }
    /// A column of which nothing is known is text.
    pub fn types(&self) -> Vec<Type> {
        self.types.iter().map(|t| t.unwrap_or(Type::String)).collect()
    }
}

/// What a field could be, for whoever writes it again: what a number would not keep is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    Empty,
    /// A whole number that a float holds exactly.
    Int,
    /// One that only an int64 does.
    LongInt,
    Float,
    /// nan or inf, which may be words.
    NotFinite,
    Text,
}

impl Looks {
    pub fn of(text: &[u8]) -> Looks {
        if text.is_empty() {
            return Looks::Empty;
        }
        match int(text) {
            _ if has_more_than_number(text) => Looks::Text,
            Ok(0) if text.contains(&b'-') => Looks::Float,
            Ok(n) if n.unsigned_abs() <= EXACT_IN_FLOAT => Looks::Int,
            Ok(_) => Looks::LongInt,
            Err(NotInt::Beyond) => Looks::Text,
            Err(NotInt::Text) => match float::<f64>(text) {
                Some(x) if x.is_finite() => Looks::Float,
                // 1e999 is not infinite, it is beyond what a float64 holds.
                Some(_) if !text.iter().any(u8::is_ascii_digit) => Looks::NotFinite,
                _ => Looks::Text,
            },
        }
    }
}

/// Whole numbers up to this one are different as float64.
const EXACT_IN_FLOAT: u64 = 1 << 53;

/// Whether a text has a plus sign or leading zeros, which a number does not have.
fn has_more_than_number(text: &[u8]) -> bool {
    let digits = match trim(text) {
        [b'+', ..] => return true,
        [b'-', digits @ ..] => digits,
        digits => digits,
    };
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

/// Whether a number can stand for its text in a column of that type. That it is a number is found out elsewhere.
pub(super) fn keeps(text: &[u8], ty: Type) -> bool {
    let is_minus_zero = || matches!(trim(text), [b'-', zeros @ ..] if zeros.iter().all(|b| *b == b'0'));
    match ty {
        _ if has_more_than_number(text) => false,
        Type::Int32 | Type::Int64 => !is_minus_zero(),
        // Long enough to be beyond what a float holds.
        Type::Float32 | Type::Float64 if text.len() > 15 => !matches!(Looks::of(text), Looks::LongInt | Looks::Text),
        _ => true,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NotInt {
    Text,
    Beyond,
}

/// White space as C's `isspace` has it.
fn trim(mut text: &[u8]) -> &[u8] {
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    while let [first, rest @ ..] = text
        && is_space(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_space(last)
    {
        text = rest;
    }
    text
}

/// A whole number with spaces around it.
pub(super) fn int(text: &[u8]) -> std::result::Result<i64, NotInt> {
    let (negative, digits) = match trim(text) {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(NotInt::Text);
    }
    let mut n = 0u64;
    let mut beyond = false;
    for (i, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NotInt::Text);
        }
        n = if i < 19 {
            n.wrapping_mul(10).wrapping_add(digit as u64)
        } else {
            // More digits than 64 bits have for sure: leading zeros are possible.
            let next = n.checked_mul(10).and_then(|n| n.checked_add(digit as u64));
            beyond |= next.is_none();
            next.unwrap_or(0)
        };
    }
    let n = if negative { 0i64.checked_sub_unsigned(n) } else { i64::try_from(n).ok() };
    n.filter(|_| !beyond).ok_or(NotInt::Beyond)
}

/// A number with spaces around it; `nan`, `inf` and `infinity` are numbers.
pub(super) fn float<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(trim(text)).ok()?.parse().ok()
}
