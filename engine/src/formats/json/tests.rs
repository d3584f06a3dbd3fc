//! Tests of the json format: Flink's rules case by case, the two readers against each other, blocks cut anywhere.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::tolerant::append_document;
use super::*;
use crate::formats::columns::Column;
use crate::types::{Field, RowField, RowKinds, Schema};

fn nullable(root: TypeRoot) -> LogicalType {
    LogicalType::nullable(root)
}

fn decimal(precision: u8, scale: u8) -> LogicalType {
    nullable(TypeRoot::Decimal { precision, scale })
}

fn array(element: LogicalType) -> LogicalType {
    nullable(TypeRoot::Array(Box::new(element)))
}

fn map_of(value: LogicalType) -> LogicalType {
    nullable(TypeRoot::Map(
        Box::new(LogicalType::STRING),
        Box::new(value),
    ))
}

fn row_of(fields: &[(&str, LogicalType)]) -> LogicalType {
    nullable(TypeRoot::Row(
        fields
            .iter()
            .map(|(name, logical_type)| RowField {
                name: name.to_string(),
                logical_type: logical_type.clone(),
            })
            .collect(),
    ))
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
            .collect::<BTreeMap<_, _>>(),
        time_zone: "UTC".to_string(),
    }
}

/// The rows of a batch, cells by `|`.
fn rows_of(batch: &RecordBatch) -> Vec<String> {
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
    let mut decoder = JsonDecoder::new(context)?;
    for message in messages {
        decoder.decode_message(message.as_bytes())?;
    }
    Ok(rows_of(&decoder.finish()?.0))
}

/// Decodes the messages one by one, and again as the lines of a file.
fn check(
    columns: &[(&str, LogicalType)],
    options: &[(&str, &str)],
    messages: &[&str],
    expected: &[&str],
) {
    let context = context(columns, options);
    assert_eq!(decode(&context, messages).unwrap(), expected);
    if messages.iter().all(|message| !message.contains('\n')) {
        let mut block = messages.join("\n").into_bytes();
        let mut decoder = JsonDecoder::new(&context).unwrap();
        let done = decoder.decode_block(&mut block, true, usize::MAX).unwrap();
        assert_eq!(done.bytes, block.len());
        assert_eq!(rows_of(&decoder.finish().unwrap().0), expected, "as a file");
    }
}

fn error(columns: &[(&str, LogicalType)], options: &[(&str, &str)], message: &str) -> String {
    decode(&context(columns, options), &[message])
        .unwrap_err()
        .to_string()
}

const LENIENT: (&str, &str) = ("json.ignore-parse-errors", "true");
const ISO: (&str, &str) = ("json.timestamp-format.standard", "ISO-8601");

#[test]
fn missing_fields_and_nulls_are_null() {
    check(
        &[("a", LogicalType::INT), ("s", LogicalType::STRING)],
        &[],
        &[
            "{}",
            r#"{"a":null,"s":null}"#,
            r#"{"a":1,"s":"null"}"#,
            r#" { "s" : "x" , "a" : 2 } "#,
        ],
        &["null|null", "null|null", "1|null", "2|x"],
    );
    let strict = [("json.fail-on-missing-field", "true")];
    let missing = error(&[("a", LogicalType::INT)], &strict, r#"{"b":1}"#);
    assert!(
        missing.contains("table \"t\": field \"a\" of type INT is missing"),
        "{missing}"
    );
}

#[test]
fn numbers_as_text_are_trimmed_and_parsed() {
    check(
        &[("i", LogicalType::INT), ("f", LogicalType::DOUBLE)],
        &[],
        &[
            r#"{"i":" 42 ","f":" 2.5 "}"#,
            r#"{"f":"Infinity"}"#,
            r#"{"f":"NaN"}"#,
            r#"{"i":7.9,"f":3}"#,
        ],
        &["42|2.5", "null|inf", "null|NaN", "7|3.0"],
    );
}

#[test]
fn only_the_bad_field_is_null_when_lenient() {
    check(
        &[("l", LogicalType::BIGINT), ("s", LogicalType::STRING)],
        &[LENIENT],
        &[r#"{"l":18446744073709551616,"s":"keep"}"#, r#"{"l":true}"#],
        &["null|keep", "null|null"],
    );
    let strict = error(
        &[("l", LogicalType::BIGINT)],
        &[],
        r#"{"l":18446744073709551616}"#,
    );
    assert!(
        strict.contains("table \"t\": field \"l\": cannot read 18446744073709551616 as BIGINT"),
        "{strict}"
    );
}

#[test]
fn integers_have_a_range() {
    let columns = [
        ("t", nullable(TypeRoot::TinyInt)),
        ("s", nullable(TypeRoot::SmallInt)),
        ("i", LogicalType::INT),
        ("l", LogicalType::BIGINT),
    ];
    check(
        &columns,
        &[LENIENT],
        &[
            r#"{"t":-128,"s":32767,"i":-2147483648,"l":-9223372036854775808}"#,
            r#"{"t":128,"s":32768,"i":2147483648,"l":9223372036854775807}"#,
            r#"{"t":1.5,"s":1.5,"i":-1.5,"l":1e3}"#,
        ],
        &[
            "-128|32767|-2147483648|-9223372036854775808",
            "null|null|null|9223372036854775807",
            "null|null|-1|1000",
        ],
    );
}

#[test]
fn decimals_are_exact_round_half_up_and_overflow_to_null() {
    check(
        &[("d", decimal(6, 2)), ("w", decimal(38, 18))],
        &[],
        &[
            r#"{"d":1.235,"w":799.929496989092949698}"#,
            r#"{"d":-1.235}"#,
            r#"{"d":12345.6}"#,
            r#"{"d":" 1e2 "}"#,
        ],
        &[
            "1.24|799.929496989092949698",
            "-1.24|null",
            "null|null",
            "100.00|null",
        ],
    );
}

#[test]
fn the_last_of_equal_keys_wins() {
    check(
        &[("a", LogicalType::INT), ("b", LogicalType::INT)],
        &[],
        &[
            r#"{"a":1,"b":2,"a":99}"#,
            r#"{"a":1,"a":2,"b":5}"#,
            r#"{"a":1,"a":2}"#,
        ],
        &["99|2", "2|5", "2|null"],
    );
}

#[test]
fn an_array_of_objects_gives_rows() {
    check(
        &[("i", LogicalType::INT)],
        &[],
        &[r#"[{"i":1},{"i":2}]"#, "[]", "null", r#"{"i":3}"#],
        &["1", "2", "3"],
    );
    check(
        &[("i", LogicalType::INT)],
        &[LENIENT],
        &[r#"[{"i":1},5,{"i":3}]"#],
        &["1", "3"],
    );
    let mut decoder = JsonDecoder::new(&context(&[("i", LogicalType::INT)], &[])).unwrap();
    let error = decoder
        .decode_message(br#"[{"i":1},5,{"i":3}]"#)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("table \"t\": element 2 of the JSON array is not an object but 5"),
        "{error}"
    );
    assert_eq!(decoder.rows(), 0, "nothing is emitted for the bad message");
}

#[test]
fn strings_hold_control_characters_and_escapes() {
    check(
        &[("s", LogicalType::STRING)],
        &[],
        &["{\"s\":\"a\tb\"}", r#"{"s":"\u00e9\ud83d\ude00\"\\"}"#],
        &["a\tb", "é😀\"\\"],
    );
}

#[test]
fn field_names_are_case_sensitive() {
    check(
        &[("id", LogicalType::INT)],
        &[],
        &[r#"{"ID":1}"#, r#"{"id":2}"#, r#"{"\u0069d":3}"#],
        &["null", "2", "3"],
    );
}

#[test]
fn what_is_no_json_is_skipped_when_lenient() {
    check(
        &[("f", LogicalType::DOUBLE), ("i", LogicalType::INT)],
        &[LENIENT],
        &[
            r#"{"f":NaN,"i":1}"#,
            r#"{"f":"NaN","i":2}"#,
            r#"{"f":01,"i":3}"#,
            r#"{"f":1"#,
            r#"{"i":4,"x":[1 2]}"#,
            r#"{"i":5,"x":+1}"#,
            r#"{"i":6} trailing"#,
            "5",
        ],
        &["NaN|2", "null|6"],
    );
    let no_json = error(&[("f", LogicalType::DOUBLE)], &[], r#"{"f":NaN}"#);
    assert!(
        no_json.contains(r#"table "t": NaN is no JSON value in the JSON document {"f":NaN}"#),
        "{no_json}"
    );
    let cut = error(&[("f", LogicalType::DOUBLE)], &[], r#"{"f":1"#);
    assert!(
        cut.contains("the end where ',' or '}' should stand"),
        "{cut}"
    );
    let number = error(&[("f", LogicalType::DOUBLE)], &[], "5");
    assert!(number.contains("is not an object but 5"), "{number}");
    let mut decoder = JsonDecoder::new(&context(&[("s", LogicalType::STRING)], &[])).unwrap();
    let bytes = decoder.decode_message(b"{\"s\":\"\xff\"}").unwrap_err();
    assert!(bytes.to_string().contains("byte 7 is not UTF-8"), "{bytes}");
}

#[test]
fn a_byte_order_mark_is_skipped_and_so_are_blank_messages() {
    check(
        &[("i", LogicalType::INT)],
        &[],
        &["\u{feff}{\"i\":1}", "", "   ", r#"{"i":2}"#],
        &["1", "2"],
    );
}

#[test]
fn timestamps_follow_the_standard() {
    let ts = nullable(TypeRoot::Timestamp(3));
    let ltz = nullable(TypeRoot::TimestampLtz(3));
    check(
        &[("ts", ts.clone())],
        &[LENIENT, ISO],
        &[
            r#"{"ts":"2020-01-02T03:04:05.678"}"#,
            r#"{"ts":"2020-01-02T03:04"}"#,
            r#"{"ts":"2020-01-02 03:04:05"}"#,
        ],
        &["2020-01-02T03:04:05.678", "2020-01-02T03:04:00", "null"],
    );
    check(
        &[("ts", ltz.clone())],
        &[LENIENT, ISO],
        &[
            r#"{"ts":"2020-01-02T03:04:05Z"}"#,
            r#"{"ts":"2020-01-02T03:04:05"}"#,
            r#"{"ts":"2020-01-02T03:04:05+05:00"}"#,
        ],
        &["2020-01-02T03:04:05Z", "null", "null"],
    );
    check(
        &[("ts", ts), ("z", ltz)],
        &[],
        &[r#"{"ts":"2020-01-02 03:04:05.6789","z":"1969-12-31 23:59:59.9999Z"}"#],
        &["2020-01-02T03:04:05.678|1969-12-31T23:59:59.999Z"],
    );
}

#[test]
fn dates_and_times_are_strict() {
    check(
        &[
            ("d", nullable(TypeRoot::Date)),
            ("t", nullable(TypeRoot::Time(0))),
        ],
        &[LENIENT],
        &[
            r#"{"d":"2020-1-2","t":"1:02:03"}"#,
            r#"{"d":"2020-02-30","t":"01:02"}"#,
            r#"{"d":"2020-02-29","t":"01:02:03.5"}"#,
        ],
        &["null|null", "null|null", "2020-02-29|01:02:03.500"],
    );
}

#[test]
fn booleans_come_from_words() {
    check(
        &[("b", LogicalType::BOOLEAN)],
        &[],
        &[
            r#"{"b":true}"#,
            r#"{"b":" TRUE "}"#,
            r#"{"b":"yes"}"#,
            r#"{"b":1}"#,
        ],
        &["true", "true", "false", "false"],
    );
}

#[test]
fn anything_fits_into_a_string() {
    check(
        &[("s", LogicalType::STRING)],
        &[],
        &[
            r#"{"s":1.50}"#,
            r#"{"s":true}"#,
            r#"{"s":{ "a" : [1, "x\n"], "b": null}}"#,
            r#"{"s":[ ]}"#,
        ],
        &["1.50", "true", r#"{"a":[1,"x\n"],"b":null}"#, "[]"],
    );
}

#[test]
fn bytes_are_base64() {
    check(
        &[("b", nullable(TypeRoot::BYTES))],
        &[LENIENT],
        &[r#"{"b":"aGk="}"#, r#"{"b":"?"}"#, r#"{"b":1}"#],
        &["6869", "null", "null"],
    );
}

#[test]
fn nested_values_are_read_at_every_level() {
    let columns = [
        (
            "r",
            row_of(&[("x", LogicalType::INT), ("y", array(LogicalType::STRING))]),
        ),
        ("m", map_of(LogicalType::INT)),
        (
            "u",
            nullable(TypeRoot::Multiset(Box::new(LogicalType::STRING))),
        ),
    ];
    check(
        &columns,
        &[],
        &[
            r#"{"r":{"y":["a",null],"x":1,"z":{"q":[1,{}]}},"m":{"k":1,"l":null},"u":{"p":2}}"#,
            r#"{"r":{},"m":{},"u":null}"#,
            r#"{"m":{"k":1,"j":2,"k":3},"r":{"x":1,"x":2}}"#,
        ],
        &[
            "{x: 1, y: [a, null]}|{k: 1, l: null}|{p: 2}",
            "{x: null, y: null}|{}|null",
            "{x: 2, y: null}|{j: 2, k: 3}|null",
        ],
    );
    check(
        &columns,
        &[LENIENT],
        &[r#"{"r":{"x":"?","y":[[],"b"]},"m":{"k":"?"},"u":[]}"#],
        &["{x: null, y: [[], b]}|{k: null}|null"],
    );
    let deep = error(
        &columns,
        &[],
        r#"{"r":{"x":1,"y":["a"]},"m":{"k":{"v":1}}}"#,
    );
    assert!(
        deep.contains(r#"field "m['k']": cannot read {"v":1} as INT"#),
        "{deep}"
    );
}

#[test]
fn maps_need_text_keys_and_options_must_agree() {
    let map = nullable(TypeRoot::Map(
        Box::new(LogicalType::INT),
        Box::new(LogicalType::INT),
    ));
    let keys = error(&[("m", map)], &[], "{}");
    assert!(keys.contains("keys of a map in JSON"), "{keys}");
    let both = [LENIENT, ("json.fail-on-missing-field", "true")];
    let both = error(&[("a", LogicalType::INT)], &both, "{}");
    assert!(both.contains("cannot both be true"), "{both}");
}

#[test]
fn too_deep_nesting_is_an_error_not_a_crash() {
    let deep = format!("{{\"x\":{}", "[".repeat(200_000));
    let error = error(&[("a", LogicalType::INT)], &[], &deep);
    assert!(error.contains("levels of nesting"), "{error}");
}

#[test]
fn a_projection_leaves_fields_unread_in_its_own_order() {
    let mut context = context(
        &[
            ("a", LogicalType::INT),
            ("b", LogicalType::STRING),
            ("c", LogicalType::INT),
        ],
        &[],
    );
    context.projection = vec![2, 0];
    let message = r#"{"a":1,"b":["no text"],"c":3}"#;
    assert_eq!(decode(&context, &[message]).unwrap(), ["3|1"]);
    context.projection = vec![];
    let mut decoder = JsonDecoder::new(&context).unwrap();
    decoder.decode_message(message.as_bytes()).unwrap();
    decoder.decode_message(b"[{},{}]").unwrap();
    assert_eq!(decoder.finish().unwrap().0.num_rows(), 3);
}

/// Lines of all kinds, with what they hold.
const LINES: &str = "{\"a\":1,\"s\":\"x\"}\n\n  {\"s\":\"y\\n\",\"a\":2}\r\n[{\"a\":3},{\"a\":4}]\n{\"a\":\"5\",\"q\":{\"a\":[1,2]}}\n{\"a\":6,\"s\":\"t\tb\"}\n\n{\"a\":7}";

#[test]
fn blocks_may_be_cut_anywhere() {
    let context = context(&[("a", LogicalType::INT), ("s", LogicalType::STRING)], &[]);
    let expected = [
        "1|x", "2|y\n", "3|null", "4|null", "5|null", "6|t\tb", "7|null",
    ];
    for text in [LINES.to_string(), format!("{LINES}\n")] {
        for cut in 0..=text.len() {
            for max_rows in [1, 2, 100] {
                let mut decoder = JsonDecoder::new(&context).unwrap();
                let (mut from, mut to, mut lines, mut rows) = (0, cut, 0, Vec::new());
                loop {
                    let mut block = text.as_bytes()[from..to].to_vec();
                    let is_last = to == text.len();
                    let done = decoder.decode_block(&mut block, is_last, max_rows).unwrap();
                    assert_eq!(block, &text.as_bytes()[from..to], "a block is unchanged");
                    from += done.bytes;
                    lines += done.lines;
                    rows.extend(rows_of(&decoder.finish().unwrap().0));
                    if done.bytes == 0 {
                        if is_last {
                            break;
                        }
                        to = text.len();
                    }
                }
                assert_eq!(rows, expected, "cut at {cut}, {max_rows} rows a call");
                assert_eq!((from, lines), (text.len(), 8));
            }
        }
    }
}

#[test]
fn an_error_in_a_block_knows_its_line() {
    let context = context(&[("a", LogicalType::INT)], &[]);
    for bad in ["{\"a\":\"x\"}", "{\"a\":\"\u{1}\"}", "{\"a\":", "7"] {
        let mut block = format!("{{\"a\":1}}\n\n{{\"a\":2}}\n{bad}\n{{\"a\":3}}\n").into_bytes();
        let mut decoder = JsonDecoder::new(&context).unwrap();
        decoder.decode_block(&mut block, true, 100).unwrap_err();
        assert_eq!(decoder.lines_before_error(), 3, "{bad}");
        assert_eq!(decoder.rows(), 2, "{bad}");
    }
}

/// Random documents, mostly right.
struct Documents(SmallRng);

impl Documents {
    fn value(&mut self, depth: usize) -> String {
        let kinds = if depth > 3 { 12 } else { 16 };
        match self.0.random_range(0..kinds) {
            0 => "null".to_string(),
            1 => "true".to_string(),
            2 => self.0.random_range(-200..200).to_string(),
            3 => self.0.random::<i64>().to_string(),
            4 => format!(
                "{}.{}",
                self.0.random_range(-99..99),
                self.0.random_range(0..999)
            ),
            5 => format!(
                "{}e{}",
                self.0.random_range(1..9),
                self.0.random_range(-9..9)
            ),
            6 => "\"2020-01-02 03:04:05\"".to_string(),
            7 => "\"\\u00e9\\n\\\\ \"".to_string(),
            8 => "\" 12 \"".to_string(),
            9 => "\"é,:{}[]\"".to_string(),
            10 => ["01", "nul", "\"\\x\"", "+1", "1 2", "\"\t\"", "\"x\"y"]
                [self.0.random_range(0..7)]
            .to_string(),
            11 => "\"\"".to_string(),
            12 | 13 => {
                let length = self.0.random_range(0..3);
                let elements: Vec<_> = (0..length).map(|_| self.value(depth + 1)).collect();
                format!("[{}]", elements.join(self.comma()))
            }
            _ => self.object(depth),
        }
    }

    fn comma(&mut self) -> &'static str {
        [",", ",", " , "][self.0.random_range(0..3)]
    }

    fn object(&mut self, depth: usize) -> String {
        let length = self.0.random_range(0..5);
        let fields: Vec<_> = (0..length)
            .map(|_| {
                let key = ["a", "b", "c", "d", "e", "x", "\\u0061"][self.0.random_range(0..7)];
                format!("\"{key}\": {}", self.value(depth + 1))
            })
            .collect();
        format!("{{{}}}", fields.join(self.comma()))
    }
}

#[test]
fn both_readers_agree_on_random_documents() {
    let row = row_of(&[("a", LogicalType::INT), ("b", LogicalType::STRING)]);
    let columns = [
        ("a", LogicalType::BIGINT),
        ("b", array(LogicalType::DOUBLE)),
        ("c", map_of(LogicalType::STRING)),
        ("d", array(row)),
        ("e", nullable(TypeRoot::Timestamp(3))),
    ];
    let strict = [("json.fail-on-missing-field", "true")];
    // Few random documents have all fields.
    for (options, width) in [(&[][..], 5), (&[LENIENT], 5), (&strict, 1)] {
        let columns = &columns[..width];
        let context = context(columns, options);
        let json_options = JsonOptions::new(&context).unwrap();
        let names: Vec<String> = columns.iter().map(|(name, _)| name.to_string()).collect();
        let mut documents = Documents(SmallRng::seed_from_u64(7));
        let mut fine = 0;
        for _ in 0..20_000 {
            let document = documents.object(0);
            let mut fast = JsonDecoder::new(&context).unwrap();
            let fast_result = fast.decode_message(document.as_bytes());
            let mut plain: Vec<Column> = columns
                .iter()
                .map(|(_, logical)| Column::new(logical))
                .collect();
            let slow = append_document(document.as_bytes(), &names, &mut plain, &json_options);
            assert_eq!(fast_result.is_ok(), slow.is_ok(), "{document}");
            let Ok(rows) = slow else {
                continue;
            };
            assert_eq!(fast.rows(), rows, "{document}");
            fine += rows;
            let batch = fast.finish().unwrap().0;
            for (column, expected) in batch.columns().iter().zip(&mut plain) {
                assert_eq!(column, &expected.take().unwrap(), "{document}");
            }
        }
        assert!(fine > 100, "{fine} documents were right");
    }
}

fn all_types() -> Vec<(&'static str, LogicalType)> {
    vec![
        ("bo", LogicalType::BOOLEAN),
        ("ti", nullable(TypeRoot::TinyInt)),
        ("sm", nullable(TypeRoot::SmallInt)),
        ("in", LogicalType::INT),
        ("bi", LogicalType::BIGINT),
        ("fl", nullable(TypeRoot::Float)),
        ("do", LogicalType::DOUBLE),
        ("de", decimal(10, 3)),
        ("st", LogicalType::STRING),
        ("by", nullable(TypeRoot::BYTES)),
        ("da", nullable(TypeRoot::Date)),
        ("tm", nullable(TypeRoot::Time(3))),
        ("ts", nullable(TypeRoot::Timestamp(6))),
        ("tz", nullable(TypeRoot::TimestampLtz(9))),
        ("ar", array(array(LogicalType::INT))),
        ("ma", map_of(LogicalType::DOUBLE)),
        (
            "ro",
            row_of(&[("x", LogicalType::INT), ("y \"q\"", LogicalType::STRING)]),
        ),
        ("id", nullable(TypeRoot::IntervalDayTime)),
        ("iy", nullable(TypeRoot::IntervalYearMonth)),
    ]
}

const ALL_VALUES: &str = r#"{"bo":true,"ti":-1,"sm":2,"in":3,"bi":4,"fl":0.1,"do":1.0E10,"de":12.500,"st":"a\"\n","by":"aGk=","da":"2020-02-29","tm":"01:02:03.4","ts":"2020-01-02 03:04:05.000006","tz":"1969-12-31 23:59:59.999999999Z","ar":[[1,null],[],null],"ma":{"k":"NaN","l":null},"ro":{"x":1,"y \"q\"":null},"id":86400000,"iy":14}"#;

#[test]
fn what_is_encoded_is_what_flink_writes_and_decodes_again() {
    let columns = all_types();
    let empty: Vec<_> = columns
        .iter()
        .map(|(name, _)| format!("\"{name}\":null"))
        .collect();
    let nulls = format!("{{{}}}", empty.join(","));
    for options in [&[][..], &[ISO]] {
        let values = match options {
            [] => ALL_VALUES.to_string(),
            _ => ALL_VALUES
                .replace("2020-01-02 ", "2020-01-02T")
                .replace("31 23", "31T23"),
        };
        let context = context(&columns, options);
        let mut decoder = JsonDecoder::new(&context).unwrap();
        decoder.decode_message(values.as_bytes()).unwrap();
        decoder.decode_message(nulls.as_bytes()).unwrap();
        let (batch, kinds) = decoder.finish().unwrap();
        let mut out = Vec::new();
        let mut encoder = JsonEncoder::new(&context).unwrap();
        encoder.encode(&batch, &kinds, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{values}\n{nulls}\n")
        );
        // A slice has offsets of its own.
        let mut out = Vec::new();
        encoder
            .encode(&batch.slice(1, 1), &kinds, &mut out)
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{nulls}\n"));
    }
}

#[test]
fn the_encoder_obeys_its_options() {
    let columns = [("d", decimal(10, 8)), ("s", LogicalType::STRING)];
    let encode = |options: &[(&str, &str)]| {
        let context = context(&columns, options);
        let mut decoder = JsonDecoder::new(&context).unwrap();
        decoder.decode_message(br#"{"d":"0.00000012"}"#).unwrap();
        let (batch, kinds) = decoder.finish().unwrap();
        let mut out = Vec::new();
        let mut encoder = JsonEncoder::new(&context).unwrap();
        encoder.encode(&batch, &kinds, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(encode(&[]), "{\"d\":1.2E-7,\"s\":null}\n");
    let plain = [
        ("json.encode.decimal-as-plain-number", "true"),
        ("json.encode.ignore-null-fields", "true"),
    ];
    assert_eq!(encode(&plain), "{\"d\":0.00000012}\n");
}

#[test]
fn updates_cannot_be_written() {
    let context = context(&[("i", LogicalType::INT)], &[]);
    let mut decoder = JsonDecoder::new(&context).unwrap();
    decoder.decode_message(br#"{"i":1}"#).unwrap();
    let (batch, _) = decoder.finish().unwrap();
    let deleted = RowKinds::new(&[crate::types::RowKind::Delete]);
    let mut encoder = JsonEncoder::new(&context).unwrap();
    assert!(encoder.encode(&batch, &deleted, &mut Vec::new()).is_err());
}
