//! Tests of the csv format: Flink's rules case by case, blocks cut anywhere, and the way back.

use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::types::{Field, RowField, RowKinds, Schema};

fn nullable(root: TypeRoot) -> LogicalType {
    LogicalType::nullable(root)
}

fn context(columns: &[(&str, LogicalType)], options: &[(&str, &str)]) -> FormatContext {
    FormatContext {
        table: "t".to_string(),
        physical: Schema::new(
            columns
                .iter()
                .map(|(name, logical_type)| Field::new(*name, logical_type.clone()))
                .collect(),
        ),
        projection: (0..columns.len()).collect(),
        options: options
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        time_zone: "UTC".to_string(),
    }
}

fn rows(decoder: &mut CsvDecoder) -> Vec<String> {
    let batch = decoder.finish().unwrap().0;
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<_> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            cells.join("|")
        })
        .collect()
}

fn decode(context: &FormatContext, messages: &[&str]) -> Result<Vec<String>> {
    let mut decoder = CsvDecoder::new(context)?;
    for message in messages {
        decoder.decode_message(message.as_bytes())?;
    }
    Ok(rows(&mut decoder))
}

fn check(
    columns: &[(&str, LogicalType)],
    options: &[(&str, &str)],
    messages: &[&str],
    expected: &[&str],
) {
    assert_eq!(
        decode(&context(columns, options), messages).unwrap(),
        expected
    );
}

fn error(columns: &[(&str, LogicalType)], options: &[(&str, &str)], message: &str) -> String {
    decode(&context(columns, options), &[message])
        .unwrap_err()
        .to_string()
}

const LENIENT: (&str, &str) = ("csv.ignore-parse-errors", "true");

fn text_and_int() -> [(&'static str, LogicalType); 2] {
    [("s", LogicalType::STRING), ("i", LogicalType::INT)]
}

#[test]
fn an_empty_numeric_field_is_an_error() {
    let error = error(&text_and_int(), &[], "x,");
    assert!(
        error.contains("table \"t\": column \"i\": cannot read empty text as INT"),
        "{error}"
    );
    check(&text_and_int(), &[LENIENT], &["x,"], &["x|null"]);
    check(
        &text_and_int(),
        &[("csv.null-literal", "")],
        &["x,"],
        &["x|null"],
    );
    check(
        &text_and_int(),
        &[("csv.empty-string-as-null", "true")],
        &[","],
        &["null|null"],
    );
}

#[test]
fn quotes_hold_delimiters_line_ends_and_quotes() {
    check(
        &text_and_int(),
        &[],
        &[
            "\"a,b\",1",
            "\"line\nbreak\",2",
            "\"do\"\"uble\",3",
            "in\"side,4",
            "\"\", 5 ",
        ],
        &["a,b|1", "line\nbreak|2", "do\"uble|3", "in\"side|4", "|5"],
    );
    let junk = error(&text_and_int(), &[], "\"a\"b,1");
    assert!(
        junk.contains("closing quote") && junk.contains("\"a\"b,1"),
        "{junk}"
    );
    let open = error(&text_and_int(), &[], "\"a,1");
    assert!(open.contains("a quote is not closed"), "{open}");
    check(
        &text_and_int(),
        &[LENIENT],
        &["\"a\"b,1", "\"a,1", "c,2"],
        &["c|2"],
    );
    let single = [("csv.quote-character", "'"), ("csv.field-delimiter", "\\t")];
    check(&text_and_int(), &single, &["'a\tb'\t1"], &["a\tb|1"]);
    let none = [("csv.disable-quote-character", "true")];
    check(&text_and_int(), &none, &["\"a\",1"], &["\"a\"|1"]);
}

#[test]
fn escapes_take_the_meaning_away() {
    let escape = [("csv.escape-character", "\\")];
    check(
        &text_and_int(),
        &escape,
        &["a\\,b,1", "\"q\\\"\\\\\",2", "t\\n,3"],
        &["a,b|1", "q\"\\|2", "t\n|3"],
    );
}

#[test]
fn dates_are_lenient_and_times_follow_their_precision() {
    check(
        &[("d", nullable(TypeRoot::Date)), ("i", LogicalType::INT)],
        &[],
        &["2020-1-2,1", "2020-02-31,2"],
        &["2020-01-02|1", "2020-03-02|2"],
    );
    check(
        &[
            ("t", nullable(TypeRoot::Time(1))),
            ("ts", nullable(TypeRoot::Timestamp(3))),
            ("tz", nullable(TypeRoot::TimestampLtz(3))),
        ],
        &[],
        &[
            "01:02:03.456, 2020-01-02 03:04:05.6 ,2020-01-02 03:04:05Z",
            "01:02,1969-12-31 23:59:59,1970-01-01 00:00:00Z",
        ],
        &[
            "01:02:03.400|2020-01-02T03:04:05.600|2020-01-02T03:04:05Z",
            "01:02:00|1969-12-31T23:59:59|1970-01-01T00:00:00Z",
        ],
    );
    let time = error(&[("t", nullable(TypeRoot::Time(6)))], &[], "");
    assert!(time.contains("TIME(6)"), "{time}");
}

#[test]
fn a_message_holds_one_record() {
    check(
        &text_and_int(),
        &[],
        &["x,1\ny,2", "", "z,3\r\n"],
        &["x|1", "z|3"],
    );
    let blank = error(&text_and_int(), &[], "\nx,1");
    assert!(
        blank.contains("1 fields where the table has 2 columns"),
        "{blank}"
    );
}

#[test]
fn records_may_be_short_or_long_when_lenient() {
    check(
        &text_and_int(),
        &[LENIENT],
        &["a", "b,1,2", "c,3,", "d,x"],
        &["a|null", "c|3", "d|null"],
    );
    check(
        &text_and_int(),
        &[("csv.ignore-trailing-unmappable", "true")],
        &["b,1,2,3"],
        &["b|1"],
    );
    assert!(
        error(
            &text_and_int(),
            &[("csv.allow-trailing-comma", "false")],
            "b,1,"
        )
        .contains("3 fields")
    );
}

#[test]
fn the_null_literal_is_null_everywhere() {
    let array = nullable(TypeRoot::Array(Box::new(LogicalType::INT)));
    check(
        &[
            ("s", LogicalType::STRING),
            ("i", LogicalType::INT),
            ("a", array),
        ],
        &[("csv.null-literal", "N/A")],
        &["N/A,N/A,N/A", "x,1,1;N/A;3", "y,2,"],
        &["null|null|null", "x|1|[1, null, 3]", "y|2|[]"],
    );
}

#[test]
fn rows_and_arrays_are_lists_in_a_field() {
    let row = nullable(TypeRoot::Row(vec![
        RowField {
            name: "x".into(),
            logical_type: LogicalType::INT,
        },
        RowField {
            name: "y".into(),
            logical_type: LogicalType::STRING,
        },
    ]));
    let columns = [("r", row), ("b", LogicalType::BOOLEAN)];
    let bars = [("csv.array-element-delimiter", "||")];
    check(
        &columns,
        &bars,
        &["1||a,TRUE", "2||b;c,no"],
        &["{x: 1, y: a}|true", "{x: 2, y: b;c}|false"],
    );
    assert!(error(&columns, &bars, "1,true").contains("column \"r\": cannot read '1' as ROW"));
    check(
        &columns,
        &[LENIENT],
        &["z,true"],
        &["{x: null, y: null}|true"],
    );
}

#[test]
fn maps_and_long_delimiters_are_refused() {
    let map = nullable(TypeRoot::Map(
        Box::new(LogicalType::STRING),
        Box::new(LogicalType::INT),
    ));
    assert!(
        error(&[("m", map)], &[], "")
            .contains("column \"m\": MAP<STRING, INT> in CSV is not supported")
    );
    assert!(
        error(&text_and_int(), &[("csv.field-delimiter", "ab")], "")
            .contains("one ASCII character")
    );
}

#[test]
fn a_projection_goes_by_position() {
    let mut context = context(
        &[
            ("a", LogicalType::INT),
            ("b", LogicalType::INT),
            ("c", LogicalType::STRING),
        ],
        &[],
    );
    context.projection = vec![2, 0];
    assert_eq!(decode(&context, &["1,x,z"]).unwrap(), ["z|1"]);
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
    let mut decoder = CsvDecoder::new(&context(&text_and_int(), &[])).unwrap();
    let error = decoder.decode_message(b"\xff,1").unwrap_err().to_string();
    assert!(error.contains("column \"s\""), "{error}");
}

#[test]
fn blocks_may_be_cut_anywhere() {
    let text = "s,\"i\nx\"\r\n# note\na,1\n\"b\n\"\"c\",2\r\n#x\n\n\"d,\" ,3\ne,4";
    let options = [
        ("csv.ignore-first-line", "true"),
        ("csv.allow-comments", "true"),
        LENIENT,
    ];
    let context = context(&text_and_int(), &options);
    let expected = ["a|1", "b\n\"c|2", "|null", "d,|3", "e|4"];
    for text in [text.to_string(), format!("{text}\n")] {
        for cut in 0..=text.len() {
            for max_rows in [1, 100] {
                let mut decoder = CsvDecoder::new(&context).unwrap();
                decoder.begin_file();
                let (mut from, mut to, mut lines, mut found) = (0, cut, 0, Vec::new());
                loop {
                    let mut block = text.as_bytes()[from..to].to_vec();
                    let is_last = to == text.len();
                    let done = decoder.decode_block(&mut block, is_last, max_rows).unwrap();
                    from += done.bytes;
                    lines += done.lines;
                    found.extend(rows(&mut decoder));
                    if done.bytes == 0 {
                        if is_last {
                            break;
                        }
                        to = text.len();
                    }
                }
                assert_eq!(found, expected, "cut at {cut}, {max_rows} rows a call");
                assert_eq!((from, lines), (text.len(), 10), "cut at {cut}");
            }
        }
    }
}

#[test]
fn an_error_in_a_block_knows_its_line() {
    let mut decoder = CsvDecoder::new(&context(&text_and_int(), &[])).unwrap();
    let mut block = b"\"a\nb\",1\nc,2\nd,x\n".to_vec();
    decoder.decode_block(&mut block, true, 100).unwrap_err();
    assert_eq!((decoder.lines_before_error(), decoder.rows()), (3, 2));
}

#[test]
fn what_is_written_is_quoted_as_by_jackson_and_read_again() {
    let array = nullable(TypeRoot::Array(Box::new(LogicalType::STRING)));
    let columns = [
        ("s", LogicalType::STRING),
        ("d", nullable(TypeRoot::Double)),
        (
            "de",
            nullable(TypeRoot::Decimal {
                precision: 10,
                scale: 2,
            }),
        ),
        ("da", nullable(TypeRoot::Date)),
        ("ts", nullable(TypeRoot::Timestamp(3))),
        ("b", nullable(TypeRoot::BYTES)),
        ("a", array),
        ("bo", LogicalType::BOOLEAN),
    ];
    let context = context(&columns, &[("csv.null-literal", "-")]);
    let lines = [
        "plain,1.0E10,12.50,2020-01-02,\"2020-01-02 03:04:05.6\",aGk=,a;b,true",
        "\"a \"\"b\"\"\",NaN,-0.10,1969-12-31,\"1969-12-31 23:59:59.999\",-,\"-;,\",false",
        "a-text-of-24-characters-,-,-,-,-,-,-,-",
        "\"a-text-of-25-characters--\",-,-,-,-,-,-,-",
    ];
    let mut decoder = CsvDecoder::new(&context).unwrap();
    for line in lines {
        decoder.decode_message(line.as_bytes()).unwrap();
    }
    let (batch, kinds) = decoder.finish().unwrap();
    let mut out = Vec::new();
    CsvEncoder::new(&context)
        .unwrap()
        .encode(&batch, &kinds, &mut out)
        .unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!("{}\n", lines.join("\n"))
    );
    assert!(kinds == RowKinds::INSERT_ONLY);
}
