//! Golden values of casts, by pairs of types.

use crate::expr::testing::*;
use crate::expr::{CastMode, Expression};
use crate::functions::{bind_cast, implicit_cast};
use crate::types::{LogicalType, TypeRoot};

fn decimal_type(precision: u8, scale: u8) -> TypeRoot {
    TypeRoot::Decimal { precision, scale }
}

fn fails(expression: Expression) -> String {
    value_in(&expression, "UTC").unwrap_err().to_string()
}

#[test]
fn text_to_numbers() {
    check(&[
        (cast(text(" 12 "), TypeRoot::Int), "12"),
        (cast(text("+7"), TypeRoot::BigInt), "7"),
        (cast(text("-1.9"), TypeRoot::Int), "-1"),
        (cast(text("1e3"), TypeRoot::Double), "1000.0"),
        (cast(text("NaN"), TypeRoot::Double), "NaN"),
        (cast(text("1.005"), decimal_type(5, 2)), "1.01"),
        (try_cast(text("1234567"), decimal_type(5, 2)), "NULL"),
        (cast(text("yes"), TypeRoot::Boolean), "TRUE"),
        (cast(text("F"), TypeRoot::Boolean), "FALSE"),
        (try_cast(text("12x"), TypeRoot::Int), "NULL"),
        (try_cast(text("300"), TypeRoot::TinyInt), "NULL"),
        (try_cast(text("maybe"), TypeRoot::Boolean), "NULL"),
        (try_cast(text("x"), decimal_type(5, 2)), "NULL"),
    ]);
    let words = fails(cast(text("12x"), TypeRoot::Int));
    assert!(
        words.contains("cannot cast '12x' from CHAR(3) to INT") && words.contains("TRY_CAST"),
        "{words}"
    );
    assert!(fails(cast(text("128"), TypeRoot::TinyInt)).contains("TINYINT"));
    assert!(fails(cast(text("x"), decimal_type(5, 2))).contains("'x'"));
    assert!(fails(cast(text("1234567"), decimal_type(5, 2))).contains("'1234567'"));
}

#[test]
fn numbers_to_numbers() {
    check(&[
        (cast(int(300), TypeRoot::TinyInt), "44"),
        (cast(double(3.9), TypeRoot::Int), "3"),
        (cast(double(1e20), TypeRoot::Int), "2147483647"),
        (cast(double(300.0), TypeRoot::TinyInt), "44"),
        (cast(double(f64::NAN), TypeRoot::BigInt), "0"),
        (cast(decimal("-9.99"), TypeRoot::Int), "-9"),
        (cast(decimal("0.1"), TypeRoot::Double), "0.1"),
        (cast(double(0.1), decimal_type(5, 3)), "0.100"),
        (cast(double(1e9), decimal_type(5, 3)), "NULL"),
        (cast(decimal("999.995"), decimal_type(5, 2)), "NULL"),
        (cast(decimal("999.994"), decimal_type(5, 2)), "999.99"),
        (cast(decimal("-1.005"), decimal_type(5, 2)), "-1.01"),
        (cast(int(1), decimal_type(5, 2)), "1.00"),
        (cast(int(2), TypeRoot::Boolean), "TRUE"),
        (cast(boolean(true), TypeRoot::Int), "1"),
        (cast(boolean(true), decimal_type(3, 1)), "1.0"),
        (
            cast(cast(double(0.1), TypeRoot::Float), TypeRoot::Double),
            "0.10000000149011612",
        ),
    ]);
    assert!(fails(cast(double(f64::NAN), decimal_type(5, 2))).contains("NaN"));
}

#[test]
fn anything_to_text() {
    check(&[
        (cast(double(1e10), TypeRoot::STRING), "1.0E10"),
        (cast(double(0.1), TypeRoot::STRING), "0.1"),
        (cast(boolean(true), TypeRoot::STRING), "TRUE"),
        (cast(decimal("-0.50"), TypeRoot::STRING), "-0.50"),
        (cast(int(12345), TypeRoot::Varchar(3)), "123"),
        (cast(text("ab"), TypeRoot::Char(4)), "ab  "),
        (cast(text("abcdef"), TypeRoot::Varchar(3)), "abc"),
        (
            cast(timestamp("2024-01-01 00:00:00.5"), TypeRoot::STRING),
            "2024-01-01 00:00:00.500",
        ),
        (
            cast(
                of(TypeRoot::Timestamp(0), "2024-01-01 01:02:03"),
                TypeRoot::STRING,
            ),
            "2024-01-01 01:02:03",
        ),
        (
            cast(
                of(TypeRoot::Timestamp(6), "1969-12-31 23:59:59.999999"),
                TypeRoot::STRING,
            ),
            "1969-12-31 23:59:59.999999",
        ),
        (cast(date("1582-10-15"), TypeRoot::STRING), "1582-10-15"),
        (
            cast(of(TypeRoot::Time(3), "01:02:03.4"), TypeRoot::STRING),
            "01:02:03.400",
        ),
        (
            cast(millis(-90_061_001), TypeRoot::STRING),
            "-1 01:01:01.001",
        ),
        (cast(months(14), TypeRoot::STRING), "+1-02"),
        (
            cast(
                call("ARRAY", &[int(1), null(TypeRoot::Null)]),
                TypeRoot::STRING,
            ),
            "[1, NULL]",
        ),
        (
            cast(call("ROW", &[text("a"), boolean(true)]), TypeRoot::STRING),
            "(a, TRUE)",
        ),
        (
            cast(cast(text("hä"), TypeRoot::BYTES), TypeRoot::STRING),
            "hä",
        ),
    ]);
}

#[test]
fn maps_and_broken_bytes_to_text() {
    let map = cast(call("MAP", &[text("k"), text("v")]), TypeRoot::STRING);
    assert_eq!(constant(&map).as_deref(), Some("{k=v}"));
    let bytes = Expression::literal(
        crate::expr::Literal::Binary(vec![b'a', 0x80]),
        LogicalType::not_null(TypeRoot::BYTES),
    );
    assert_eq!(
        value(&cast(bytes, TypeRoot::STRING)).as_deref(),
        Some("a\u{fffd}")
    );
}

#[test]
fn text_to_times() {
    check(&[
        (
            cast(text("2024-1-2 3:4:5.6"), TypeRoot::Timestamp(3)),
            "2024-01-02 03:04:05.600",
        ),
        (
            cast(text("2024-01-02"), TypeRoot::Timestamp(3)),
            "2024-01-02 00:00:00.000",
        ),
        (
            cast(
                text("2024-01-02 03:04:05.123456789"),
                TypeRoot::Timestamp(6),
            ),
            "2024-01-02 03:04:05.123456",
        ),
        (
            cast(text("2024-01-02 03:04:05"), TypeRoot::Date),
            "2024-01-02",
        ),
        (cast(text("23:59"), TypeRoot::Time(0)), "23:59:00"),
        (try_cast(text("2024-13-01"), TypeRoot::Date), "NULL"),
        (try_cast(text("3000-01-01"), TypeRoot::Timestamp(9)), "NULL"),
    ]);
    assert!(fails(cast(text("oops"), TypeRoot::Timestamp(3))).contains("'oops'"));
    assert!(fails(cast(text("3000-01-01"), TypeRoot::Timestamp(9))).contains("3000-01-01"));
}

#[test]
fn times_to_times() {
    let precise = of(TypeRoot::Timestamp(9), "1969-12-31 23:59:59.123456789");
    check(&[
        (
            cast(precise.clone(), TypeRoot::Timestamp(3)),
            "1969-12-31 23:59:59.123",
        ),
        (
            cast(precise.clone(), TypeRoot::Timestamp(0)),
            "1969-12-31 23:59:59",
        ),
        (cast(precise, TypeRoot::Time(0)), "23:59:59"),
        (
            cast(timestamp("2024-01-01 10:00:00"), TypeRoot::Date),
            "2024-01-01",
        ),
        (
            cast(timestamp("1969-12-31 10:00:00"), TypeRoot::Date),
            "1970-01-01",
        ),
        (
            cast(date("2024-01-01"), TypeRoot::Timestamp(3)),
            "2024-01-01 00:00:00.000",
        ),
        (
            try_cast(timestamp("9999-12-31"), TypeRoot::Timestamp(9)),
            "NULL",
        ),
    ]);
    let far = cast(timestamp("9999-12-31"), TypeRoot::Timestamp(9));
    assert!(
        fails(far).contains("9999-12-31 00:00:00.000"),
        "an error, never a wrapped value"
    );
}

#[test]
fn instants_and_wall_clocks_over_the_changes_of_the_clock() {
    let zone = "America/Los_Angeles";
    let text_of = |expression: Expression| value_in(&expression, zone).unwrap().unwrap();
    // 02:30 does not exist on that day, 01:30 in November comes twice: the first is taken.
    let skipped = cast(timestamp("2024-03-10 02:30:00"), TypeRoot::TimestampLtz(3));
    assert_eq!(
        text_of(cast(skipped, TypeRoot::Timestamp(3))),
        "2024-03-10 03:30:00.000"
    );
    let twice = cast(timestamp("2024-11-03 01:30:00"), TypeRoot::TimestampLtz(3));
    let hour_later = call("+", &[twice.clone(), millis(3_600_000)]);
    assert_eq!(
        text_of(cast(twice, TypeRoot::STRING)),
        "2024-11-03 01:30:00.000"
    );
    assert_eq!(
        text_of(cast(hour_later, TypeRoot::STRING)),
        "2024-11-03 01:30:00.000"
    );
    let instant = call("TO_TIMESTAMP_LTZ", &[bigint(0), int(3)]);
    assert_eq!(
        text_of(cast(instant.clone(), TypeRoot::Timestamp(3))),
        "1969-12-31 16:00:00.000"
    );
    assert_eq!(text_of(cast(instant, TypeRoot::Date)), "1969-12-31");
}

#[test]
fn implicit_casts_lose_nothing() {
    let to = |root| LogicalType::nullable(root);
    assert!(implicit_cast(int(1), &to(TypeRoot::BigInt)).is_ok());
    assert!(implicit_cast(int(1), &to(decimal_type(12, 2))).is_ok());
    assert!(implicit_cast(text("x"), &to(TypeRoot::STRING)).is_ok());
    assert!(implicit_cast(null(TypeRoot::Null), &to(TypeRoot::Date)).is_ok());
    let error = implicit_cast(bigint(1), &to(TypeRoot::Int))
        .unwrap_err()
        .to_string();
    assert!(error.contains("a BIGINT stands where INT is needed") && error.contains("CAST"));
    assert!(implicit_cast(text("1"), &to(TypeRoot::Int)).is_err());
    assert!(implicit_cast(int(1), &to(TypeRoot::STRING)).is_err());
    let same = int(1);
    assert_eq!(
        implicit_cast(same.clone(), &to(TypeRoot::Int)).unwrap(),
        same
    );
}

#[test]
fn nested_values_are_cast_inside() {
    let bigints = TypeRoot::Array(Box::new(LogicalType::BIGINT));
    check(&[(cast(call("ARRAY", &[int(1), int(2)]), bigints), "[1, 2]")]);
    let cast = bind_cast(int(1), LogicalType::STRING, CastMode::Null, None).unwrap();
    assert!(!cast.logical_type().nullable, "every INT has a text");
}
