//! Reads a savepoint back: what is asked for, after the file has been checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use base64::Engine;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::blob_file::BlobFile;
use super::manifest::{SAVEPOINT_FILE, SavepointManifest, SavepointOperator, SavepointTable};
use super::unsealed::disagreement;
use super::writer::SCHEMA_KEY;
use crate::blobs::{BlobStore, open_blobs};
use crate::checkpoint::{Damage, PlanFacts, RowCount, SnapshotReader, TableFacts, Verified};
use crate::error::{Error, Result};
use crate::state::{StateSnapshot, StateTable, TableScope, holds_job_rows};
use crate::stream::{CheckpointId, KeyGroupRange};

/// How many rows a batch has.
const BATCH_ROWS: usize = 8192;

/// See the file.
pub struct SavepointReader {
    blobs: Arc<dyn BlobStore>,
    manifest: SavepointManifest,
    /// The files that were found right.
    verified: Mutex<BTreeSet<String>>,
}

impl SavepointReader {
    /// The savepoint in a directory; `None` where there is none. Its files are checked when they are read.
    pub fn open(path: &str) -> Result<Option<Self>> {
        let found = Self::at(open_blobs(path)?)?;
        found
            .map(|found| found.map_err(Damage::into_error))
            .transpose()
    }

    /// The same with all of its files checked.
    pub fn verified(path: &str) -> Result<Option<Verified<Self>>> {
        let Some(found) = Self::at(open_blobs(path)?)? else {
            return Ok(None);
        };
        let reader = match found {
            Ok(reader) => reader,
            damaged => return Ok(Some(damaged)),
        };
        let damage = reader.damage()?;
        Ok(Some(damage.map_or(Ok(reader), Err)))
    }

    fn at(blobs: Arc<dyn BlobStore>) -> Result<Option<Verified<Self>>> {
        let Some(text) = blobs.get(SAVEPOINT_FILE)? else {
            return Ok(None);
        };
        let location = format!("{}/{SAVEPOINT_FILE}", blobs.location());
        let manifest = SavepointManifest::parse(&text, &location)?;
        Ok(Some(manifest.map(|manifest| SavepointReader {
            manifest,
            blobs,
            verified: Mutex::default(),
        })))
    }

    /// The first thing that is wrong with its files.
    fn damage(&self) -> Result<Option<Damage>> {
        let there = self.blobs.list("")?.into_iter();
        let there: BTreeMap<String, u64> = there.map(|blob| (blob.path, blob.bytes)).collect();
        let operators = self.manifest.operators.iter();
        for table in operators.flat_map(|operator| &operator.tables) {
            let Some(path) = &table.file else {
                continue;
            };
            if there.get(path) != Some(&table.bytes) {
                return Ok(Some(self.damage_of(path)));
            }
            let damage = self.damage_in(path, table)?;
            if damage.is_some() {
                return Ok(damage);
            }
        }
        Ok(None)
    }

    fn damage_of(&self, path: &str) -> Damage {
        Damage::of_savepoint(format!(
            "{}/{path} is damaged or missing: its length or checksum is not the manifest's",
            self.blobs.location()
        ))
    }

    /// What is wrong with a table's file, or with what the manifest says of it.
    fn damage_in(&self, path: &str, table: &SavepointTable) -> Result<Option<Damage>> {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.contains(path) {
            return Ok(None);
        }
        let file = self.blob(path, table);
        if file.checksum()?.as_deref() != Some(&table.checksum) {
            return Ok(Some(self.damage_of(path)));
        }
        if self.manifest.is_unsealed()
            && let Some(what) = disagreement(table, file, self.manifest.max_parallelism)?
        {
            return Ok(Some(self.damage_of_manifest(path, &what)));
        }
        verified.insert(path.to_string());
        Ok(None)
    }

    fn damage_of_manifest(&self, path: &str, what: &str) -> Damage {
        let location = self.blobs.location();
        Damage::of_savepoint(format!(
            "{location}/{SAVEPOINT_FILE} is damaged: it says of {path} that it has {what}"
        ))
    }

    fn blob(&self, path: &str, table: &SavepointTable) -> BlobFile {
        BlobFile {
            blobs: self.blobs.clone(),
            path: path.to_string(),
            bytes: table.bytes,
        }
    }

    /// What it consists of.
    pub fn manifest(&self) -> &SavepointManifest {
        &self.manifest
    }

    fn operator(&self, uid: &str) -> Option<&SavepointOperator> {
        self.manifest.operator(uid)
    }

    /// The file of a table, checked.
    fn file(&self, table: &SavepointTable) -> Result<Option<BlobFile>> {
        let Some(path) = &table.file else {
            return Ok(None);
        };
        match self.damage_in(path, table)? {
            None => Ok(Some(self.blob(path, table))),
            Some(damage) => Err(damage.into_error()),
        }
    }

    fn read_table(
        &self,
        table: &SavepointTable,
        range: KeyGroupRange,
        max_parallelism: u16,
    ) -> Result<Vec<RecordBatch>> {
        let Some(file) = self.file(table)? else {
            return Ok(Vec::new());
        };
        let mut builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let schema = exact_schema(&builder)?;
        if table.scope == TableScope::Keyed && max_parallelism == self.manifest.max_parallelism {
            let overlaps =
                |part: &KeyGroupRange| part.first <= range.last && range.first <= part.last;
            let parts = table.key_groups.iter().enumerate();
            let mine = parts
                .filter(|(_, part)| overlaps(part))
                .map(|(index, _)| index);
            builder = builder.with_row_groups(mine.collect());
        }
        let batches = builder.with_batch_size(BATCH_ROWS).build()?;
        batches
            .map(|batch| {
                Ok(RecordBatch::try_new(
                    schema.clone(),
                    batch?.columns().to_vec(),
                )?)
            })
            .collect()
    }
}

/// The schema that was written: with the names and types that Parquet may have changed.
fn exact_schema(builder: &ParquetRecordBatchReaderBuilder<BlobFile>) -> Result<SchemaRef> {
    let metadata = builder.metadata().file_metadata().key_value_metadata();
    let text = metadata
        .into_iter()
        .flatten()
        .find(|entry| entry.key == SCHEMA_KEY)
        .and_then(|entry| entry.value.as_deref())
        .ok_or_else(|| Error::external("a file of the savepoint lacks its schema"))?;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|error| {
            Error::external(format!("a schema in the savepoint is damaged: {error}"))
        })?;
    Ok(StreamReader::try_new(&bytes[..], None)?.schema())
}

impl SnapshotReader for SavepointReader {
    fn checkpoint(&self) -> CheckpointId {
        self.manifest.checkpoint
    }

    fn operators(&self) -> Vec<String> {
        let operators = self.manifest.operators.iter();
        operators.map(|operator| operator.uid.clone()).collect()
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        let holds_rows = |table: &SavepointTable| holds_job_rows(&table.name) && table.rows > 0;
        let operator = self.operator(uid);
        Ok(operator.is_some_and(|operator| operator.tables.iter().any(holds_rows)))
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        let mut state = StateSnapshot::default();
        let tables = self
            .operator(uid)
            .into_iter()
            .flat_map(|operator| &operator.tables);
        for table in tables {
            let batches = self.read_table(table, range, max_parallelism)?;
            let scope = table.scope;
            state
                .tables
                .insert(table.name.clone(), StateTable { scope, batches });
        }
        state.for_key_groups(range, max_parallelism)
    }

    /// The file that makes it one goes first.
    fn remove(&self) -> Result<()> {
        self.blobs.delete(SAVEPOINT_FILE)?;
        let tables = self.manifest.operators.iter();
        let files = tables.flat_map(|operator| &operator.tables);
        let mut files = files.filter_map(|table| table.file.as_ref());
        files.try_for_each(|file| self.blobs.delete(file))?;
        // The directory, too, where there are any.
        self.blobs.clear_unfinished("")
    }

    fn plan_facts(&self) -> Option<PlanFacts> {
        Some(self.manifest.plan_facts())
    }

    fn max_parallelism(&self) -> Option<u16> {
        Some(self.manifest.max_parallelism)
    }

    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        let mut facts = Vec::new();
        let tables = self
            .operator(uid)
            .into_iter()
            .flat_map(|operator| &operator.tables);
        for table in tables {
            let schema = match self.file(table)? {
                None => None,
                Some(file) => Some(exact_schema(&ParquetRecordBatchReaderBuilder::try_new(
                    file,
                )?)?),
            };
            facts.push(TableFacts {
                name: table.name.clone(),
                scope: table.scope,
                schema,
                rows: RowCount::exactly(table.rows),
                bytes: table.bytes,
            });
        }
        Ok(facts)
    }
}
