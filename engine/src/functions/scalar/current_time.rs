//! The clock and the watermark: CURRENT_TIMESTAMP and its kin, PROCTIME, CURRENT_WATERMARK.
//!
//! In a stream these are read for each row; the clock is read once a batch. The clock or watermark comes as the last
//! argument of the kernel (`registry::hidden_input`).

use arrow::array::ArrayRef;
use arrow::datatypes::*;

use crate::error::Result;
use crate::expr::calendar::{MILLIS_PER_DAY, MILLIS_PER_SECOND};
use crate::expr::cast::LocalClock;
use crate::expr::{Arguments, Call, Kernel, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("PROCTIME", bind_instant, |_| Ok(plain(now))).volatile(),
    ScalarFunction::new("CURRENT_TIMESTAMP", bind_instant, |_| Ok(plain(now))).volatile(),
    ScalarFunction::new("NOW", bind_instant, |_| Ok(plain(now))).volatile(),
    ScalarFunction::new("CURRENT_ROW_TIMESTAMP", bind_instant, |_| Ok(plain(now))).volatile(),
    ScalarFunction::new(
        "LOCALTIMESTAMP",
        |b| bind(b, TypeRoot::Timestamp(3)),
        local_timestamp,
    )
    .volatile(),
    ScalarFunction::new("CURRENT_DATE", |b| bind(b, TypeRoot::Date), local_date).volatile(),
    ScalarFunction::new("CURRENT_TIME", |b| bind(b, TypeRoot::Time(0)), local_time).volatile(),
    ScalarFunction::new("LOCALTIME", |b| bind(b, TypeRoot::Time(0)), local_time).volatile(),
    ScalarFunction::new("CURRENT_WATERMARK", bind_watermark, |_| {
        Ok(plain(watermark))
    })
    .volatile()
    .lenient(),
];

fn bind(binding: &mut Binding, root: TypeRoot) -> Result<LogicalType> {
    binding.count(0..=0)?;
    Ok(LogicalType::not_null(root))
}

fn bind_instant(binding: &mut Binding) -> Result<LogicalType> {
    bind(binding, TypeRoot::TimestampLtz(3))
}

fn now(arguments: &Arguments) -> Result<ArrayRef> {
    Ok(arguments.value(0).array.clone())
}

/// The wall clock of the session zone, in milliseconds.
fn local_clock(call: &Call) -> impl Fn(&Arguments, usize) -> i64 + Send + Sync + use<> {
    let zone = call.context.time_zone;
    move |arguments, row| {
        let now = arguments.primitives::<TimestampMillisecondType>(0).get(row);
        LocalClock::new(zone).local_of(now)
    }
}

fn local_timestamp(call: &Call) -> Result<Kernel> {
    let clock = local_clock(call);
    Ok(Box::new(move |arguments| {
        let now = clock(arguments, 0);
        Ok(arguments.map::<TimestampMillisecondType>(|_| now))
    }))
}

fn local_date(call: &Call) -> Result<Kernel> {
    let clock = local_clock(call);
    Ok(Box::new(move |arguments| {
        let day = clock(arguments, 0).div_euclid(MILLIS_PER_DAY);
        Ok(arguments.map::<Date32Type>(|_| day as i32))
    }))
}

fn local_time(call: &Call) -> Result<Kernel> {
    let clock = local_clock(call);
    Ok(Box::new(move |arguments| {
        let of_day = clock(arguments, 0).rem_euclid(MILLIS_PER_DAY);
        let seconds = of_day / MILLIS_PER_SECOND * MILLIS_PER_SECOND;
        Ok(arguments.map::<Time32MillisecondType>(|_| seconds as i32))
    }))
}

/// Of the type of the rowtime attribute that is asked for; NULL before the first watermark.
fn bind_watermark(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    match binding.root(0) {
        TypeRoot::Timestamp(_) => Ok(LogicalType::nullable(TypeRoot::Timestamp(3))),
        TypeRoot::TimestampLtz(_) => Ok(LogicalType::nullable(TypeRoot::TimestampLtz(3))),
        _ => Err(binding.wrong_argument(0, "a rowtime attribute")),
    }
}

fn watermark(arguments: &Arguments) -> Result<ArrayRef> {
    let watermarks = arguments.primitives::<Int64Type>(1);
    let values = (0..arguments.rows()).map(|row| {
        let watermark = watermarks.get(row);
        (watermark != i64::MIN).then_some(watermark)
    });
    let array = arrow::array::TimestampMillisecondArray::from_iter(values);
    Ok(std::sync::Arc::new(
        array.with_data_type(arguments.logical_type().to_arrow()),
    ))
}
