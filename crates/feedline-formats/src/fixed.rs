//! Records of one length, between a header and a footer that each file has.

use crate::records::{Carry, Cut, Out, Records};
use feedline_io::{Buf, Error, Result};

/// Memory is taken ahead for records of that size at most.
const TRUSTED_BYTES: u64 = 64 << 20;

/// The layout of a file of records of one length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub record: u64,
    pub header: u64,
    pub footer: u64,
}

impl Layout {
    pub fn new(record: i64, header: i64, footer: i64) -> Result<Layout> {
        let size = |name: &str, n: i64, least: i64| match u64::try_from(n) {
            Ok(n) if n >= least as u64 => Ok(n),
            _ => Err(Error::usage(format!("{name} must be at least {least}, not {n}"))),
        };
        Ok(Layout {
            record: size("record_bytes", record, 1)?,
            header: size("header_bytes", header, 0)?,
            footer: size("footer_bytes", footer, 0)?,
        })
    }
    /// How many records a file of that many bytes has; an error if they do not fit into it evenly.
    pub fn records(&self, file_bytes: u64) -> Result<u64> {
        let Layout { record, header, footer } = *self;
        let body = file_bytes.checked_sub(header).and_then(|rest| rest.checked_sub(footer)).ok_or_else(|| {
            Error::data(format!(
                "has {file_bytes} bytes, fewer than its header of {header} and footer of {footer}; it may be cut"
            ))
            .at_byte(file_bytes)
        })?;
        if !body.is_multiple_of(record) {
            let text = format!(
                "has {body} bytes between header and footer, not a multiple of the {record} of a record ({} are left \
                 over); it may be cut, or record_bytes, header_bytes or footer_bytes is wrong",
                body % record
            );
            return Err(Error::data(text).at_byte(header + body - body % record));
        }
        Ok(body / record)
    }
    /// Where a record lies.
    pub fn offset(&self, record: u64) -> u64 {
        self.header + record * self.record
    }
}

/// Cuts records of one length. Where the size of the file is known, `Layout::records` checks it first; without (in a
/// compressed file) whole records come out, and what is left over at the end is an error then.
pub struct Fixed {
    carry: Carry,
    layout: Layout,
    /// Bytes of the header that are still to be passed over.
    header_left: u64,
    done: bool,
}

impl Fixed {
    pub fn new(layout: Layout) -> Fixed {
        Fixed { carry: Carry::default(), layout, header_left: layout.header, done: false }
    }
    fn end(&mut self) -> Cut {
        if self.done {
            return Cut::End;
        }
        self.done = true;
        let rest = self.carry.rest().len() as u64;
        let at = self.carry.offset();
        self.carry.advance(rest as usize);
        let Layout { record, header, footer } = self.layout;
        if self.header_left > 0 {
            return Cut::Fail(Error::loss(format!("ends in its header of {header} bytes")).at_byte(at));
        }
        if rest == footer {
            return Cut::End;
        }
        let text = format!(
            "ends with {rest} bytes, where a record has {record} and the footer {footer}; it may be cut, or record_bytes, \
             header_bytes or footer_bytes is wrong"
        );
        Cut::Fail(Error::loss(text).at_byte(at))
    }
}

impl Records for Fixed {
    fn feed(&mut self, block: Buf) {
        self.carry.feed(block);
    }
    fn finish(&mut self) {
        self.carry.finish();
    }
    fn base(&self) -> u64 {
        self.carry.base()
    }
    fn place(&self) -> Option<u64> {
        (self.header_left == 0 && !self.done).then(|| self.carry.offset())
    }
    fn go_to(&mut self, byte: u64, _: u64) -> bool {
        self.header_left == 0 && !self.done && self.carry.reach(byte)
    }
    fn start_at(&mut self, byte: u64, _: u64) -> bool {
        (self.carry, self.header_left) = (Carry::at(byte), 0);
        true
    }
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut {
        let pass = self.header_left.min(self.carry.rest().len() as u64);
        self.carry.advance(pass as usize);
        self.header_left -= pass;
        let there = (self.carry.rest().len() as u64).saturating_sub(self.layout.footer) / self.layout.record;
        let n = there.min(want as u64) as usize;
        if n == 0 || self.header_left > 0 {
            // Collected in one piece: one that grows would be there twice.
            if self.layout.record <= TRUSTED_BYTES && self.header_left == 0 {
                self.carry.need(self.layout.record as usize);
            }
            return if self.carry.is_finished() { self.end() } else { Cut::More };
        }
        let record = self.layout.record as usize;
        for _ in 0..n {
            let start = self.carry.start();
            out.view(self.carry.block(), start..start + record);
            self.carry.advance(record);
        }
        Cut::Records(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::collect;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_checked() {
        let layout = |r, h, f| Layout::new(r, h, f).unwrap();
        assert_eq!(layout(5, 0, 0).records(20).unwrap(), 4);
        assert_eq!(layout(5, 3, 2).records(20).unwrap(), 3);
        assert_eq!(layout(5, 3, 0).records(3).unwrap(), 0);
        assert_eq!(layout(5, 0, 0).records(0).unwrap(), 0);
        assert!(layout(7, 0, 0).records(20).unwrap_err().to_string().contains("6 are left over"));
        assert!(layout(5, 3, 0).records(2).unwrap_err().to_string().contains("fewer than its header"));
        assert!(layout(5, i64::MAX, i64::MAX).records(9).is_err());
        assert!(Layout::new(0, 0, 0).is_err() && Layout::new(1, -1, 0).is_err() && Layout::new(1, 0, -1).is_err());
    }

    #[test]
    fn what_is_left_over_comes_last() {
        let all = collect(&mut Fixed::new(Layout::new(7, 0, 0).unwrap()), [9; 20].chunks(4));
        assert_eq!(all.len(), 3);
        assert_eq!(all[1].as_ref().unwrap(), &[9; 7]);
        let error = all[2].as_ref().unwrap_err();
        assert!(error.message().contains("ends with 6 bytes") && error.at().byte == Some(14), "{error}");
    }

    proptest! {
        #[test]
        fn any_block_size_gives_the_same(
            n in 0usize..60, record in 1i64..9, header in 0i64..5, footer in 0i64..5, block in 1usize..12
        ) {
            let bytes: Vec<u8> = (0..n as u8).collect();
            let layout = Layout::new(record, header, footer).unwrap();
            let got = collect(&mut Fixed::new(layout), bytes.chunks(block));
            match layout.records(n as u64) {
                Ok(count) => {
                    prop_assert_eq!(got.len() as u64, count);
                    for (i, r) in got.iter().enumerate() {
                        let at = layout.offset(i as u64) as usize;
                        prop_assert_eq!(r.as_ref().unwrap(), &bytes[at..at + record as usize]);
                    }
                }
                Err(_) => prop_assert!(got.last().unwrap().is_err()),
            }
        }
    }
}
