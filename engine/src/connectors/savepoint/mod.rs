//! Reads the state of an operator out of a savepoint or a checkpoint, as a bounded table.
//!
//! Columns are found by name and brought to the declared types; a declared column that the state does not have is refused. A
//! keyed table is read a range of key groups at a time, each of which is a split.

mod reader;

use std::sync::Arc;

use self::reader::StateReader;
use super::{ConnectorFactory, Source, SourceReader, SplitState, TableDescriptor};
use crate::checkpoint::inspect::{find_operator, find_table, piece_count};
use crate::checkpoint::{SnapshotReader, TableFacts, open_snapshot};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "`savepoint`."),
    OptionSpec::new(
        "path",
        OptionType::Text,
        None,
        "The directory of a savepoint or checkpoint, or the one above several checkpoints for the latest; a path or URL.",
    ),
    OptionSpec::new(
        "operator",
        OptionType::Text,
        None,
        "The operator: its id, the beginning of it, or its name where only one has it. `volley state ls` lists them.",
    ),
    OptionSpec::new(
        "table",
        OptionType::Text,
        None,
        "The table of the operator; may be left out where it has only one.",
    ),
];

/// `'connector' = 'savepoint'`.
pub struct SavepointFactory;

impl ConnectorFactory for SavepointFactory {
    fn identifier(&self) -> &'static str {
        "savepoint"
    }

    fn options(&self, _: &TableDescriptor) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let snapshot: Arc<dyn SnapshotReader> = open_snapshot(descriptor.required("path")?)?.into();
        let about = |error: Error| error.context(format!("table \"{}\"", descriptor.name));
        let uid = find_operator(&*snapshot, descriptor.required("operator")?).map_err(about)?;
        let table = find_table(&*snapshot, &uid, descriptor.option("table")).map_err(about)?;
        check_columns(descriptor, &table)?;
        Ok(Arc::new(StateSource {
            snapshot,
            uid,
            table,
            descriptor: descriptor.clone(),
        }))
    }
}

fn check_columns(descriptor: &TableDescriptor, table: &TableFacts) -> Result<()> {
    let Some(schema) = &table.schema else {
        return Ok(());
    };
    for field in &descriptor.projected().fields {
        if schema.column_with_name(&field.name).is_none() {
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            return Err(Error::user(format!(
                "table \"{}\": the state has no column \"{}\"",
                descriptor.name, field.name
            ))
            .hint(format!("columns: {}", names.join(", "))));
        }
    }
    Ok(())
}

/// One table of state.
pub(super) struct StateSource {
    pub(super) snapshot: Arc<dyn SnapshotReader>,
    pub(super) uid: String,
    pub(super) table: TableFacts,
    pub(super) descriptor: TableDescriptor,
}

impl StateSource {
    fn shared(&self) -> Arc<StateSource> {
        Arc::new(StateSource {
            snapshot: self.snapshot.clone(),
            uid: self.uid.clone(),
            table: self.table.clone(),
            descriptor: self.descriptor.clone(),
        })
    }
}

impl Source for StateSource {
    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        let pieces = piece_count(&*self.snapshot, self.table.scope);
        let split = |piece: usize| SplitState {
            id: format!("{}.{}/{piece:05}", self.uid, self.table.name),
            position: serde_json::json!({"piece": piece, "rows": 0}),
        };
        Ok((0..pieces).map(split).collect())
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(StateReader::new(self.shared())))
    }
}
