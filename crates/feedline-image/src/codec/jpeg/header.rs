//! The markers in front of a JPEG's first scan: its size, its components, how it is stored, which way is up.

use crate::{Error, Result};

/// What stands in front of the first scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub height: usize,
    pub width: usize,
    /// 1 is grey, 3 colour, 4 CMYK.
    pub components: usize,
    /// The largest sampling factors, horizontal and vertical; 1 if all components have all pixels.
    pub sampling: (usize, usize),
    /// Whether its components are subsampled: pixels then depend on their neighbours.
    pub subsampled: bool,
    /// Adobe's marker is there: CMYK is stored inverted.
    pub adobe: bool,
    /// EXIF's orientation, 1 to 8; 1 if it has none.
    pub orientation: u8,
    /// Where the first scan begins.
    pub scan: usize,
    lossless: bool,
    progressive: bool,
}

impl Header {
    pub fn read(bytes: &[u8]) -> Result<Header> {
        let mut at = 2;
        let mut header = None;
        let (mut adobe, mut orientation) = (false, 1);
        if !bytes.starts_with(&[0xff, 0xd8]) {
            return Err(Error::data("not a JPEG: it does not begin with FF D8").at_byte(0));
        }
        loop {
            let (marker, body) = segment(bytes, &mut at)?;
            match marker {
                0xda => {
                    let header: Header = header.ok_or_else(|| bad("a scan in front of the frame", at))?;
                    return Ok(Header { adobe, orientation, scan: at, ..header });
                }
                0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(&marker) => header = Some(frame(marker, body, at)?),
                0xe1 => orientation = exif_orientation(body).unwrap_or(orientation),
                0xee => adobe |= body.starts_with(b"Adobe"),
                _ => {}
            }
        }
    }
    /// Whether the file has an end. A file that was cut off has none: image data never contains the marker.
    pub fn is_complete(&self, bytes: &[u8]) -> bool {
        bytes.get(self.scan..).is_some_and(|rest| rest.windows(2).rev().any(|pair| pair == [0xff, 0xd9]))
    }
    /// What a decoder takes for itself, besides the pixels: of a progressive picture all coefficients, two bytes each, of
    /// another one some rows of blocks.
    pub fn scratch_bytes(&self) -> usize {
        let rows = if self.progressive { self.height * 2 } else { self.height.min(64) };
        let pixels = self.width * rows;
        let (across, down) = self.sampling;
        // Where components are subsampled only the first has all of them.
        let others = pixels * (self.components - 1) / if self.subsampled { across * down } else { 1 };
        pixels + others
    }
    /// Whether parts of it can be decoded by themselves.
    pub fn has_blocks(&self) -> bool {
        !self.lossless
    }
}

fn bad(what: &str, at: usize) -> Error {
    Error::data(format!("a broken JPEG: {what}")).at_byte(at as u64)
}

/// The next marker and what it says; `at` goes behind it.
fn segment<'a>(bytes: &'a [u8], at: &mut usize) -> Result<(u8, &'a [u8])> {
    let ends = || bad("it ends in its header", bytes.len());
    loop {
        if *bytes.get(*at).ok_or_else(ends)? != 0xff {
            return Err(bad("a marker was expected", *at));
        }
        let marker = *bytes.get(*at + 1).ok_or_else(ends)?;
        match marker {
            0xff => *at += 1,
            // Markers without a length.
            0x01 | 0xd0..=0xd7 => *at += 2,
            0xd8 | 0xd9 | 0x00 => return Err(bad("its header has no scan", *at)),
            _ => {
                let length = bytes.get(*at + 2..*at + 4).ok_or_else(ends)?;
                let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
                if length < 2 {
                    return Err(bad("a marker that is too short", *at));
                }
                let body = bytes.get(*at + 4..*at + 2 + length).ok_or_else(ends)?;
                *at += 2 + length;
                return Ok((marker, body));
            }
        }
    }
}

fn frame(marker: u8, body: &[u8], at: usize) -> Result<Header> {
    let [precision, h1, h0, w1, w0, components, rest @ ..] = body else {
        return Err(bad("a frame that is too short", at));
    };
    let (height, width) = (u16::from_be_bytes([*h1, *h0]).into(), u16::from_be_bytes([*w1, *w0]).into());
    let components = usize::from(*components);
    if *precision != 8 {
        return Err(bad(&format!("{precision} bits a sample, where 8 can be read"), at));
    }
    if height == 0 || width == 0 {
        return Err(bad("a picture without pixels", at));
    }
    if ![1, 3, 4].contains(&components) || rest.len() < components * 3 {
        return Err(bad(&format!("{components} components, where 1, 3 or 4 can be read"), at));
    }
    let factors = || rest.chunks_exact(3).take(components).map(|c| (usize::from(c[1] >> 4), usize::from(c[1] & 15)));
    if factors().any(|(h, v)| !(1..=4).contains(&h) || !(1..=4).contains(&v)) {
        return Err(bad("a sampling factor that is not 1 to 4", at));
    }
    let largest = factors().fold((1, 1), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    let subsampled = components > 1 && factors().any(|f| f != largest);
    let sampling = if components == 1 { (1, 1) } else { largest };
    let lossless = matches!(marker, 0xc3 | 0xc7 | 0xcb | 0xcf);
    let progressive = matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce);
    let (adobe, orientation, scan) = (false, 1, 0);
    Ok(Header { height, width, components, sampling, subsampled, adobe, orientation, scan, lossless, progressive })
}

/// The orientation in an EXIF segment.
fn exif_orientation(body: &[u8]) -> Option<u8> {
    let tiff = body.strip_prefix(b"Exif\0\0")?;
    let big = match tiff.get(..4)? {
        b"MM\0*" => true,
        b"II*\0" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let b = tiff.get(at..at.checked_add(2)?)?;
        Some(if big { u16::from_be_bytes([b[0], b[1]]) } else { u16::from_le_bytes([b[0], b[1]]) })
    };
    let word = |at: usize| {
        let (a, b) = (u32::from(short(at)?), u32::from(short(at.checked_add(2)?)?));
        Some(if big { a << 16 | b } else { b << 16 | a })
    };
    let directory = word(4)? as usize;
    let entries = usize::from(short(directory)?);
    (0..entries)
        .map_while(|i| directory.checked_add(2 + 12 * i))
        .find(|&entry| short(entry) == Some(0x112))
        .and_then(|entry| short(entry + 8))
        .filter(|value| (1..=8).contains(value))
        .map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &[u8] = &[0xff, 0xc0, 0, 17, 8, 0, 12, 0, 10, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1];
    const SCAN: &[u8] = &[0xff, 0xda, 0, 2];

    fn file(parts: &[&[u8]]) -> Vec<u8> {
        [&[0xff, 0xd8][..], &parts.concat()].concat()
    }

    #[test]
    fn size_sampling_and_end() {
        let bytes = file(&[&[0xff, 0xff, 0xd0], FRAME, SCAN, &[1, 2, 0xff, 0xd9, 7]]);
        let header = Header::read(&bytes).unwrap();
        assert_eq!((header.height, header.width, header.components, header.sampling), (12, 10, 3, (2, 2)));
        assert!(header.subsampled && header.orientation == 1 && !header.adobe && header.has_blocks());
        assert!(header.is_complete(&bytes) && !header.is_complete(&bytes[..bytes.len() - 2]));
    }

    #[test]
    fn an_end_in_the_header_is_not_the_end() {
        let thumbnail: &[u8] = &[0xff, 0xe2, 0, 4, 0xff, 0xd9];
        let bytes = file(&[thumbnail, FRAME, SCAN, &[1, 2, 3]]);
        assert!(!Header::read(&bytes).unwrap().is_complete(&bytes));
    }

    #[test]
    fn orientation_of_both_byte_orders() {
        let big = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let little = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0\0\0\0\0\0\0";
        for (exif, wanted) in [(&big[..], 6), (&little[..], 3)] {
            let bytes = file(&[exif, FRAME, SCAN]);
            assert_eq!(Header::read(&bytes).unwrap().orientation, wanted);
        }
    }

    #[test]
    fn what_is_broken_says_where() {
        let error = |bytes: &[u8]| Header::read(bytes).unwrap_err().to_string();
        assert!(error(b"no").contains("FF D8"));
        assert!(error(&file(&[FRAME])).contains("ends in its header"));
        assert!(error(&file(&[SCAN])).contains("in front of the frame"));
        let mut empty = FRAME.to_vec();
        empty[5..7].fill(0);
        assert!(error(&file(&[&empty, SCAN])).contains("without pixels"));
        let mut wide = FRAME.to_vec();
        wide[4] = 12;
        assert!(error(&file(&[&wide, SCAN])).contains("12 bits"));
        for cut in 0..FRAME.len() + 6 {
            assert!(Header::read(&file(&[FRAME, SCAN])[..cut.min(FRAME.len() + 5)]).is_err());
        }
    }
}
