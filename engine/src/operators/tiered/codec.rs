//! When the keys of an operator act and are forgotten, as the codec of their values asks for it.

use arrow::array::RecordBatch;

use crate::operators::{DueTime, KeyedState};
use crate::state::UnitTimes;

/// What an operator says of its own tables.
pub(super) struct Times<'a> {
    pub(super) keyed: &'a dyn KeyedState,
    pub(super) due_time: DueTime,
}

impl UnitTimes for Times<'_> {
    fn due(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        (self.due_time != DueTime::Never).then(|| self.keyed.due(table, rows))
    }

    fn expiries(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        self.keyed.expiries(table, rows)
    }
}
