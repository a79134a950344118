//! What checking a file came to.

use feedline::Error;

/// So much damage of a file is listed; the rest is counted.
pub const LISTED: usize = 1000;

/// One place that is broken.
#[derive(Debug)]
pub struct Damage {
    pub error: Error,
    /// The number of the record that is lost.
    pub record: u64,
    /// Bytes up to the next record that is whole.
    pub lost_bytes: u64,
}

#[derive(Debug, Default)]
pub struct Checked {
    /// Records that are whole.
    pub records: u64,
    /// Files that are whole, where records are made of several.
    pub members: Option<u64>,
    pub damage: Vec<Damage>,
    /// How many places are broken, those included that are not listed.
    pub broken: u64,
    pub lost_bytes: u64,
    /// Where the last damage begins, as long as nothing whole was found behind it.
    open: Option<u64>,
}

impl Checked {
    /// A record that begins at this byte is whole.
    #[inline]
    pub fn good(&mut self, byte: u64) {
        self.records += 1;
        if self.open.is_some() {
            self.resume(byte);
        }
    }
    /// Something is broken in the place of that record.
    pub fn bad(&mut self, error: Error, record: u64) {
        if let Some(byte) = error.at().byte {
            self.resume(byte);
            self.open = Some(byte);
        }
        self.broken += 1;
        if self.damage.len() < LISTED {
            self.damage.push(Damage { error, record, lost_bytes: 0 });
        }
    }
    /// The file ends here.
    pub fn end(&mut self, byte: u64) {
        self.resume(byte);
    }
    #[cold]
    fn resume(&mut self, byte: u64) {
        let Some(from) = self.open.take() else { return };
        let lost = byte.saturating_sub(from);
        self.lost_bytes += lost;
        if self.broken as usize == self.damage.len()
            && let Some(last) = self.damage.last_mut()
        {
            last.lost_bytes = lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_reach_to_what_is_whole() {
        let mut checked = Checked::default();
        checked.good(0);
        checked.bad(Error::loss("a").at_byte(10), 1);
        checked.bad(Error::loss("b").at_byte(30), 2);
        checked.good(35);
        checked.good(50);
        checked.bad(Error::loss("c").at_byte(60), 5);
        checked.end(100);
        let lost: Vec<u64> = checked.damage.iter().map(|d| d.lost_bytes).collect();
        assert_eq!((checked.records, checked.broken, checked.lost_bytes, lost), (3, 3, 65, vec![20, 5, 40]));
    }
}
