//! Reads generated rows: the one split's position is the number of its next row.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::super::pace::Pace;
use super::values::{CellGenerator, Now};
use crate::connectors::source::PollRequest;
use crate::connectors::{Source, SourcePoll, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::types::{ProcessingTime, RowKinds, TimeZone};

/// The table.
pub(super) struct DatagenSource {
    /// One past the last row; `u64::MAX`: without end.
    pub(super) end: u64,
    /// Rows a second; `None`: as many as are taken.
    pub(super) rate_per_second: Option<u64>,
    /// One a projected column.
    pub(super) generators: Arc<[CellGenerator]>,
    pub(super) schema: SchemaRef,
    pub(super) time_zone: TimeZone,
}

const SPLIT: &str = "rows";

fn split(next: u64) -> SplitState {
    SplitState {
        id: SPLIT.to_string(),
        position: next.into(),
    }
}

impl Source for DatagenSource {
    fn is_bounded(&self) -> bool {
        self.end < u64::MAX
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        Ok(vec![split(0)])
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        let row_bytes: usize = self
            .generators
            .iter()
            .map(CellGenerator::average_bytes)
            .sum();
        Ok(Box::new(DatagenReader {
            end: self.end,
            generators: self.generators.clone(),
            schema: self.schema.clone(),
            time_zone: self.time_zone,
            row_bytes: row_bytes.max(1),
            pace: Pace::new(self.rate_per_second),
            next: None,
        }))
    }
}

struct DatagenReader {
    end: u64,
    generators: Arc<[CellGenerator]>,
    schema: SchemaRef,
    time_zone: TimeZone,
    row_bytes: usize,
    pace: Pace,
    /// The next row, where this reader has the split and it has not ended.
    next: Option<u64>,
}

impl DatagenReader {
    fn batch(&self, rows: std::ops::Range<u64>, instant: ProcessingTime) -> Result<RecordBatch> {
        let cells: Vec<u64> = rows.collect();
        let now = Now {
            instant,
            zone: self.time_zone,
        };
        let columns = self
            .generators
            .iter()
            .map(|generator| generator.array(&cells, &now))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(cells.len()));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }
}

impl SourceReader for DatagenReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        for split in splits {
            let next = split.position.as_u64().ok_or_else(|| {
                Error::data(format!(
                    "the position {} of a datagen table is no row number",
                    split.position
                ))
            })?;
            self.next = Some(next);
        }
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let Some(next) = self.next else {
            return Ok(SourcePoll::End);
        };
        if next >= self.end {
            self.next = None;
            return Ok(SourcePoll::SplitEnd(SPLIT.to_string()));
        }
        let most = request
            .max_rows
            .min(request.max_bytes / self.row_bytes + 1)
            .max(1) as u64;
        let limit = self
            .pace
            .limit(next, request.now)
            .min(self.end)
            .min(next.saturating_add(most));
        if limit <= next {
            return Ok(SourcePoll::Pending {
                until: self.pace.due(next),
            });
        }
        let rows = self.batch(next..limit, request.now)?;
        self.next = Some(limit);
        Ok(SourcePoll::Rows {
            split: SPLIT.to_string(),
            rows,
            kinds: RowKinds::INSERT_ONLY,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        Ok(self.next.map(split).into_iter().collect())
    }
}
