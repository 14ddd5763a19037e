#![allow(clippy::unwrap_used)]

use super::{BinaryReader, Row, RowReader, write_row};
use crate::column_type::ColumnType;
use crate::plan::CopyFormat;
use proptest::prelude::*;

fn row(fields: &[Option<&str>]) -> Row {
    fields.iter().map(|field| field.map(str::to_owned)).collect()
}

fn read(
    format: &CopyFormat,
    columns: usize,
    stream: &[u8],
    piece: usize,
) -> Result<Vec<Row>, crate::SqlError> {
    let names = (1..=columns).map(|number| format!("c{number}")).collect();
    let mut reader = RowReader::new(format.clone(), "t".into(), names);
    let mut rows = Vec::new();
    for piece in stream.chunks(piece) {
        rows.extend(reader.read(piece)?.into_iter().map(|line| line.row));
    }
    rows.extend(reader.finish()?.map(|line| line.row));
    Ok(rows)
}

#[test]
fn rows_are_read_as_postgresql_reads_them_however_the_stream_is_cut() {
    let csv = CopyFormat { header: true, ..CopyFormat::csv() };
    let odd =
        CopyFormat { delimiter: b';', quote: b'\'', escape: b'\\', null: "nil".into(), ..CopyFormat::csv() };
    for (format, columns, stream, rows) in [
        (
            CopyFormat::text(),
            2,
            "1\ta\\tb\n\\N\t\\\\N\r\n\\x41\\101\\0\tx\\\ny\n\\.\nnot\tread\n",
            vec![
                row(&[Some("1"), Some("a\tb")]),
                row(&[None, Some("\\N")]),
                row(&[Some("AA\0"), Some("x\ny")]),
            ],
        ),
        (
            csv,
            3,
            "a,b,c\n1,,\"\"\r\n\"x,\"\"y\"\"\n\",2,3\n4,5,6",
            vec![
                row(&[Some("1"), None, Some("")]),
                row(&[Some("x,\"y\"\n"), Some("2"), Some("3")]),
                row(&[Some("4"), Some("5"), Some("6")]),
            ],
        ),
        (odd, 2, "'it\\'s\n';nil\n", vec![row(&[Some("it's\n"), None])]),
    ] {
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(read(&format, columns, stream.as_bytes(), piece).unwrap(), rows, "pieces of {piece}");
        }
    }
}

#[test]
fn a_wrong_row_is_an_error_with_its_line() {
    for (format, stream, message, line) in [
        (CopyFormat::text(), &b"1\t2\n3\n"[..], "missing data for column \"c2\"", "2: \"3\""),
        (CopyFormat::csv(), b"1,2\n3,4,5\n", "extra data", "2: \"3,4,5\""),
        (CopyFormat::csv(), b"1,\"a\nb\"\n3\n", "missing data for column \"c2\"", "2: \"3\""),
        (CopyFormat::csv(), b"1,2\n1,\"a\nb\"\n3\n", "missing data for column \"c2\"", "4: \"3\""),
        (CopyFormat::csv(), b"1,\"2\n", "unterminated", "1: \"1,\"2\n\""),
        (CopyFormat::text(), b"1\t\xff\n", "invalid byte sequence", "1"),
    ] {
        let error = read(&format, 2, stream, 100).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        assert_eq!(error.context, Some(format!("COPY t, line {line}").into()));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec(prop::collection::vec(prop::option::of("[a\\\\,;'\"\n\r\tNé. ]{0,6}"), 3), 0..5),
        csv: bool,
        piece in 1_usize..20,
    ) {
        let format = if csv { CopyFormat::csv() } else { CopyFormat::text() };
        let stream: Vec<u8> = rows
            .iter()
            .flat_map(|row| write_row(&format, &row.iter().map(Option::as_deref).collect::<Vec<_>>()))
            .collect();
        prop_assert_eq!(read(&format, 3, &stream, piece).unwrap(), rows);
    }
}

#[test]
fn rows_in_binary_are_read_however_the_stream_is_cut() {
    let mut stream = Vec::new();
    super::write_header(&mut stream);
    for row in
        [&[0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 3, 1, 2, 3][..], &[0, 2, 255, 255, 255, 255, 0, 0, 0, 0]]
    {
        stream.extend_from_slice(row);
    }
    super::write_end(&mut stream);
    for piece in 1..=stream.len() {
        let kinds = vec![Some(ColumnType::Integer), None];
        let mut reader = BinaryReader::new("t".into(), vec!["a".into(), "b".into()], kinds);
        let mut lines = Vec::new();
        for piece in stream.chunks(piece) {
            lines.extend(reader.read(piece).unwrap());
        }
        reader.finish().unwrap();
        let rows: Vec<_> = lines.into_iter().map(|line| (line.number, line.row, line.sent)).collect();
        let first = (1, row(&[Some("7"), None]), vec![None, Some(vec![1, 2, 3])]);
        assert_eq!(rows, [first, (2, row(&[None, None]), vec![None, Some(Vec::new())])], "{piece}");
        assert_eq!(reader.held_bytes(), 0);
    }
}
