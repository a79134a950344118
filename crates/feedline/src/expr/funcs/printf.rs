//! Numbers as text in the ways of C's printf, which TensorFlow's `as_string` follows.

/// How a number is written.
#[derive(Clone, Debug)]
pub struct Style {
    pub precision: Option<usize>,
    pub width: usize,
    /// A printf flag: `0` fills with zeros, `-` aligns to the left, `+` and a space mark positive numbers.
    pub fill: Option<u8>,
    /// `e`, `f` or `g`.
    pub kind: u8,
}

impl Style {
    /// Writes a number that is given as digits and perhaps a sign.
    pub fn pad(&self, text: &str, out: &mut Vec<u8>) {
        let (mark, digits) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => match self.fill {
                Some(b'+') => ("+", text),
                Some(b' ') => (" ", text),
                _ => ("", text),
            },
        };
        let missing = self.width.saturating_sub(mark.len() + digits.len());
        let finite = digits.as_bytes().first().is_some_and(|c| c.is_ascii_digit());
        let fill = |out: &mut Vec<u8>, c: u8| out.extend(std::iter::repeat_n(c, missing));
        match self.fill {
            Some(b'0') if finite => {
                out.extend_from_slice(mark.as_bytes());
                fill(out, b'0');
                out.extend_from_slice(digits.as_bytes());
            }
            Some(b'-') => {
                out.extend_from_slice(text.as_bytes());
                fill(out, b' ');
            }
            _ => {
                fill(out, b' ');
                out.extend_from_slice(mark.as_bytes());
                out.extend_from_slice(digits.as_bytes());
            }
        }
    }

    pub fn float(&self, x: f64) -> String {
        if !x.is_finite() {
            let word = if x.is_nan() { "nan" } else { "inf" };
            return if x.is_sign_negative() && !x.is_nan() { format!("-{word}") } else { word.into() };
        }
        let precision = self.precision.unwrap_or(6);
        match self.kind {
            b'e' => exponential(x, precision),
            b'g' => general(x, precision.max(1)),
            _ => format!("{x:.precision$}"),
        }
    }
}

/// `%e`: at least two digits of exponent, with a sign.
fn exponential(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// `%g`: whichever of `%e` and `%f` is shorter, without trailing zeros.
fn general(x: f64, precision: usize) -> String {
    let text = exponential(x, precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let bare = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => digits.to_string(),
    };
    if power < -4 || power >= precision as i32 {
        return format!("{}e{exponent}", bare(digits));
    }
    let places = (precision as i32 - 1 - power) as usize;
    bare(&format!("{x:.places$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(kind: u8, precision: Option<usize>, x: f64) -> String {
        Style { precision, width: 0, fill: None, kind }.float(x)
    }

    #[test]
    fn floats_look_as_in_c() {
        assert_eq!(show(b'f', None, 1.5), "1.500000");
        assert_eq!(show(b'f', Some(0), 2.5), "2");
        assert_eq!(show(b'e', None, 12345.678), "1.234568e+04");
        assert_eq!(show(b'e', Some(2), 1e-100), "1.00e-100");
        assert_eq!(show(b'g', None, 0.0001), "0.0001");
        assert_eq!(show(b'g', None, 0.00001), "1e-05");
        assert_eq!(show(b'g', None, 123456789.0), "1.23457e+08");
        assert_eq!(show(b'g', None, 100000.0), "100000");
        assert_eq!(show(b'g', None, 0.0), "0");
        assert_eq!(show(b'g', Some(3), 999.6), "1e+03");
        assert_eq!(show(b'f', None, f64::NEG_INFINITY), "-inf");
        assert_eq!(show(b'f', None, f64::NAN), "nan");
        assert_eq!(show(b'f', None, -0.0), "-0.000000");
    }

    #[test]
    fn widths_are_filled() {
        let pad = |fill, text: &str| {
            let mut out = Vec::new();
            Style { precision: None, width: 5, fill, kind: b'f' }.pad(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(pad(None, "-42"), "  -42");
        assert_eq!(pad(Some(b'0'), "-42"), "-0042");
        assert_eq!(pad(Some(b'-'), "42"), "42   ");
        assert_eq!(pad(Some(b'+'), "42"), "  +42");
        assert_eq!(pad(Some(b'0'), "inf"), "  inf");
    }
}
