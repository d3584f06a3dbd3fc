//! Golden values of functions and operators, and what binding refuses.

use crate::expr::CastMode;
use crate::expr::Expression;
use crate::expr::testing::*;
use crate::functions::{bind_cast, bind_scalar, can_fail, scalar_function_names};
use crate::types::{LogicalType, SqlPosition, TypeRoot};

fn refused(name: &str, arguments: &[Expression]) -> String {
    let position = SqlPosition { line: 2, column: 7 };
    let error = bind_scalar(name, arguments.to_vec(), Some(position)).unwrap_err();
    assert_eq!(error.position(), Some(position));
    error.to_string()
}

#[test]
fn integers_wrap_and_divide_as_in_java() {
    let smallest = int(i32::MIN as i64);
    check(&[
        (call("+", &[int(i32::MAX as i64), int(1)]), "-2147483648"),
        (call("*", &[bigint(i64::MAX), int(2)]), "-2"),
        (call("/", &[int(7), int(2)]), "3"),
        (call("/", &[int(-7), int(2)]), "-3"),
        (call("/", &[smallest.clone(), int(-1)]), "-2147483648"),
        (call("MOD", &[int(-7), int(3)]), "-1"),
        (call("MOD", &[int(7), int(-3)]), "1"),
        (call("%", &[bigint(1 << 40), int(7)]), "2"),
        (call("NEGATE", &[smallest.clone()]), "-2147483648"),
        (call("ABS", &[int(-5)]), "5"),
        (call("SIGN", &[int(-5)]), "-1"),
        (call("-", &[null(TypeRoot::Null), int(1)]), "NULL"),
    ]);
    assert_eq!(
        call("%", &[bigint(1), int(7)]).logical_type().root,
        TypeRoot::Int
    );
    for sign in ["/", "%"] {
        let error = value_in(&call(sign, &[int(1), int(0)]), "UTC").unwrap_err();
        assert!(error.to_string().contains("division by zero"));
    }
}

#[test]
fn doubles_follow_ieee() {
    let nan = call("/", &[double(0.0), double(0.0)]);
    check(&[
        (call("/", &[double(1.0), int(0)]), "Infinity"),
        (call("/", &[double(-1.0), double(0.0)]), "-Infinity"),
        (nan.clone(), "NaN"),
        (call("=", &[nan.clone(), nan.clone()]), "FALSE"),
        (call("<>", &[nan.clone(), nan.clone()]), "TRUE"),
        (call(">", &[nan.clone(), double(1.0)]), "FALSE"),
        (call("=", &[double(-0.0), double(0.0)]), "TRUE"),
        (call("<", &[double(-0.0), double(0.0)]), "FALSE"),
        (call("=", &[int(1), double(1.0)]), "TRUE"),
    ]);
}

#[test]
fn decimals_round_half_up_and_overflow_to_null() {
    check(&[
        (call("/", &[decimal("1.00"), decimal("3.00")]), "0.333333"),
        (call("+", &[decimal("1.25"), int(1)]), "2.25"),
        (call("*", &[decimal("1.5"), decimal("-2.25")]), "-3.375"),
        (call("%", &[decimal("-7.5"), int(2)]), "-1.5"),
        (call("-", &[decimal("0.1"), decimal("0.25")]), "-0.15"),
        (
            call(
                "*",
                &[
                    decimal("99999999999999999999999999999999999999"),
                    decimal("99"),
                ],
            ),
            "NULL",
        ),
        (call("=", &[decimal("1.50"), decimal("1.5")]), "TRUE"),
        (call("<", &[decimal("1.50"), int(2)]), "TRUE"),
        (call("=", &[decimal("0.5"), double(0.5)]), "TRUE"),
    ]);
    let quotient = call("/", &[decimal("1.00"), decimal("3.00")]);
    assert_eq!(
        quotient.logical_type().root,
        TypeRoot::Decimal {
            precision: 9,
            scale: 6
        }
    );
    assert!(value_in(&call("/", &[decimal("1.0"), decimal("0.0")]), "UTC").is_err());
}

#[test]
fn comparisons_and_their_nulls() {
    let unknown = null(TypeRoot::Int);
    check(&[
        (call("=", &[unknown.clone(), int(1)]), "NULL"),
        (call("IS DISTINCT FROM", &[unknown.clone(), int(1)]), "TRUE"),
        (
            call("IS NOT DISTINCT FROM", &[unknown.clone(), unknown.clone()]),
            "TRUE",
        ),
        (call("IN", &[int(1), int(2), unknown.clone()]), "NULL"),
        (call("IN", &[int(2), int(2), unknown.clone()]), "TRUE"),
        (call("IN", &[int(1), int(2), decimal("1.0")]), "TRUE"),
        (call("IN", &[text("x"), text("y"), text("x")]), "TRUE"),
        (
            call("IN", &[text("x"), text("y"), null(TypeRoot::Null)]),
            "NULL",
        ),
        (call("BETWEEN", &[int(2), int(1), int(3)]), "TRUE"),
        (call("BETWEEN", &[int(2), int(3), int(1)]), "FALSE"),
        (call("BETWEEN SYMMETRIC", &[int(2), int(3), int(1)]), "TRUE"),
        (call("BETWEEN", &[int(0), int(1), unknown.clone()]), "FALSE"),
        (call("IS TRUE", &[null(TypeRoot::Boolean)]), "FALSE"),
        (call("IS NOT FALSE", &[null(TypeRoot::Boolean)]), "TRUE"),
        (call("IS UNKNOWN", &[null(TypeRoot::Boolean)]), "TRUE"),
        (call("<", &[boolean(false), boolean(true)]), "TRUE"),
        (call("<", &[text("Z"), text("a")]), "TRUE"),
        (
            call(
                "=",
                &[
                    call("ROW", &[int(1), text("a")]),
                    call("ROW", &[int(1), text("a")]),
                ],
            ),
            "TRUE",
        ),
    ]);
    let words = refused("=", &[int(1), text("1")]);
    assert!(
        words.contains("INT and CHAR(1) cannot be compared") && words.contains("CAST"),
        "{words}"
    );
    assert!(
        refused("<", &[call("ARRAY", &[int(1)]), call("ARRAY", &[int(1)])]).contains("no order")
    );
}

#[test]
fn times_compare_across_precisions_and_with_text() {
    let fine = of(TypeRoot::Timestamp(9), "2024-01-01 00:00:00.000000001");
    check(&[
        (call("<", &[timestamp("2024-01-01"), fine.clone()]), "TRUE"),
        (call("=", &[timestamp("2024-01-01"), fine.clone()]), "FALSE"),
        (call(">", &[timestamp("9999-01-01"), fine]), "TRUE"),
        (
            call("=", &[timestamp("2024-01-01"), text("2024-01-01 00:00:00")]),
            "TRUE",
        ),
        (call("=", &[timestamp("2024-01-01"), text("abc")]), "NULL"),
        (
            call(
                "IN",
                &[timestamp("2024-01-01"), text("2024-01-01"), text("x")],
            ),
            "TRUE",
        ),
    ]);
    let instant = call("TO_TIMESTAMP_LTZ", &[bigint(0), int(3)]);
    let equal = |text_value: &str| call("=", &[instant.clone(), text(text_value)]);
    assert_eq!(value(&equal("abc")), None);
    let local = value_in(&equal("1969-12-31 16:00:00"), "America/Los_Angeles").unwrap();
    assert_eq!(local.as_deref(), Some("TRUE"));
}

#[test]
fn dates_and_intervals() {
    check(&[
        (
            call("-", &[timestamp("2024-03-31 10:00:00"), months(1)]),
            "2024-02-29 10:00:00.000",
        ),
        (call("+", &[date("2024-01-31"), months(1)]), "2024-02-29"),
        (
            call("+", &[date("2024-01-31"), millis(86_400_000)]),
            "2024-02-01",
        ),
        (
            call("-", &[timestamp("1970-01-01"), millis(1)]),
            "1969-12-31 23:59:59.999",
        ),
        (
            call(
                "+",
                &[
                    millis(1),
                    of(TypeRoot::Timestamp(9), "1970-01-01 00:00:00.000000001"),
                ],
            ),
            "1970-01-01 00:00:00.001000001",
        ),
        (
            call("+", &[of(TypeRoot::Time(0), "23:00:00"), millis(7_200_000)]),
            "01:00:00",
        ),
        (call("*", &[int(3), millis(1_000)]), "+0 00:00:03.000"),
        (call("+", &[months(1), months(12)]), "+1-01"),
        (
            call(
                "TIMESTAMPADD",
                &[text("QUARTER"), int(-1), date("2024-05-31")],
            ),
            "2024-02-29",
        ),
        (
            call(
                "TIMESTAMPADD",
                &[text("HOUR"), int(2), timestamp("2024-01-01")],
            ),
            "2024-01-01 02:00:00.000",
        ),
        (
            call(
                "TIMESTAMPDIFF",
                &[
                    text("MONTH"),
                    timestamp("2021-01-02"),
                    timestamp("2021-02-01"),
                ],
            ),
            "0",
        ),
        (
            call(
                "TIMESTAMPDIFF",
                &[
                    text("MONTH"),
                    timestamp("2021-01-01"),
                    timestamp("2021-02-01"),
                ],
            ),
            "1",
        ),
        (
            call(
                "TIMESTAMPDIFF",
                &[
                    text("MONTH"),
                    timestamp("2021-01-02"),
                    timestamp("2021-01-01"),
                ],
            ),
            "0",
        ),
        (
            call(
                "TIMESTAMPDIFF",
                &[
                    text("DAY"),
                    date("2021-01-02"),
                    timestamp("2021-01-01 12:00:00"),
                ],
            ),
            "0",
        ),
        (
            call(
                "TIMESTAMPDIFF",
                &[
                    text("SECOND"),
                    timestamp("1970-01-01"),
                    timestamp("1969-12-31 23:59:58.500"),
                ],
            ),
            "-1",
        ),
    ]);
    let with_time = call("+", &[date("2024-01-31"), millis(3_600_000)]);
    assert_eq!(
        constant(&with_time).as_deref(),
        Some("2024-01-31 01:00:00.000000")
    );
    let far = call("+", &[of(TypeRoot::Timestamp(9), "2262-04-11"), months(12)]);
    assert!(
        value_in(&far, "UTC")
            .unwrap_err()
            .to_string()
            .contains("out of range")
    );
    let words = refused("-", &[timestamp("2024-01-01"), timestamp("2024-01-01")]);
    assert!(words.contains("TIMESTAMPDIFF"), "{words}");
}

#[test]
fn parts_of_times() {
    let before = timestamp("1969-12-31 23:59:59.999");
    let part = |unit: &str, of: &Expression| call("EXTRACT", &[text(unit), of.clone()]);
    let day = timestamp("2024-12-30 13:14:15.678");
    check(&[
        (part("YEAR", &before), "1970"),
        (part("YEAR", &timestamp("1969-12-31 00:00:00")), "1969"),
        (part("YEAR", &day), "2024"),
        (part("QUARTER", &day), "4"),
        (call("MONTH", &[day.clone()]), "12"),
        (call("WEEK", &[day.clone()]), "1"),
        (call("DAYOFYEAR", &[day.clone()]), "365"),
        (call("DAYOFMONTH", &[day.clone()]), "30"),
        (call("DAYOFWEEK", &[day.clone()]), "2"),
        (call("HOUR", &[day.clone()]), "13"),
        (part("MINUTE", &day), "14"),
        (part("SECOND", &day), "15"),
        (part("MILLISECOND", &day), "678"),
        (part("DOW", &date("1970-01-01")), "5"),
        (part("EPOCH", &timestamp("1970-01-02")), "86400"),
        (part("HOUR", &of(TypeRoot::Time(0), "05:06:07")), "5"),
    ]);
    let summer = value_in(
        &part("HOUR", &instant("2024-07-01 12:00:00")),
        "Europe/Berlin",
    )
    .unwrap();
    assert_eq!(summer.as_deref(), Some("12"), "the literal is local, too");
    assert!(refused("EXTRACT", &[text("FORTNIGHT"), day]).contains("FORTNIGHT"));
}

#[test]
fn rounding_of_numbers_and_times() {
    let floor = |time: Expression, unit: &str| call("FLOOR", &[time, text(unit)]);
    check(&[
        (call("FLOOR", &[double(-1.5)]), "-2.0"),
        (call("CEIL", &[decimal("-1.5")]), "-1"),
        (call("FLOOR", &[decimal("-1.5")]), "-2"),
        (call("CEIL", &[int(3)]), "3"),
        (call("ROUND", &[decimal("2.345"), int(2)]), "2.35"),
        (call("ROUND", &[decimal("-9.99"), int(0)]), "-10"),
        (call("ROUND", &[int(1255), int(-1)]), "1260"),
        (call("ROUND", &[double(2.5)]), "3.0"),
        (call("TRUNCATE", &[decimal("-2.349"), int(2)]), "-2.34"),
        (call("TRUNCATE", &[double(42.324), int(2)]), "42.32"),
        (
            floor(timestamp("2024-05-17 13:14:15.678"), "HOUR"),
            "2024-05-17 13:00:00.000",
        ),
        (
            floor(timestamp("1969-12-31 23:59:59.999"), "MINUTE"),
            "1969-12-31 23:59:00.000",
        ),
        (floor(date("2024-05-17"), "QUARTER"), "2024-04-01"),
        (
            call("CEIL", &[date("2024-05-17"), text("MONTH")]),
            "2024-06-01",
        ),
        (
            call(
                "CEIL",
                &[
                    of(TypeRoot::Timestamp(6), "2024-01-01 00:00:00.000001"),
                    text("DAY"),
                ],
            ),
            "2024-01-02 00:00:00.000000",
        ),
    ]);
    let local = |unit: &str| {
        let floor = floor(instant("2024-03-10 12:00:00"), unit);
        value_in(&floor, "America/Los_Angeles").unwrap().unwrap()
    };
    assert_eq!(local("HOUR"), "2024-03-10 12:00:00.000");
    assert_eq!(
        local("DAY"),
        "2024-03-09 23:00:00.000",
        "measured on Flink 2.2.1"
    );
}

#[test]
fn texts() {
    let long = call("REPEAT", &[text("x"), bigint(1 << 40)]);
    check(&[
        (call("CHAR_LENGTH", &[text("a😀b")]), "3"),
        (call("UPPER", &[text("abc ä")]), "ABC Ä"),
        (call("LOWER", &[text("ABC")]), "abc"),
        (call("REVERSE", &[text("a😀b")]), "b😀a"),
        (
            call("INITCAP", &[text("hello wORLD-x 3a")]),
            "Hello World-X 3a",
        ),
        (call("ASCII", &[text("A")]), "65"),
        (call("CHR", &[int(65)]), "A"),
        (call("REPEAT", &[text("ab"), int(3)]), "ababab"),
        (call("REPEAT", &[text("ab"), int(-1)]), ""),
        (call("CONCAT", &[text("x"), null(TypeRoot::STRING)]), "NULL"),
        (call("CONCAT", &[text("x"), text("y"), text("z")]), "xyz"),
        (call("||", &[text("x"), text("y")]), "xy"),
        (
            call(
                "CONCAT_WS",
                &[text("-"), text("a"), null(TypeRoot::STRING), text("b")],
            ),
            "a-b",
        ),
        (
            call("CONCAT_WS", &[null(TypeRoot::STRING), text("a"), text("b")]),
            "NULL",
        ),
        (call("SUBSTRING", &[text("a😀b"), int(2), int(1)]), "😀"),
        (call("SUBSTRING", &[text("abc"), int(0)]), "abc"),
        (call("SUBSTR", &[text("abc"), int(-2)]), "bc"),
        (call("SUBSTRING", &[text("abc"), int(-5)]), ""),
        (call("SUBSTRING", &[text("abc"), int(2), int(-1)]), "NULL"),
        (call("SUBSTRING", &[text("abc"), int(5)]), ""),
        (call("LEFT", &[text("abc"), int(2)]), "ab"),
        (call("RIGHT", &[text("a😀b"), int(2)]), "😀b"),
        (call("LEFT", &[text("abc"), int(-1)]), ""),
        (
            call("OVERLAY", &[text("xxxxxtest"), text("xxxx"), int(6)]),
            "xxxxxxxxx",
        ),
        (
            call("OVERLAY", &[text("abcdef"), text("X"), int(2), int(3)]),
            "aXef",
        ),
        (
            call("SPLIT_INDEX", &[text("https://a/b/c"), text("/"), int(3)]),
            "b",
        ),
        (
            call("SPLIT_INDEX", &[text("a,b"), text(","), int(2)]),
            "NULL",
        ),
        (
            call("SPLIT_INDEX", &[text("a,b"), text(","), int(-1)]),
            "NULL",
        ),
        (
            call("SPLIT_INDEX", &[text("a||b"), text("||"), int(1)]),
            "b",
        ),
        (call("SPLIT_INDEX", &[text(""), text(","), int(0)]), "NULL"),
        (call("TRIM", &[text(" x ")]), "x"),
        (
            call("TRIM", &[text("LEADING"), text("ab"), text("abcab")]),
            "cab",
        ),
        (
            call("TRIM", &[text("TRAILING"), text("ab"), text("abcab")]),
            "abc",
        ),
        (call("LTRIM", &[text("  x ")]), "x "),
        (call("RTRIM", &[text("xyy"), text("y")]), "x"),
        (call("BTRIM", &[text("yxy"), text("y")]), "x"),
        (call("LPAD", &[text("hi"), int(4), text("??")]), "??hi"),
        (call("LPAD", &[text("hi"), int(1), text("?")]), "h"),
        (call("RPAD", &[text("hi"), int(5), text("ab")]), "hiaba"),
        (call("RPAD", &[text("hi"), int(-1), text("a")]), "NULL"),
        (call("LPAD", &[text("hi"), int(4), text("")]), "NULL"),
        (call("POSITION", &[text("b"), text("a😀b")]), "3"),
        (call("POSITION", &[text("x"), text("abc")]), "0"),
        (call("LOCATE", &[text("a"), text("banana"), int(3)]), "4"),
        (call("INSTR", &[text("abc"), text("c")]), "3"),
        (call("STARTSWITH", &[text("abc"), text("ab")]), "TRUE"),
        (call("ENDSWITH", &[text("abc"), text("b")]), "FALSE"),
        (
            call("REPLACE", &[text("banana"), text("an"), text("<>")]),
            "b<><>a",
        ),
        (call("TO_BASE64", &[text("hello")]), "aGVsbG8="),
        (call("FROM_BASE64", &[text("aGVsbG8=")]), "hello"),
        (call("IS_ALPHA", &[text("abc")]), "TRUE"),
        (call("IS_DIGIT", &[text("12a")]), "FALSE"),
        (call("IS_DECIMAL", &[text("-1.5")]), "TRUE"),
        (call("IS_DECIMAL", &[text("1e5")]), "TRUE"),
        (call("IS_DECIMAL", &[text("1x")]), "FALSE"),
        (call("IS_DECIMAL", &[null(TypeRoot::STRING)]), "FALSE"),
    ]);
    assert!(value_in(&long, "UTC").is_err(), "a terabyte is refused");
    assert!(refused("UPPER", &[int(1)]).contains("UPPER takes STRING as argument 1, not INT"));
    assert!(refused("UPPER", &[]).contains("takes 1 argument, not 0"));
}

#[test]
fn patterns() {
    let like = |text_value: &str, pattern: &str| call("LIKE", &[text(text_value), text(pattern)]);
    check(&[
        (like("abc", "a%"), "TRUE"),
        (like("abc", "%b_"), "TRUE"),
        (
            call("LIKE", &[text("a_b"), text("a\\_b"), text("\\")]),
            "TRUE",
        ),
        (
            call("LIKE", &[text("axb"), text("a\\_b"), text("\\")]),
            "FALSE",
        ),
        (call("SIMILAR TO", &[text("abc"), text("(a|b)%")]), "TRUE"),
        (call("SIMILAR TO", &[text("a.c"), text("a.c")]), "TRUE"),
        (call("SIMILAR TO", &[text("abc"), text("a.c")]), "TRUE"),
        (call("REGEXP", &[text("abc123"), text("[0-9]{3}")]), "TRUE"),
        (call("REGEXP", &[text("abc"), text("")]), "FALSE"),
        (
            call(
                "REGEXP_EXTRACT",
                &[
                    text("a&channel_id=42&b"),
                    text("(&|^)channel_id=([^&]*)"),
                    int(2),
                ],
            ),
            "42",
        ),
        (
            call(
                "REGEXP_EXTRACT",
                &[text("foothebar"), text("foo(.*?)(bar)")],
            ),
            "foothebar",
        ),
        (call("REGEXP_EXTRACT", &[text("abc"), text("x")]), "NULL"),
        (
            call("REGEXP_EXTRACT", &[text("abc"), text("b"), int(3)]),
            "NULL",
        ),
        (
            call(
                "REGEXP_REPLACE",
                &[text("foobar"), text("oo|ar"), text("$1")],
            ),
            "f$1b$1",
        ),
    ]);
    let compiled = |expression: Expression| {
        crate::expr::compile(&expression, &crate::expr::ExpressionContext::default())
    };
    let broken = call("REGEXP_EXTRACT", &[text("abc"), text("(")]);
    assert!(
        compiled(broken)
            .unwrap_err()
            .to_string()
            .contains("not understood")
    );
    let bad_escape = call("LIKE", &[text("a"), text("\\a"), text("\\")]);
    assert!(compiled(bad_escape).is_err());
}

#[test]
fn times_as_text_and_back() {
    let format = |time: Expression, pattern: &str| call("DATE_FORMAT", &[time, text(pattern)]);
    check(&[
        (
            format(timestamp("2024-01-15 13:10:05.678"), "yyyy-MM-dd HH:mm"),
            "2024-01-15 13:10",
        ),
        (
            format(timestamp("1969-12-31 23:59:59.999"), "yyyyMMdd HHmmss.SSS"),
            "19691231 235959.999",
        ),
        (format(text("2024-01-15 13:10:05"), "HH"), "13"),
        (
            call("TO_TIMESTAMP", &[text("2024-01-02 03:04:05")]),
            "2024-01-02 03:04:05.000",
        ),
        (call("TO_TIMESTAMP", &[text("oops")]), "NULL"),
        (
            call("TO_TIMESTAMP", &[text("02/01/2024"), text("dd/MM/yyyy")]),
            "2024-01-02 00:00:00.000",
        ),
        (
            call("TO_TIMESTAMP_LTZ", &[bigint(1_000), int(3)]),
            "1970-01-01 00:00:01.000",
        ),
        (
            call("TO_TIMESTAMP_LTZ", &[bigint(1_000), int(0)]),
            "1970-01-01 00:16:40.000",
        ),
        (
            call("TO_TIMESTAMP_LTZ", &[bigint(1_000_001), int(6)]),
            "1970-01-01 00:00:01.000001",
        ),
        (
            call("TO_TIMESTAMP_LTZ", &[bigint(i64::MAX), int(3)]),
            "NULL",
        ),
        (call("TO_DATE", &[text("2024-02-29")]), "2024-02-29"),
        (
            call("TO_DATE", &[text("29.02.2024"), text("dd.MM.yyyy")]),
            "2024-02-29",
        ),
        (call("TO_DATE", &[text("x")]), "NULL"),
        (call("FROM_UNIXTIME", &[bigint(44)]), "1970-01-01 00:00:44"),
        (call("FROM_UNIXTIME", &[bigint(0), text("yyyy")]), "1970"),
        (call("UNIX_TIMESTAMP", &[text("1970-01-01 00:00:44")]), "44"),
        (call("UNIX_TIMESTAMP", &[text("x")]), "-9223372036854775808"),
    ]);
    let berlin = |expression: Expression| value_in(&expression, "Europe/Berlin").unwrap().unwrap();
    assert_eq!(
        berlin(call("FROM_UNIXTIME", &[bigint(1_719_828_000)])),
        "2024-07-01 12:00:00"
    );
    assert_eq!(
        berlin(call("UNIX_TIMESTAMP", &[text("2024-07-01 12:00:00")])),
        "1719828000"
    );
    let words = value_in(&format(timestamp("2024-01-01"), "yyyyTT"), "UTC")
        .unwrap_err()
        .to_string();
    assert!(words.contains("'TT' in the date pattern"), "{words}");
}

#[test]
fn json_values() {
    let json = |document: &str, rest: &[&str]| {
        let mut arguments = vec![text(document)];
        arguments.extend(rest.iter().map(|argument| text(argument)));
        call("JSON_VALUE", &arguments)
    };
    let returning = |document: &str, on_error: &str, root: &str| {
        json(document, &["$.v", "NULL", "", on_error, "7", root])
    };
    check(&[
        (json("{\"a\":{\"b\":[1,\"x\"]}}", &["$.a.b[1]"]), "x"),
        (json("{\"a\":true}", &["$.a"]), "true"),
        (json("{\"a\":1.50}", &["lax $.a"]), "1.50"),
        (
            json("{\"a\":null}", &["$.a", "DEFAULT", "e", "NULL", ""]),
            "NULL",
        ),
        (json("{\"a\":{}}", &["$.a"]), "NULL"),
        (json("broken", &["$.a"]), "NULL"),
        (json("{}", &["$.a", "DEFAULT", "none", "NULL", ""]), "none"),
        (
            json("broken", &["$.a", "NULL", "", "DEFAULT", "bad"]),
            "bad",
        ),
        (
            json("{}", &["strict $.a", "DEFAULT", "none", "DEFAULT", "bad"]),
            "bad",
        ),
        (returning("{\"v\":true}", "NULL", "BOOLEAN"), "TRUE"),
        (returning("{\"v\":1}", "NULL", "BOOLEAN"), "NULL"),
        (returning("{\"v\":1}", "NULL", "INT"), "1"),
        (returning("{\"v\":\"x\"}", "DEFAULT", "INT"), "7"),
        (returning("{\"v\":2}", "NULL", "DOUBLE"), "2.0"),
    ]);
    assert!(value_in(&returning("{\"v\":1}", "ERROR", "BOOLEAN"), "UTC").is_err());
    assert!(refused("JSON_VALUE", &[text("{}"), text("a.b")]).contains("no JSON path"));
}

#[test]
fn collections() {
    let array = call("ARRAY", &[int(7), int(8)]);
    let map = call("MAP", &[text("k"), int(1), text("l"), null(TypeRoot::Null)]);
    // Keys that are columns may be NULL, and then fail.
    assert_eq!(constant(&map).as_deref(), Some("{k=1, l=NULL}"));
    assert_eq!(
        constant(&call("ITEM", &[map.clone(), text("k")])).as_deref(),
        Some("1")
    );
    assert_eq!(constant(&call("ITEM", &[map.clone(), text("x")])), None);
    assert_eq!(constant(&call("CARDINALITY", &[map])).as_deref(), Some("2"));
    check(&[
        (array.clone(), "[7, 8]"),
        (
            call("ROW", &[int(1), text("a"), null(TypeRoot::Int)]),
            "(1, a, NULL)",
        ),
        (call("ARRAY", &[int(1), decimal("2.5")]), "[1.0, 2.5]"),
        (call("ITEM", &[array.clone(), int(1)]), "7"),
        (call("ITEM", &[array.clone(), int(3)]), "NULL"),
        (call("CARDINALITY", &[array.clone()]), "2"),
        (call("ELEMENT", &[call("ARRAY", &[text("x")])]), "x"),
    ]);
    assert!(value_in(&call("ELEMENT", &[array.clone()]), "UTC").is_err());
    assert!(refused("ITEM", &[array.clone(), int(0)]).contains("begins with index 1"));
    let negative = call("ITEM", &[array, call("-", &[int(0), int(1)])]);
    assert_eq!(value(&negative), None, "a computed index below 1 is NULL");
}

#[test]
fn conditions() {
    check(&[
        (
            call(
                "CASE",
                &[boolean(false), int(1), boolean(true), decimal("2.5")],
            ),
            "2.5",
        ),
        (call("CASE", &[boolean(false), int(1)]), "NULL"),
        (
            call("COALESCE", &[null(TypeRoot::Null), int(1), int(2)]),
            "1",
        ),
        (call("IFNULL", &[null(TypeRoot::STRING), text("x")]), "x"),
        (call("IF", &[null(TypeRoot::Boolean), int(1), int(2)]), "2"),
        (call("NULLIF", &[int(1), int(1)]), "NULL"),
        (call("NULLIF", &[int(1), int(2)]), "1"),
        (call("GREATEST", &[int(1), int(3), int(2)]), "3"),
        (call("LEAST", &[text("b"), text("a")]), "a"),
        (call("GREATEST", &[int(1), null(TypeRoot::Int)]), "NULL"),
        (call("TYPEOF", &[int(1)]), "INT NOT NULL"),
        (call("TYPEOF", &[null(TypeRoot::STRING)]), "STRING"),
    ]);
    assert!(
        refused("CASE", &[boolean(true), int(1), text("x")])
            .contains("no common type: INT, CHAR(1)")
    );
    assert!(
        !call("COALESCE", &[null(TypeRoot::Int), int(1)])
            .logical_type()
            .nullable
    );
}

#[test]
fn mathematics() {
    check(&[
        (call("POWER", &[int(2), int(10)]), "1024.0"),
        (call("SQRT", &[int(9)]), "3.0"),
        (call("LOG", &[int(2), int(8)]), "3.0"),
        (call("LOG10", &[int(1000)]), "3.0"),
        (call("-", &[int(5)]), "-5"),
        (call("+", &[int(5)]), "5"),
        (call("EXP", &[int(0)]), "1.0"),
        (call("SIN", &[int(0)]), "0.0"),
        (call("DEGREES", &[call("PI", &[])]), "180.0"),
        (call("LN", &[int(-1)]), "NaN"),
    ]);
}

#[test]
fn unknown_names_get_help() {
    assert!(refused("UPER", &[text("x")]).contains("did you mean UPPER"));
    assert!(refused("SHA256", &[text("x")]).contains("SHA256 is not supported"));
    assert_eq!(
        call("SUBSTRING", &[text("abc"), int(1)])
            .logical_type()
            .root,
        TypeRoot::Varchar(3)
    );
    assert_eq!(
        call("||", &[text("a"), text("bb")]).logical_type().root,
        TypeRoot::Char(3)
    );
    assert!(scalar_function_names().count() > 120);
}

#[test]
fn casts_are_refused_that_flink_refuses() {
    let refused = |input: Expression, root: TypeRoot| {
        let to = LogicalType::nullable(root);
        bind_cast(input, to, CastMode::Fail, None)
            .unwrap_err()
            .to_string()
    };
    let words = refused(int(1), TypeRoot::Timestamp(3));
    assert!(
        words.contains("no cast from INT to TIMESTAMP(3)") && words.contains("TO_TIMESTAMP_LTZ")
    );
    assert!(refused(timestamp("2024-01-01"), TypeRoot::BigInt).contains("UNIX_TIMESTAMP"));
    assert!(refused(date("2024-01-01"), TypeRoot::Int).contains("from DATE to INT"));
    assert!(refused(millis(1), TypeRoot::Int).contains("from INTERVAL DAY TO SECOND to INT"));
}

#[test]
fn what_cannot_fail_is_known() {
    assert!(!can_fail(&call("/", &[column(0, TypeRoot::Int), int(2)])));
    assert!(can_fail(&call(
        "/",
        &[column(0, TypeRoot::Int), column(0, TypeRoot::Int)]
    )));
    assert!(!can_fail(&call(
        "/",
        &[column(0, TypeRoot::Double), column(0, TypeRoot::Double)]
    )));
    assert!(can_fail(&cast(column(0, TypeRoot::STRING), TypeRoot::Int)));
    assert!(!can_fail(&try_cast(
        column(0, TypeRoot::STRING),
        TypeRoot::Int
    )));
    assert!(!can_fail(&call("+", &[column(0, TypeRoot::Int), int(2)])));
}
