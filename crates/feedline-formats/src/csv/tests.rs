//! All of it together.

use super::*;
use crate::records::{Cut, Records, collect};
use feedline_io::Buf;
use proptest::prelude::*;
use std::ops::Range;

/// Cells as text, for comparisons.
#[derive(Default)]
struct Shown {
    record: Vec<u8>,
    cells: Vec<String>,
    types: Vec<Type>,
}
impl Sink for Shown {
    fn number<const N: usize>(&mut self, column: usize, bytes: [u8; N]) {
        self.cells[column] = match self.types[column] {
            Type::Int32 => i32::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
            Type::Int64 => i64::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
            Type::Float32 => f32::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
            Type::Float64 => f64::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
            Type::String => unreachable!(),
        };
    }
    fn view(&mut self, column: usize, range: Range<usize>) {
        self.cells[column] = String::from_utf8_lossy(&self.record[range]).into();
    }
    fn copy(&mut self, column: usize, text: &[u8]) {
        self.cells[column] = String::from_utf8_lossy(text).into();
    }
}

#[test]
fn a_line_end_cut_in_two_makes_no_record_too_long() {
    for block in [1, 4, 5, 6, 100] {
        let mut rows = Rows::new(Dialect::default(), false).max_bytes(4);
        let all = collect(&mut rows, b"1234\r\n12345\r\nx\r\n".chunks(block));
        assert!(matches!(&all[..], [Ok(a), Err(_), Ok(b)] if a == b"1234" && b == b"x"), "{block}: {all:?}");
    }
}

#[test]
fn a_file_with_another_header_is_not_resumed_behind_it() {
    let mut rows = Rows::new(Dialect::default(), true).named(Some(vec!["a".to_string()].into()));
    rows.feed(Buf::copied(b"x\n1\n"));
    assert!(matches!(rows.cut(9, &mut crate::records::Copies::default()), Cut::Fail(_)));
    assert_eq!(rows.place(), None);
}

fn required(types: &[Type]) -> Vec<Column> {
    types.iter().map(|ty| Column { name: String::new(), ty: *ty, default: Fill::Required }).collect()
}
fn parse(schema: &Schema, record: &str) -> std::result::Result<Vec<String>, String> {
    let types = schema.columns().iter().map(|c| c.ty).collect();
    let cells = vec![String::new(); schema.columns().len()];
    let mut sink = Shown { record: record.into(), cells, types };
    Parser::new(schema).row(record.as_bytes(), &mut sink).map_err(|e| e.to_string())?;
    Ok(sink.cells)
}
fn schema(types: &[Type]) -> Schema {
    Schema::new(Dialect::default(), required(types), None, vec![]).unwrap()
}
fn rows(text: &[u8], header: bool, block: usize) -> Vec<std::result::Result<String, String>> {
    let mut rows = Rows::new(Dialect::default(), header);
    let all = collect(&mut rows, text.chunks(block)).into_iter();
    all.map(|r| r.map(|r| String::from_utf8(r).unwrap()).map_err(|e| e.to_string())).collect()
}

#[test]
fn records_end_at_line_ends_outside_of_quotes() {
    let text = b"1,\"a\nb\",c\r\n\n\"x\"\"\n\",y\rz\"q\nlast";
    for block in 1..text.len() {
        let all: Vec<String> = rows(text, false, block).into_iter().map(|r| r.unwrap()).collect();
        assert_eq!(all, ["1,\"a\nb\",c", "", "\"x\"\"\n\",y", "z\"q", "last"], "blocks of {block}");
    }
}

#[test]
fn headers_are_passed_over_and_missed() {
    assert_eq!(rows(b"a,\"b\nc\"\n1,2\n", true, 3), [Ok("1,2".into())]);
    assert!(rows(b"", true, 3)[0].as_ref().unwrap_err().contains("header"));
    assert_eq!(rows(b"a", true, 3), []);
}

#[test]
fn a_quote_that_is_never_closed_costs_one_record() {
    for block in [1, 4, 100] {
        let mut reader = Rows::new(Dialect::default(), false).max_bytes(6);
        let all = collect(&mut reader, b"a\n\"bcdefgh\nij\nk\n".chunks(block));
        let error = all[1].as_ref().unwrap_err();
        assert!(error.message().contains("longer than 6 bytes") && error.at().byte == Some(2), "{error}");
        let rest: Vec<_> = all[2..].iter().map(|r| r.as_ref().unwrap().as_slice()).collect();
        assert_eq!(rest, [&b"ij"[..], b"k"]);
    }
}

#[test]
fn cells_have_types() {
    use Type::*;
    let s = schema(&[Int32, Float32, String]);
    assert_eq!(parse(&s, "1,2.5,a").unwrap(), ["1", "2.5", "a"]);
    assert_eq!(parse(&s, " 1 , 2.5 , a ").unwrap(), ["1", "2.5", " a "]);
    assert_eq!(parse(&s, "-7,1e3,\"a\"\"b,\"").unwrap(), ["-7", "1000", "a\"b,"]);
    assert_eq!(parse(&s, "\"3\",-inf,x").unwrap(), ["3", "-inf", "x"]);
    let s = schema(&[Int64, Float64]);
    assert_eq!(parse(&s, "-9223372036854775808,0.1").unwrap(), ["-9223372036854775808", "0.1"]);
    assert_eq!(parse(&s, "000000000000000000000000012,nan").unwrap(), ["12", "NaN"]);
    assert!(parse(&s, "9223372036854775808,1").unwrap_err().contains("beyond what an int64"));
    assert!(parse(&s, "99999999999999999999999,1").unwrap_err().contains("beyond what an int64"));
}

#[test]
fn errors_say_which_field_and_why() {
    use Type::*;
    let s = schema(&[Int32, Float32, String]);
    for (record, message) in [
        ("1,2.5", "has 2 fields, 3 are expected"),
        ("1,2.5,a,b", "has 4 fields, 3 are expected"),
        (",2.5,a", "field 0 is empty"),
        ("1,2.5,", "field 2 is empty"),
        ("", "field 0 is empty"),
        ("x,2.5,a", "field 0 is \"x\", not an int32"),
        ("1.5,2.5,a", "not an int32"),
        ("99999999999,2.5,a", "read it as int64"),
        ("1,2.5.1,a", "field 1 is \"2.5.1\", not a float32"),
        ("1,2.5,a\"b", "field 2 has a quote inside"),
        ("1,2.5,\"ab", "never closed"),
        ("1,2.5,\"a\"b", "after its closing quote"),
        ("1,2.5,a\nb", "line end inside"),
    ] {
        assert!(parse(&s, record).unwrap_err().contains(message), "{record}: {:?}", parse(&s, record));
    }
    let named = vec![Column { name: "age".into(), ty: Int32, default: Fill::Required }];
    let s = Schema::new(Dialect::default(), named, Some(vec![2]), vec![]).unwrap();
    assert!(parse(&s, "1,2,x").unwrap_err().contains("field 2 (\"age\")"));
    assert!(parse(&s, "1,2").unwrap_err().contains("has 2 fields, and field 2 is wanted"));
    assert_eq!(parse(&s, "1,2,3,4").unwrap(), ["3"]);
}

#[test]
fn defaults_stand_in() {
    let columns = vec![
        Column { name: String::new(), ty: Type::Int32, default: Fill::Int(9) },
        Column { name: String::new(), ty: Type::Float64, default: Fill::Float(1.5) },
        Column { name: String::new(), ty: Type::String, default: Fill::Text(b"dd".to_vec()) },
    ];
    let s = Schema::new(Dialect::default(), columns, None, b"NA".to_vec()).unwrap();
    assert_eq!(parse(&s, ",,").unwrap(), ["9", "1.5", "dd"]);
    assert_eq!(parse(&s, "NA,NA,NA").unwrap(), ["9", "1.5", "dd"]);
    assert!(parse(&s, "").unwrap_err().contains("has 1 fields"));
    let s = Schema::new(Dialect::default(), s.columns()[..1].to_vec(), None, vec![]).unwrap();
    assert_eq!(parse(&s, "").unwrap(), ["9"]);
    assert!(parse(&s.blank_has_no_field(), "").unwrap_err().contains("has 0 fields"));
}

#[test]
fn wrong_parameters_are_refused() {
    assert!(Dialect::new(",,", true).is_err() && Dialect::new("", true).is_err() && Dialect::new("é", true).is_err());
    let columns = || required(&[Type::String, Type::String]);
    for select in [vec![1, 0], vec![0, 0], vec![0], vec![-1, 0]] {
        assert!(Schema::new(Dialect::default(), columns(), Some(select), vec![]).is_err());
    }
}

#[test]
fn texts_that_numbers_do_not_keep_are_text() {
    for (text, looks) in [
        ("", Looks::Empty),
        ("7", Looks::Int),
        ("-12", Looks::Int),
        (" 3 ", Looks::Int),
        ("0", Looks::Int),
        ("-0", Looks::Float),
        ("9007199254740993", Looks::LongInt),
        ("9223372036854775808", Looks::Text),
        ("007", Looks::Text),
        ("+1", Looks::Text),
        ("-01.5", Looks::Text),
        ("0.5", Looks::Float),
        ("1e3", Looks::Float),
        ("1e999", Looks::Text),
        ("nan", Looks::NotFinite),
        ("-inf", Looks::NotFinite),
        ("x", Looks::Text),
    ] {
        assert_eq!(Looks::of(text.as_bytes()), looks, "{text}");
    }
    let s = schema(&[Type::Int64, Type::Float64]).exact();
    assert_eq!(parse(&s, "7,-0").unwrap(), ["7", "-0"]);
    for bad in ["007,1", "+7,1", "-0,1", "7,+1", "7,01", "7,9007199254740993", "7,99999999999999999999"] {
        assert!(parse(&s, bad).unwrap_err().contains("would not stay so"), "{bad}");
    }
}

#[test]
fn columns_only_widen() {
    let mut found = Inference::new(5);
    for row in [["1", "99999999999", "1.5", "x", ""], ["2", "3", "4", "5", ""], ["", "1e300", "nan", "", ""]] {
        found.row(&row.map(|t| t.as_bytes().to_vec()), b"").unwrap();
    }
    assert_eq!(found.types(), [Type::Int32, Type::Float64, Type::Float32, Type::String, Type::String]);
    assert!(found.row(&[vec![]], b"").is_err());
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        table in prop::collection::vec(prop::collection::vec("[ab,\"\n\r ]{0,6}", 3), 1..6),
        block in 1usize..20,
    ) {
        let mut ours = Writer::default();
        let mut theirs = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(vec![]);
        for row in &table {
            row.iter().for_each(|f| ours.text(f.as_bytes()).unwrap());
            ours.end_row();
            theirs.write_record(row).unwrap();
        }
        for bytes in [ours.take(), theirs.into_inner().unwrap()] {
            let read: Vec<Vec<String>> = csv::ReaderBuilder::new().has_headers(false).from_reader(&bytes[..])
                .records().map(|r| r.unwrap().iter().map(String::from).collect()).collect();
            prop_assert_eq!(&read, &table);
            let records = collect(&mut Rows::new(Dialect::default(), false), bytes.chunks(block));
            let ours: Vec<Vec<String>> = records.into_iter().map(|r| {
                let texts = texts(&r.unwrap(), Dialect::default()).unwrap();
                texts.into_iter().map(|t| String::from_utf8(t).unwrap()).collect()
            }).collect();
            prop_assert_eq!(&ours, &table);
        }
    }

    #[test]
    fn any_block_size_gives_the_same(text in "[a,\"\n\r]{0,30}", block in 1usize..12, quotes: bool) {
        let dialect = Dialect { quotes, ..Dialect::default() };
        let read = |block| -> Vec<std::result::Result<Vec<u8>, String>> {
            let all = collect(&mut Rows::new(dialect, false), text.as_bytes().chunks(block));
            all.into_iter().map(|r| r.map_err(|e| e.to_string())).collect()
        };
        prop_assert_eq!(read(block), read(1000));
    }

    #[test]
    fn numbers_are_rusts(n: i64, x: f32, y: f64) {
        let s = schema(&[Type::Int64, Type::Float32, Type::Float64]);
        let mut w = Writer::default();
        w.number(n);
        w.number(x);
        w.number(y);
        let text = String::from_utf8(w.take()).unwrap();
        prop_assert_eq!(parse(&s, &text).unwrap(), [n.to_string(), x.to_string(), y.to_string()]);
    }
}
