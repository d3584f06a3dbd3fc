//! Reads events: a split's position is the number of its next event.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::super::pace::Pace;
use super::events::{Event, EventKind, EventWalk, Share};
use super::generator::{Column, Generator};
use crate::connectors::source::PollRequest;
use crate::connectors::{Source, SourcePoll, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::types::RowKinds;

/// How a table is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceOptions {
    /// The kind of events that are rows; `None`: all.
    pub(super) only: Option<EventKind>,
    /// One past the last event number; `u64::MAX`: without end.
    pub(super) end: u64,
    /// Number of shares.
    pub(super) splits: u64,
    /// Events a second of the clock; `None`: as fast as they are taken.
    pub(super) rate_per_second: Option<u64>,
}

/// The table.
pub(super) struct NexmarkSource {
    options: SourceOptions,
    generator: Arc<Generator>,
    columns: Arc<[Column]>,
    schema: SchemaRef,
}

impl NexmarkSource {
    pub(super) fn new(
        options: SourceOptions,
        generator: Arc<Generator>,
        columns: Arc<[Column]>,
        schema: SchemaRef,
    ) -> Self {
        NexmarkSource {
            options,
            generator,
            columns,
            schema,
        }
    }
}

/// What a restore needs: the share stays the split's own even if the option `splits` has changed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Position {
    share: u64,
    of: u64,
    next: u64,
}

impl Position {
    fn into_split(self) -> Result<SplitState> {
        Ok(SplitState {
            id: split_id(self.share, self.of),
            position: serde_json::to_value(self).map_err(|error| {
                Error::internal(format!("a nexmark position cannot be written: {error}"))
            })?,
        })
    }
}

fn split_id(share: u64, of: u64) -> String {
    format!("events-{share}-of-{of}")
}

impl Source for NexmarkSource {
    fn is_bounded(&self) -> bool {
        self.options.end < u64::MAX
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        let of = self.options.splits;
        (0..of)
            .map(|share| Position { share, of, next: 0 }.into_split())
            .collect()
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        let row_bytes: u64 = self
            .columns
            .iter()
            .map(|column| self.generator.average_bytes(column))
            .sum();
        Ok(Box::new(NexmarkReader {
            options: self.options,
            generator: self.generator.clone(),
            columns: self.columns.clone(),
            schema: self.schema.clone(),
            row_bytes: row_bytes.max(1) as usize,
            splits: Vec::new(),
            ended: VecDeque::new(),
            pace: Pace::new(self.options.rate_per_second),
            events: Vec::new(),
        }))
    }
}

struct NexmarkReader {
    options: SourceOptions,
    generator: Arc<Generator>,
    columns: Arc<[Column]>,
    schema: SchemaRef,
    row_bytes: usize,
    splits: Vec<Split>,
    ended: VecDeque<String>,
    pace: Pace,
    /// Scratch.
    events: Vec<Event>,
}

struct Split {
    id: String,
    share: Share,
    walk: EventWalk,
}

impl NexmarkReader {
    /// The split that is furthest behind, so that splits keep together in event time.
    fn hindmost(&self) -> Option<usize> {
        (0..self.splits.len()).min_by_key(|split| self.splits[*split].walk.next_number())
    }

    fn batch(&self) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(|column| self.generator.column(column, &self.events))
            .collect::<Result<Vec<_>>>()?;
        let options =
            arrow::array::RecordBatchOptions::new().with_row_count(Some(self.events.len()));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }
}

impl SourceReader for NexmarkReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        for split in splits {
            let position: Position = serde_json::from_value(split.position).map_err(|error| {
                Error::data(format!(
                    "the position of nexmark split '{}' cannot be read: {error}",
                    split.id
                ))
            })?;
            let share = Share {
                index: position.share,
                of: position.of.max(1),
            };
            self.splits.push(Split {
                id: split.id,
                share,
                walk: EventWalk::new(
                    self.generator.proportions(),
                    share,
                    self.options.only,
                    position.next,
                ),
            });
        }
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let end = self.options.end;
        while let Some(ended) = self
            .splits
            .iter()
            .position(|split| split.walk.next_number() >= end)
        {
            self.ended.push_back(self.splits.remove(ended).id);
        }
        if let Some(id) = self.ended.pop_front() {
            return Ok(SourcePoll::SplitEnd(id));
        }
        let Some(index) = self.hindmost() else {
            return Ok(SourcePoll::End);
        };
        let next = self.splits[index].walk.next_number();
        let limit = self.pace.limit(next, request.now).min(end);
        let rows = request
            .max_rows
            .min(request.max_bytes / self.row_bytes + 1)
            .max(1);
        self.events.clear();
        let mut events = std::mem::take(&mut self.events);
        self.splits[index].walk.take(rows, limit, &mut events);
        self.events = events;
        if self.events.is_empty() {
            return Ok(SourcePoll::Pending {
                until: self.pace.due(next),
            });
        }
        Ok(SourcePoll::Rows {
            split: self.splits[index].id.clone(),
            rows: self.batch()?,
            kinds: RowKinds::INSERT_ONLY,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        self.splits
            .iter()
            .map(|split| {
                let state = Position {
                    share: split.share.index,
                    of: split.share.of,
                    next: split.walk.next_number(),
                };
                state.into_split()
            })
            .collect()
    }
}
