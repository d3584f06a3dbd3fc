//! Timestamp columns as event times: whole milliseconds, rounded down where the column is finer.

use arrow::array::{Array, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};

use crate::error::{Error, Result};
use crate::types::EventTime;

/// The event time of each row of a TIMESTAMP or TIMESTAMP_LTZ column, in milliseconds. What stands at a NULL is arbitrary.
/// A column of milliseconds is not copied.
pub fn event_time_millis(column: &dyn Array) -> Result<ScalarBuffer<i64>> {
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => Ok(column
            .as_primitive::<TimestampMillisecondType>()
            .values()
            .clone()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(floor(
            column.as_primitive::<TimestampMicrosecondType>().values(),
            1_000,
        )),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Ok(floor(
            column.as_primitive::<TimestampNanosecondType>().values(),
            1_000_000,
        )),
        other => Err(Error::internal(format!(
            "a time attribute is a timestamp, not {other}"
        ))),
    }
}

/// The watermark that each row asks for, in milliseconds; a NULL asks for none and gives `EventTime::MIN`.
pub fn watermark_millis(column: &dyn Array) -> Result<ScalarBuffer<i64>> {
    let millis = event_time_millis(column)?;
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(millis);
    };
    let none = EventTime::MIN.millis();
    Ok((0..column.len())
        .map(|row| {
            if nulls.is_null(row) {
                none
            } else {
                millis[row]
            }
        })
        .collect())
}

fn floor(values: &[i64], unit: i64) -> ScalarBuffer<i64> {
    values.iter().map(|value| value.div_euclid(unit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{TimestampMicrosecondArray, TimestampNanosecondArray};

    #[test]
    fn finer_units_round_down_also_before_1970() {
        let micros = TimestampMicrosecondArray::from(vec![1_999, -1, 0]);
        assert_eq!(&*event_time_millis(&micros).unwrap(), &[1, -1, 0]);
        let nanos = TimestampNanosecondArray::from(vec![1_999_999, -1]);
        assert_eq!(&*event_time_millis(&nanos).unwrap(), &[1, -1]);
    }

    #[test]
    fn a_null_asks_for_no_watermark() {
        let micros = TimestampMicrosecondArray::from(vec![Some(5_000), None]);
        assert_eq!(&*watermark_millis(&micros).unwrap(), &[5, i64::MIN]);
    }
}
