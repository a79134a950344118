//! One function a parser: any bytes in, and nothing may panic. The first bytes choose the options, the rest is the file.
//! Fuzzers call these; a test here does with bytes at random, so that they keep working.

use crate::records::{self, Records};
use crate::{csv, fixed, jsonl, lines, tar, webdataset};

/// Splits options off, and cuts the rest into blocks of a size that they choose.
fn blocks(bytes: &[u8]) -> Option<(u8, std::slice::Chunks<'_, u8>)> {
    let (&[options, block], file) = bytes.split_first_chunk::<2>()?;
    Some((options, file.chunks(usize::from(block) * 7 + 1)))
}

fn all(reader: &mut dyn Records, blocks: std::slice::Chunks<'_, u8>) -> Vec<Vec<u8>> {
    records::collect(reader, blocks).into_iter().filter_map(Result::ok).collect()
}

pub fn lines(bytes: &[u8]) {
    let Some((options, blocks)) = blocks(bytes) else { return };
    let reader = lines::Lines::default().max_bytes(64);
    all(&mut if options & 1 == 1 { reader.skip_blank() } else { reader }, blocks);
}

pub fn fixed_length(bytes: &[u8]) {
    let Some((options, blocks)) = blocks(bytes) else { return };
    let (record, header, footer) = (options & 15, options >> 4 & 3, options >> 6);
    if let Ok(layout) = fixed::Layout::new(record.into(), header.into(), footer.into()) {
        all(&mut fixed::Fixed::new(layout), blocks);
    }
}

/// Records and cells of every type, required and not.
pub fn csv(bytes: &[u8]) {
    struct Nowhere;
    impl csv::Sink for Nowhere {
        fn number<const N: usize>(&mut self, _: usize, _: [u8; N]) {}
        fn view(&mut self, _: usize, _: std::ops::Range<usize>) {}
        fn copy(&mut self, _: usize, _: &[u8]) {}
    }
    use csv::{Column, Fill, Type};
    let Some((options, blocks)) = blocks(bytes) else { return };
    let dialect = csv::Dialect { delim: if options & 1 == 1 { b',' } else { b';' }, quotes: options & 2 == 2 };
    let types = [Type::Int32, Type::Int64, Type::Float32, Type::Float64, Type::String];
    let columns = types.map(|ty| {
        let default = match (options & 4 == 4, ty) {
            (true, _) => Fill::Required,
            (false, Type::String) => Fill::Text(b"x".to_vec()),
            (false, _) => Fill::Int(1),
        };
        Column { name: String::new(), ty, default }
    });
    let Ok(schema) = csv::Schema::new(dialect, columns.to_vec(), None, b"NA".to_vec()) else { return };
    let mut parser = csv::Parser::new(&schema);
    let mut found = csv::Inference::new(5);
    for record in all(&mut csv::Rows::new(dialect, options & 8 == 8).max_bytes(200), blocks) {
        let _ = parser.row(&record, &mut Nowhere);
        if let Ok(texts) = csv::texts(&record, dialect) {
            let _ = found.row(&texts, b"NA");
        }
    }
    found.types();
}

/// A schema is learned from the first half of the lines, which then reads all of them.
pub fn json_lines(bytes: &[u8]) {
    let Some((_, blocks)) = blocks(bytes) else { return };
    let lines = all(&mut lines::Lines::default().skip_blank(), blocks);
    let mut found = jsonl::Inference::default();
    lines[..lines.len().div_ceil(2)].iter().for_each(|line| drop(found.line(line)));
    let Ok(schema) = jsonl::Schema::new(found.fields()) else { return };
    let mut row = jsonl::Row::default();
    for line in &lines {
        if row.read(&schema, line).is_ok() {
            let texts = row.cells.iter().flat_map(|cell| &cell.texts);
            assert!(
                texts.map(|text| row.text(line, text).len()).sum::<usize>() <= 4 * line.len() + 100 * row.cells.len()
            );
        }
    }
}

pub fn tar(bytes: &[u8]) {
    let Some((options, blocks)) = blocks(bytes) else { return };
    let mut reader = tar::Tar::default().max_bytes(1 << 16);
    tar::collect(&mut reader, blocks, &mut |member| member.size & 1 == u64::from(options & 1));
}

pub fn web_dataset(bytes: &[u8]) {
    let Some((_, blocks)) = blocks(bytes) else { return };
    all_samples(&mut webdataset::Reader::new(vec![b"txt".to_vec(), b"jpg;png".to_vec()]), blocks);
}

/// Samples are records of several parts, which `records::collect` would take for a wrong count.
fn all_samples(reader: &mut webdataset::Reader, mut blocks: std::slice::Chunks<'_, u8>) {
    use crate::records::{Copies, Cut};
    loop {
        match reader.cut(3, &mut Copies::default()) {
            Cut::Records(_) | Cut::Fail(_) => {}
            Cut::More => match blocks.next() {
                Some(bytes) => reader.feed(feedline_io::Buf::copied(bytes)),
                None => reader.finish(),
            },
            Cut::End => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Each parser with the bytes that mean something to it.
    fn near(alphabet: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![8 => prop::sample::select(alphabet), 1 => any::<u8>()], 0..200)
    }

    proptest! {
        #[test]
        fn text(bytes in near(b"a,;\"\n\r 1.e-NA")) {
            super::lines(&bytes);
            super::fixed_length(&bytes);
            super::csv(&bytes);
        }

        #[test]
        fn json(bytes in near(b"{}[]\":,\\u0a1.-entrufls \n")) {
            super::json_lines(&bytes);
        }

        #[test]
        fn tar_files(names in prop::collection::vec("[a.]{1,3}/?[a.]{0,3}(txt|png|)", 0..6), flips in near(b"\0/x7Lg5 \n"), block: u8) {
            let mut file = crate::tar::Writer::new(vec![block, block]);
            for name in &names {
                let _ = file.append(name.as_bytes(), name.as_bytes(), 0);
            }
            let mut file = file.finish().unwrap();
            super::tar(&file);
            super::web_dataset(&file);
            for (i, byte) in flips.iter().enumerate().take(20) {
                let at = 2 + (i * 97 + usize::from(*byte) * 31) % (file.len() - 2);
                file[at] = *byte;
            }
            super::tar(&file);
            super::web_dataset(&file);
        }
    }
}
