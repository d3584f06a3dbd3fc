//! A table that takes upserts, keeps the rows that are there and counts how often one was written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::util::display::array_value_to_string;
use volley::config::{OptionSpec, OptionType};
use volley::connectors::{Committable, ConnectorFactory, Sink, SinkWriter, TableDescriptor};
use volley::operators::Subtask;
use volley::stream::{ChangelogBatch, CheckpointId};
use volley::types::{ChangelogMode, RowKind};
use volley::{Error, Result};

use super::twin::StoreDay;

/// The rows of a table by its first two columns, and how many were written.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    rows: BTreeMap<(String, String), Vec<String>>,
    writes: usize,
}

impl Ledger {
    /// Rows that came, each of them replacing the one before.
    pub(super) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    /// The rows that are there, as store-days.
    pub(super) fn store_days(&self) -> BTreeMap<(String, String), StoreDay> {
        let number = |cells: &[String], column: usize| cells[column].parse().unwrap();
        let day = |cells: &[String]| StoreDay {
            currency: cells[2].clone(),
            baskets: number(cells, 3),
            units: number(cells, 4),
            sales_minor: number(cells, 5),
        };
        let entries = self.0.lock().unwrap();
        let days = entries
            .rows
            .iter()
            .map(|(key, cells)| (key.clone(), day(cells)));
        days.collect()
    }

    fn take(&self, kind: RowKind, cells: Vec<String>) -> Result<()> {
        let mut entries = self.0.lock().unwrap();
        let key = (cells[0].clone(), cells[1].clone());
        match kind {
            RowKind::Insert | RowKind::UpdateAfter => {
                entries.writes += 1;
                entries.rows.insert(key, cells);
            }
            RowKind::Delete => drop(entries.rows.remove(&key)),
            RowKind::UpdateBefore => {
                return Err(Error::internal("-U came to a sink that takes upserts"));
            }
        }
        Ok(())
    }
}

/// `'connector' = 'ledger'`.
pub(super) struct LedgerFactory(pub(super) Arc<Ledger>);

impl ConnectorFactory for LedgerFactory {
    fn identifier(&self) -> &'static str {
        "ledger"
    }

    fn options(&self, _: &TableDescriptor) -> Vec<OptionSpec> {
        vec![OptionSpec::new(
            "connector",
            OptionType::Text,
            None,
            "`ledger`.",
        )]
    }

    fn sink_changelog_mode(&self, _: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(ChangelogMode::UPSERT)
    }

    fn create_sink(&self, table: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        assert_eq!(table.primary_key, [0, 1]);
        Ok(Arc::new(LedgerSink(self.0.clone())))
    }
}

struct LedgerSink(Arc<Ledger>);

impl Sink for LedgerSink {
    fn writer(&self, _: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(LedgerWriter(self.0.clone())))
    }

    fn commit(&self, _: &[Committable]) -> Result<()> {
        Ok(())
    }
}

struct LedgerWriter(Arc<Ledger>);

impl SinkWriter for LedgerWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        for row in 0..batch.num_rows() {
            let cells = batch
                .rows
                .columns()
                .iter()
                .map(|column| array_value_to_string(column, row));
            self.0.take(
                batch.kinds.get(row),
                cells.collect::<std::result::Result<_, _>>()?,
            )?;
        }
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }
}
