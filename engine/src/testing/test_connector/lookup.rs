//! Test tables that are looked up: what has been fed so far, by primary key.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};

use super::{Entry, EntryItem, TestBench, build_array};
use crate::connectors::TableDescriptor;
use crate::connectors::lookup::{
    AsyncLookupFunction, AsyncSupport, KeyIndex, LookupCache, LookupFunction, LookupHandle,
    LookupOptions, LookupRequest, LookupRows, LookupSource, answered, with_partial_cache,
};
use crate::error::{Error, Result};
use crate::testing::cell::Value;

/// The lookup of a table by some physical columns; refused unless it says `'lookup' = 'true'`.
pub(super) fn lookup_source(
    bench: &Arc<TestBench>,
    descriptor: &TableDescriptor,
    keys: &[usize],
) -> Result<Arc<dyn LookupSource>> {
    if descriptor.option("lookup") != Some("true") {
        return Err(
            Error::user(format!("table \"{}\" cannot be looked up", descriptor.name))
                .hint("set 'lookup' = 'true'"),
        );
    }
    let mut entries: Vec<Entry> = bench.entries(descriptor)?.into_iter().flatten().collect();
    entries.sort_by_key(|entry| entry.step);
    let cache = LookupOptions::of(descriptor)?.cache;
    let source = Arc::new(TestLookup {
        bench: bench.clone(),
        descriptor: descriptor.clone(),
        entries: Arc::new(entries),
        keys: keys.to_vec(),
        is_whole: matches!(cache, LookupCache::Full { .. }),
    });
    match cache {
        LookupCache::Partial(options) => {
            let fields = keys.iter().map(|key| &descriptor.physical.fields[*key]);
            let types: Vec<_> = fields.map(|field| field.logical_type.to_arrow()).collect();
            with_partial_cache(source, &types, options)
        }
        _ => Ok(source),
    }
}

#[derive(Clone)]
struct TestLookup {
    bench: Arc<TestBench>,
    descriptor: TableDescriptor,
    entries: Arc<Vec<Entry>>,
    keys: Vec<usize>,
    is_whole: bool,
}

impl LookupSource for TestLookup {
    fn function(&self) -> Result<Box<dyn LookupFunction>> {
        Ok(Box::new(self.clone()))
    }

    fn async_support(&self) -> AsyncSupport {
        AsyncSupport::OnRequest
    }

    fn async_function(&self, _: &Arc<dyn LookupSource>) -> Result<Box<dyn AsyncLookupFunction>> {
        Ok(Box::new(self.clone()))
    }

    fn is_remembered_whole(&self) -> bool {
        self.is_whole
    }
}

impl AsyncLookupFunction for TestLookup {
    fn start(&mut self, request: &LookupRequest) -> Result<Box<dyn LookupHandle>> {
        Ok(answered(self.lookup(request)?))
    }
}

impl LookupFunction for TestLookup {
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows> {
        let rows = self.rows()?;
        KeyIndex::new(&rows, &self.keys, &self.descriptor.projection)?.lookup(request.keys)
    }
}

impl TestLookup {
    /// The table as it stands: the rows fed so far, a later one in place of one with the same primary key.
    fn rows(&self) -> Result<RecordBatch> {
        let released = self.bench.lock().released;
        let key = |cells: &[Value]| -> Vec<Value> {
            let key = self.descriptor.primary_key.iter();
            key.map(|column| cells[*column].clone()).collect()
        };
        let mut table: Vec<&Vec<Value>> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.step < released) {
            let EntryItem::Row(kind, cells) = &entry.item else {
                continue;
            };
            let is_keyed = !self.descriptor.primary_key.is_empty();
            let same = |row: &&Vec<Value>| match is_keyed {
                true => key(row) == key(cells),
                false => *row == cells,
            };
            let known = table.iter().position(same);
            match (kind.is_accumulate(), known) {
                (true, Some(at)) if is_keyed => table[at] = cells,
                (true, _) => table.push(cells),
                (false, Some(at)) => drop(table.remove(at)),
                (false, None) => {}
            }
        }
        let physical = &self.descriptor.physical;
        let columns = physical.fields.iter().enumerate().map(|(column, field)| {
            let values: Vec<&Value> = table.iter().map(|cells| &cells[column]).collect();
            build_array(&values, &field.logical_type).map_err(Error::internal)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new(physical.to_arrow(), columns)?)
    }
}
