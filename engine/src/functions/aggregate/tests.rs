use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::DataType;

use super::*;
use crate::functions::AggregateCall;
use crate::state::Groups;
use crate::types::{LogicalType, TypeRoot};

fn call(function: &str, argument: TypeRoot, result: TypeRoot) -> AggregateCall {
    AggregateCall {
        function: function.to_string(),
        arguments: vec![0],
        argument_types: vec![LogicalType::nullable(argument)],
        distinct: false,
        filter: None,
        logical_type: LogicalType::nullable(result),
        name: function.to_string(),
    }
}

fn distinct(call: AggregateCall) -> AggregateCall {
    AggregateCall {
        distinct: true,
        ..call
    }
}

fn decimal(precision: u8, scale: u8) -> TypeRoot {
    TypeRoot::Decimal { precision, scale }
}

/// The result of one call over values of group 0, folded in every way that must not matter: at once, one by one, as partials
/// that are merged, with rows that come and go. The result has the type that the call promises.
fn check(call: AggregateCall, values: ArrayRef, expected: ArrayRef) {
    for insert_only in [true, false] {
        let Ok(spec) = AggregateSetSpec::new(std::slice::from_ref(&call), insert_only) else {
            assert!(
                !insert_only,
                "{call} works at least over input that only grows"
            );
            continue;
        };
        for how in ["at once", "one by one", "merged"] {
            let mut set = spec.create().unwrap();
            set.grow(1);
            let chunk = if how == "at once" {
                values.len().max(1)
            } else {
                1
            };
            for offset in (0..values.len()).step_by(chunk) {
                let part = values.slice(offset, chunk.min(values.len() - offset));
                let ids = vec![0; part.len()];
                if how == "merged" {
                    let mut other = spec.create().unwrap();
                    other.grow(1);
                    other.accumulate(&spec, &ids, &[part], None).unwrap();
                    let partials = other.partials(&Groups::Range(0..1)).unwrap();
                    for (partial, field) in partials.iter().zip(spec.partial_fields()) {
                        assert_eq!(
                            *partial.data_type(),
                            field.logical_type.to_arrow(),
                            "{call}"
                        );
                    }
                    set.merge(&spec, &[0], &partials).unwrap();
                } else {
                    set.accumulate(&spec, &ids, &[part], None).unwrap();
                }
            }
            if !insert_only && !values.is_empty() {
                let twice = vec![0; values.len()];
                let back = vec![-1; values.len()];
                set.accumulate(&spec, &twice, &[values.clone()], None)
                    .unwrap();
                set.accumulate(&spec, &twice, &[values.clone()], Some(&back))
                    .unwrap();
            }
            let results = set.evaluate(&spec, &Groups::Ids(&[0])).unwrap();
            assert_eq!(
                results[0].data_type(),
                &call.logical_type.to_arrow(),
                "{call}"
            );
            assert_eq!(
                &results[0], &expected,
                "{call} {how}, insert only {insert_only}"
            );
        }
    }
}

fn ints(values: &[Option<i32>]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn bigints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn doubles(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn integer_sums_wrap_in_their_own_width() {
    let sum = || call("SUM", TypeRoot::Int, TypeRoot::Int);
    check(
        sum(),
        ints(&[Some(i32::MAX), Some(1)]),
        ints(&[Some(i32::MIN)]),
    );
    check(sum(), ints(&[None, Some(-3), None]), ints(&[Some(-3)]));
    check(sum(), ints(&[None]), ints(&[None]));
    check(sum(), ints(&[]), ints(&[None]));
    let big = call("SUM", TypeRoot::BigInt, TypeRoot::BigInt);
    check(
        big,
        bigints(&[Some(i64::MAX), Some(2)]),
        bigints(&[Some(i64::MIN + 1)]),
    );
    let tiny: ArrayRef = Arc::new(Int8Array::from(vec![100, 100]));
    let expected: ArrayRef = Arc::new(Int8Array::from(vec![-56]));
    check(
        call("SUM", TypeRoot::TinyInt, TypeRoot::TinyInt),
        tiny,
        expected,
    );
}

#[test]
fn integer_averages_are_cut_toward_zero() {
    let average = || call("AVG", TypeRoot::Int, TypeRoot::Int);
    check(average(), ints(&[Some(1), Some(2)]), ints(&[Some(1)]));
    check(
        average(),
        ints(&[Some(-1), Some(-2), None]),
        ints(&[Some(-1)]),
    );
    check(
        average(),
        ints(&[Some(i32::MAX), Some(i32::MAX)]),
        ints(&[Some(i32::MAX)]),
    );
    check(average(), ints(&[None]), ints(&[None]));
}

#[test]
fn decimals_have_38_digits_and_then_are_null() {
    let sum = call("SUM", decimal(10, 2), decimal(38, 2));
    check(
        sum,
        decimals(&[Some(150), Some(-25), None], 10, 2),
        decimals(&[Some(125)], 38, 2),
    );
    let most = 10i128.pow(38) - 1;
    let sum = call("SUM", decimal(38, 0), decimal(38, 0));
    check(
        sum,
        decimals(&[Some(most), Some(1)], 38, 0),
        decimals(&[None], 38, 0),
    );
    let average = call("AVG", decimal(3, 2), decimal(38, 6));
    check(
        average,
        decimals(&[Some(100), Some(100), Some(0)], 3, 2),
        decimals(&[Some(666_667)], 38, 6),
    );
    let average = call("AVG", decimal(9, 8), decimal(38, 8));
    check(
        average,
        decimals(&[Some(-1), Some(-2)], 9, 8),
        decimals(&[Some(-2)], 38, 8),
    );
}

#[test]
fn approximate_sums_and_averages() {
    let sum = call("SUM", TypeRoot::Double, TypeRoot::Double);
    check(
        sum,
        doubles(&[Some(0.5), None, Some(0.25)]),
        doubles(&[Some(0.75)]),
    );
    let average = call("AVG", TypeRoot::Double, TypeRoot::Double);
    check(
        average,
        doubles(&[Some(1.0), Some(2.0)]),
        doubles(&[Some(1.5)]),
    );
    let single: ArrayRef = Arc::new(Float32Array::from(vec![0.5f32, 0.25]));
    let expected: ArrayRef = Arc::new(Float32Array::from(vec![0.375f32]));
    check(
        call("AVG", TypeRoot::Float, TypeRoot::Float),
        single,
        expected,
    );
}

#[test]
fn counts_leave_null_out() {
    let count = || call("COUNT", TypeRoot::Int, TypeRoot::BigInt);
    check(
        count(),
        ints(&[Some(1), None, Some(1)]),
        bigints(&[Some(2)]),
    );
    check(count(), ints(&[]), bigints(&[Some(0)]));
    check(
        distinct(count()),
        ints(&[Some(1), None, Some(1), Some(2)]),
        bigints(&[Some(2)]),
    );
    check(distinct(count()), ints(&[None]), bigints(&[Some(0)]));
    let sum = distinct(call("SUM", TypeRoot::Int, TypeRoot::Int));
    check(sum, ints(&[Some(5), Some(5), Some(2)]), ints(&[Some(7)]));
}

#[test]
fn minima_and_maxima_of_every_kind_of_value() {
    let both = |root: TypeRoot, values: ArrayRef, least: ArrayRef, greatest: ArrayRef| {
        check(
            call("MIN", root.clone(), root.clone()),
            values.clone(),
            least,
        );
        check(call("MAX", root.clone(), root), values, greatest);
    };
    both(
        TypeRoot::Int,
        ints(&[Some(3), None, Some(-4)]),
        ints(&[Some(-4)]),
        ints(&[Some(3)]),
    );
    both(TypeRoot::Int, ints(&[None]), ints(&[None]), ints(&[None]));
    let words = texts(&[Some("b"), Some("a"), None, Some("ab")]);
    both(
        TypeRoot::STRING,
        words,
        texts(&[Some("a")]),
        texts(&[Some("b")]),
    );
    let flags = |values: Vec<Option<bool>>| -> ArrayRef { Arc::new(BooleanArray::from(values)) };
    let some = flags(vec![Some(true), None, Some(false)]);
    both(
        TypeRoot::Boolean,
        some,
        flags(vec![Some(false)]),
        flags(vec![Some(true)]),
    );
    let times =
        |values: Vec<i64>| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(values)) };
    both(
        TypeRoot::Timestamp(3),
        times(vec![5, -7]),
        times(vec![-7]),
        times(vec![5]),
    );
    let zoned = |values: Vec<i64>| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
    };
    both(
        TypeRoot::TimestampLtz(6),
        zoned(vec![5, -7]),
        zoned(vec![-7]),
        zoned(vec![5]),
    );
    let dates = |values: Vec<i32>| -> ArrayRef { Arc::new(Date32Array::from(values)) };
    both(
        TypeRoot::Date,
        dates(vec![5, 4]),
        dates(vec![4]),
        dates(vec![5]),
    );
    let amounts = decimals(&[Some(-1), Some(10)], 5, 2);
    both(
        decimal(5, 2),
        amounts,
        decimals(&[Some(-1)], 5, 2),
        decimals(&[Some(10)], 5, 2),
    );
    both(
        TypeRoot::Double,
        doubles(&[Some(2.5), Some(-1.5)]),
        doubles(&[Some(-1.5)]),
        doubles(&[Some(2.5)]),
    );
}

/// The bits of MIN and MAX over doubles in this order, over input that only grows.
fn double_bounds(values: &[f64]) -> [u64; 2] {
    ["MIN", "MAX"].map(|function| {
        let call = call(function, TypeRoot::Double, TypeRoot::Double);
        let spec = AggregateSetSpec::new(&[call], true).unwrap();
        let mut set = spec.create().unwrap();
        set.grow(1);
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        set.accumulate(&spec, &vec![0; values.len()], &[column], None)
            .unwrap();
        let result = set.evaluate(&spec, &Groups::Range(0..1)).unwrap();
        result[0]
            .as_primitive::<arrow::datatypes::Float64Type>()
            .value(0)
            .to_bits()
    })
}

#[test]
fn nan_and_signed_zero_follow_the_order_of_arrival() {
    let nan = f64::NAN.to_bits();
    assert_eq!(double_bounds(&[f64::NAN, 5.0]), [nan, nan]);
    assert_eq!(double_bounds(&[5.0, f64::NAN]), [5f64.to_bits(); 2]);
    assert_eq!(double_bounds(&[0.0, -0.0]), [0f64.to_bits(); 2]);
    assert_eq!(double_bounds(&[-0.0, 0.0]), [(-0f64).to_bits(); 2]);
}

#[test]
fn first_last_and_lists_keep_the_order_of_arrival() {
    let root = || TypeRoot::STRING;
    let words = || texts(&[None, Some("b"), Some("a"), None]);
    check(
        call("FIRST_VALUE", root(), root()),
        words(),
        texts(&[Some("b")]),
    );
    check(
        call("LAST_VALUE", root(), root()),
        words(),
        texts(&[Some("a")]),
    );
    check(
        call("LISTAGG", root(), root()),
        words(),
        texts(&[Some("b,a")]),
    );
    check(
        call("LISTAGG", root(), root()),
        texts(&[None]),
        texts(&[None]),
    );
}

#[test]
fn spreads_of_few_values() {
    let over = |function: &str| call(function, TypeRoot::Double, TypeRoot::Double);
    let values = || doubles(&[Some(1.0), Some(3.0), None]);
    check(
        over("VAR_POP"),
        doubles(&[Some(7.0)]),
        doubles(&[Some(0.0)]),
    );
    check(over("VAR_SAMP"), doubles(&[Some(7.0)]), doubles(&[None]));
    let result = |function: &str| {
        let spec = AggregateSetSpec::new(&[over(function)], true).unwrap();
        let mut set = spec.create().unwrap();
        set.grow(1);
        set.accumulate(&spec, &[0, 0, 0], &[values()], None)
            .unwrap();
        let result = set.evaluate(&spec, &Groups::Range(0..1)).unwrap();
        result[0]
            .as_primitive::<arrow::datatypes::Float64Type>()
            .value(0)
    };
    assert_eq!(result("VAR_POP"), 1.0);
    assert_eq!(result("VAR_SAMP"), 2.0);
    assert_eq!(result("STDDEV_POP"), 1.0);
}

#[test]
fn a_function_that_does_not_exist_is_refused() {
    let calls = [call("MEDIAN", TypeRoot::Int, TypeRoot::Int)];
    assert!(AggregateSetSpec::new(&calls, true).is_err());
}

#[test]
fn a_value_taken_back_before_it_came_cancels() {
    let calls = [
        call("MAX", TypeRoot::Int, TypeRoot::Int),
        distinct(call("COUNT", TypeRoot::Int, TypeRoot::BigInt)),
    ];
    let spec = AggregateSetSpec::new(&calls, false).unwrap();
    let mut set = spec.create().unwrap();
    set.grow(1);
    let values = ints(&[Some(9), Some(4), Some(9)]);
    set.accumulate(&spec, &[0; 3], &[values], Some(&[-1, 1, 1]))
        .unwrap();
    let results = set.evaluate(&spec, &Groups::Range(0..1)).unwrap();
    assert_eq!(results, [ints(&[Some(4)]), bigints(&[Some(1)])]);
    assert!(set.present(&spec, &Groups::Range(0..1)).is_none());
    assert_eq!(results[0].data_type(), &DataType::Int32);
}
