//! Records of text and of one length. The first bytes choose the options and the size of blocks, the rest is the file.

use super::pieces::{Record, same_in_pieces};
use crate::{csv, fixed, lines};
use std::sync::Arc;

/// Splits options off, and the size of blocks that they choose.
pub fn options(bytes: &[u8]) -> Option<(u8, usize, &[u8])> {
    let (&[options, block], file) = bytes.split_first_chunk::<2>()?;
    Some((options, usize::from(block) * 7 + 1, file))
}

/// Records of one part that are not damaged.
fn sound(all: Vec<Record>) -> impl Iterator<Item = Vec<u8>> {
    all.into_iter().flatten().map(|mut parts| parts.remove(0))
}

pub fn lines(bytes: &[u8]) {
    let Some((options, block, file)) = options(bytes) else { return };
    let most = if options & 2 == 2 { 64 } else { 5 };
    let all = same_in_pieces(file, block, 1, &mut || {
        let reader = lines::Lines::default().max_bytes(most);
        Box::new(if options & 1 == 1 { reader.skip_blank() } else { reader })
    });
    assert!(sound(all).all(|line| line.len() <= most && !line.contains(&b'\n') && !line.contains(&b'\r')));
}

pub fn fixed_length(bytes: &[u8]) {
    let Some((options, block, file)) = options(bytes) else { return };
    let (record, header, footer) = (options & 15, options >> 4 & 3, options >> 6);
    let Ok(layout) = fixed::Layout::new(record.into(), header.into(), footer.into()) else { return };
    let all = same_in_pieces(file, block, 1, &mut || Box::new(fixed::Fixed::new(layout)));
    match layout.records(file.len() as u64) {
        Ok(count) => assert_eq!(all.iter().filter(|r| r.is_ok()).count() as u64, count),
        Err(_) => assert!(all.last().is_some_and(Result::is_err)),
    }
}

/// Cells of a row as text.
#[derive(Default)]
struct Cells {
    record: Vec<u8>,
    /// By column; numbers by their bytes.
    cells: Vec<(usize, Vec<u8>)>,
}

impl csv::Sink for Cells {
    fn number<const N: usize>(&mut self, column: usize, bytes: [u8; N]) {
        self.cells.push((column, bytes.to_vec()));
    }
    fn view(&mut self, column: usize, range: std::ops::Range<usize>) {
        self.cells.push((column, self.record[range].to_vec()));
    }
    fn copy(&mut self, column: usize, text: &[u8]) {
        self.cells.push((column, text.to_vec()));
    }
}

/// Records and cells of every type, required and not. What the texts of a record are is so after it is written again.
pub fn csv(bytes: &[u8]) {
    use csv::{Column, Fill, Looks, Type};
    let Some((options, block, file)) = options(bytes) else { return };
    let dialect = csv::Dialect { delim: if options & 1 == 1 { b',' } else { b';' }, quotes: options & 2 == 2 };
    let has_header = options & 8 == 8;
    let names: Option<Arc<[String]>> = (options & 16 == 16).then(|| vec!["a".to_string(), "b".to_string()].into());
    let most = if options & 32 == 32 { 9 } else { 200 };
    let all = same_in_pieces(file, block, 1, &mut || {
        Box::new(csv::Rows::new(dialect, has_header).named(names.clone()).max_bytes(most))
    });
    let types = [Type::Int32, Type::Int64, Type::Float32, Type::Float64, Type::String];
    let columns = types.map(|ty| {
        let default = match (options & 4 == 4, ty) {
            (true, _) => Fill::Required,
            (false, Type::String) => Fill::Text(b"x".to_vec()),
            (false, Type::Float32) => Fill::Float(1e300),
            (false, _) => Fill::Int(1),
        };
        Column { name: String::new(), ty, default }
    });
    let schema = |select| csv::Schema::new(dialect, columns.to_vec(), select, b"NA".to_vec()).expect("a sound schema");
    let [plain, some] = [schema(None), schema(Some(vec![0, 2, 3, 4, 7])).blank_has_no_field()];
    let exact = schema(None).exact();
    let (mut found, mut seen) = (csv::Inference::new(5), Vec::new());
    for record in sound(all) {
        let read = |schema: &csv::Schema| {
            let mut cells = Cells { record: record.clone(), cells: vec![] };
            let done = csv::Parser::new(schema).row(&record, &mut cells);
            done.map(|()| cells.cells)
        };
        let cells = read(&plain);
        if let Ok(exact) = read(&exact) {
            assert_eq!(&exact, cells.as_ref().expect("it is read more strictly"));
        }
        let texts = csv::texts(&record, dialect);
        let _ = csv::header_names(&record, dialect);
        let Ok(texts) = texts else {
            assert!(cells.is_err() && read(&some).is_err());
            continue;
        };
        if let Ok(cells) = read(&some) {
            let text = cells.into_iter().find(|(column, _)| *column == 4).expect("every column has a cell").1;
            assert!(text == texts[7] || text == b"x");
        }
        assert!(texts.iter().all(|text| text.is_empty() == (Looks::of(text) == Looks::Empty)));
        let mut writer = csv::Writer::new(dialect);
        if texts.iter().all(|text| writer.text(text).is_ok()) {
            writer.end_row();
            let written = writer.take();
            let line = written.strip_suffix(b"\n").expect("a line end");
            assert_eq!(csv::texts(line, dialect).expect("our own line"), texts);
            let rows = crate::records::collect(&mut csv::Rows::new(dialect, false), [&written]);
            assert!(matches!(&rows[..], [Ok(row)] if row == line));
        }
        if found.row(&texts, b"NA").is_ok() {
            seen.push(record);
        }
    }
    // What the columns look like is what they can be read as.
    let column = |ty| Column { name: String::new(), ty, default: Fill::Text(vec![]) };
    let columns = found.types().into_iter().map(column).collect();
    let schema = csv::Schema::new(dialect, columns, None, b"NA".to_vec()).expect("a sound schema");
    for record in seen {
        let mut cells = Cells { record: record.clone(), cells: vec![] };
        csv::Parser::new(&schema).row(&record, &mut cells).expect("a row of which the types were learned");
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
            super::super::json::json_lines(&bytes);
        }

        #[test]
        fn tar_files(names in prop::collection::vec("[a.]{1,3}/?[a.]{0,3}(txt|png|)", 0..6), flips in near(b"\0/x7Lg5 \n"), block: u8) {
            use super::super::tars::{tar, web_dataset};
            let mut file = crate::tar::Writer::new(vec![block, block]);
            for name in &names {
                let _ = file.append(name.as_bytes(), name.as_bytes(), 0);
            }
            let mut file = file.finish().unwrap();
            tar(&file);
            web_dataset(&file);
            for (i, byte) in flips.iter().enumerate().take(20) {
                let at = 2 + (i * 97 + usize::from(*byte) * 31) % (file.len() - 2);
                file[at] = *byte;
            }
            tar(&file);
            web_dataset(&file);
        }
    }
}
