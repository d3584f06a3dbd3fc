//! Writes a savepoint: operator by operator, key-group range by key-group range, the manifest last.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use base64::Engine;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::blob_file::BlobWriter;
use super::manifest::{
    SAVEPOINT_FILE, SavepointFacts, SavepointManifest, SavepointOperator, SavepointTable,
};
use crate::blobs::{BlobStore, open_blobs};
use crate::checkpoint::reader::PIECES;
use crate::checkpoint::{PlanFacts, SnapshotReader};
use crate::error::Result;
use crate::state::TableScope;
use crate::stream::KeyGroupRange;

/// The metadata key of a file under which the exact Arrow schema is: an Arrow IPC stream without batches, in Base64.
pub(super) const SCHEMA_KEY: &str = "volley.schema";
/// When a row group is long enough.
const ROW_GROUP_ROWS: usize = 1 << 17;
/// When it is large enough, in bytes.
const ROW_GROUP_BYTES: usize = 16 << 20;

/// Writes the state that `reader` gives to a new directory below `target`, a path or URL. `max_parallelism` is that of the job. Returns
/// where the savepoint is. Nothing there is a savepoint until the manifest is, which is put last.
pub fn write(
    reader: &dyn SnapshotReader,
    max_parallelism: u16,
    facts: &PlanFacts,
    target: &str,
) -> Result<String> {
    let directory = new_directory(&*open_blobs(target)?, &facts.job, reader)?;
    let location = format!("{}/{directory}", target.trim_end_matches('/'));
    write_in(reader, max_parallelism, facts, &location)?;
    Ok(location)
}

/// The same into `directory` itself, which holds nothing.
pub fn write_in(
    reader: &dyn SnapshotReader,
    max_parallelism: u16,
    facts: &PlanFacts,
    directory: &str,
) -> Result<()> {
    let writer = Writer {
        blobs: open_blobs(directory)?,
        reader,
        max_parallelism,
    };
    let mut operators = Vec::new();
    for uid in reader.operators() {
        operators.push(writer.operator(&uid, operators.len(), facts)?);
    }
    let facts = SavepointFacts {
        job: facts.job.clone(),
        sql: facts.sql.clone(),
        plan: facts.plan.clone(),
    };
    let manifest = SavepointManifest::new(reader.checkpoint(), max_parallelism, facts, operators);
    let text = manifest.to_json()?;
    writer.blobs.put(SAVEPOINT_FILE, Bytes::from(text))
}

/// A name that no savepoint has yet.
fn new_directory(blobs: &dyn BlobStore, job: &str, reader: &dyn SnapshotReader) -> Result<String> {
    let base = format!("savepoint-{}-{}", file_name(job), reader.checkpoint().0);
    let mut name = base.clone();
    let mut number = 2;
    while !blobs.list(&name)?.is_empty() {
        name = format!("{base}-{number}");
        number += 1;
    }
    Ok(name)
}

/// The name of a table's file, without its number.
fn table_file(name: &str) -> String {
    format!("{}.parquet", file_name(name))
}

/// Whether a file may be that of this table of this operator.
pub(super) fn is_file_of(path: &str, uid: &str, table: &str) -> bool {
    let numbered = |part: &str, name: &str| {
        let (number, rest) = part.split_once('-').unwrap_or_default();
        number.parse::<usize>().is_ok() && rest == name
    };
    let parts = path.split_once('/');
    parts.is_some_and(|(directory, file)| {
        numbered(directory, &file_name(uid)) && numbered(file, &table_file(table))
    })
}

/// A text as a part of a path.
fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = text
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    name.trim_start_matches('.').to_string()
}

struct Writer<'a> {
    blobs: Arc<dyn BlobStore>,
    reader: &'a dyn SnapshotReader,
    max_parallelism: u16,
}

impl Writer<'_> {
    fn operator(&self, uid: &str, number: usize, facts: &PlanFacts) -> Result<SavepointOperator> {
        let mut tables: BTreeMap<String, TableWriter> = BTreeMap::new();
        let pieces = KeyGroupRange::all(self.max_parallelism).pieces(PIECES);
        for (index, range) in pieces.into_iter().enumerate() {
            let state = self.reader.read(uid, range, self.max_parallelism)?;
            for (name, table) in state.tables {
                if table.scope == TableScope::Operator && index > 0 {
                    continue;
                }
                let known = tables.len();
                let writer = tables.entry(name).or_insert_with_key(|name| TableWriter {
                    // Several names may come to one; the numbers tell them apart.
                    path: format!(
                        "{number:02}-{}/{known:02}-{}",
                        file_name(uid),
                        table_file(name)
                    ),
                    scope: table.scope,
                    file: None,
                    rows: 0,
                    key_groups: Vec::new(),
                });
                for batch in table.batches.iter().filter(|batch| batch.num_rows() > 0) {
                    writer.write(&self.blobs, batch, range)?;
                }
            }
            tables.values_mut().try_for_each(TableWriter::end_range)?;
        }
        let tables = tables.into_iter().map(|(name, table)| table.finish(name));
        let known = facts.operator(uid);
        Ok(SavepointOperator {
            uid: uid.to_string(),
            name: known.map_or_else(|| uid.to_string(), |known| known.name.clone()),
            description: known.map_or_else(|| uid.to_string(), |known| known.description.clone()),
            columns: known.map_or_else(Default::default, |known| known.columns.clone()),
            tables: tables.collect::<Result<_>>()?,
        })
    }
}

/// One Parquet file in the making.
struct TableWriter {
    path: String,
    scope: TableScope,
    file: Option<(ArrowWriter<BlobWriter>, SchemaRef)>,
    rows: u64,
    /// Of each row group; the last one may be open.
    key_groups: Vec<KeyGroupRange>,
}

impl TableWriter {
    fn write(
        &mut self,
        blobs: &Arc<dyn BlobStore>,
        batch: &RecordBatch,
        range: KeyGroupRange,
    ) -> Result<()> {
        if self.file.is_none() {
            let schema = batch.schema();
            let columns = distinct_names(&schema);
            let blob = BlobWriter::new(blobs.clone(), &self.path)?;
            let writer = ArrowWriter::try_new(blob, columns.clone(), Some(properties(&schema)?))?;
            self.file = Some((writer, columns));
        }
        let Some((writer, columns)) = &mut self.file else {
            return Ok(());
        };
        if writer.in_progress_rows() == 0 {
            self.key_groups.push(range);
        }
        writer.write(&RecordBatch::try_new(
            columns.clone(),
            batch.columns().to_vec(),
        )?)?;
        self.rows += batch.num_rows() as u64;
        if let Some(last) = self.key_groups.last_mut() {
            last.last = range.last;
        }
        self.close_row_group(ROW_GROUP_ROWS, ROW_GROUP_BYTES)
    }

    /// A row group that is well filled does not go on into the next range: a restore then reads less that is not its own.
    fn end_range(&mut self) -> Result<()> {
        self.close_row_group(ROW_GROUP_ROWS / 8, ROW_GROUP_BYTES / 8)
    }

    fn close_row_group(&mut self, rows: usize, bytes: usize) -> Result<()> {
        if let Some((writer, _)) = &mut self.file
            && (writer.in_progress_rows() >= rows || writer.in_progress_size() >= bytes)
        {
            writer.flush()?;
        }
        Ok(())
    }

    fn finish(self, name: String) -> Result<SavepointTable> {
        let mut table = SavepointTable {
            name,
            scope: self.scope,
            file: None,
            rows: self.rows,
            bytes: 0,
            checksum: String::new(),
            key_groups: Vec::new(),
        };
        if let Some((writer, _)) = self.file {
            let written = writer.into_inner()?.complete()?;
            table.file = Some(self.path);
            table.bytes = written.bytes;
            table.checksum = written.checksum;
            if self.scope == TableScope::Keyed {
                table.key_groups = self.key_groups;
            }
        }
        Ok(table)
    }
}

/// The same columns under names of which each occurs once.
fn distinct_names(schema: &SchemaRef) -> SchemaRef {
    let mut names: Vec<String> = Vec::with_capacity(schema.fields().len());
    let fields = schema.fields().iter().map(|field| {
        let mut name = field.name().clone();
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{}_{number}", field.name());
            number += 1;
        }
        names.push(name.clone());
        field.as_ref().clone().with_name(name)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn properties(schema: &SchemaRef) -> Result<WriterProperties> {
    let stream = StreamWriter::try_new(Vec::new(), schema)?.into_inner()?;
    let text = base64::engine::general_purpose::STANDARD.encode(stream);
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(vec![KeyValue::new(SCHEMA_KEY.to_string(), text)]))
        .build())
}
