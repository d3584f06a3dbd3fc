//! LISTAGG: texts joined by a separator (default `,`), in order of arrival, NULLs left out. Input must only grow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};

use super::accumulator::{Accumulator, AggregateRows, clear};
use crate::error::Result;
use crate::state::{Groups, keep_at};

/// The joined text of each group, and the separator seen last (it is a literal of the query, held as a column).
#[derive(Default)]
pub(super) struct ListaggAccumulator {
    lists: Vec<Option<String>>,
    separators: Vec<Option<Box<str>>>,
    /// Bytes of all lists.
    bytes: usize,
}

impl ListaggAccumulator {
    fn append(&mut self, group: usize, text: &str, separator: &str) {
        match &mut self.lists[group] {
            Some(list) => {
                list.push_str(separator);
                list.push_str(text);
                self.bytes += separator.len() + text.len();
            }
            list => {
                *list = Some(text.to_string());
                self.bytes += text.len();
            }
        }
        if self.separators[group].as_deref() != Some(separator) {
            self.separators[group] = Some(separator.into());
        }
    }

    fn append_rows(&mut self, rows: &AggregateRows, mut behind: impl FnMut(&Self, usize)) {
        let texts = rows.arguments[0].as_string::<i32>();
        let separators = rows.arguments.get(1);
        let separators = separators.map(|column| column.as_string::<i32>());
        for (row, group) in rows.ids.iter().enumerate() {
            let group = *group as usize;
            if rows.mask.is_none_or(|mask| mask.value(row)) {
                let separator = separators.map_or(",", |column| column.value(row));
                self.append(group, texts.value(row), separator);
            }
            behind(self, group);
        }
    }
}

impl Accumulator for ListaggAccumulator {
    fn grow(&mut self, groups: usize) {
        self.lists.resize(groups, None);
        self.separators.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        self.append_rows(rows, |_, _| {});
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let mut lists = StringBuilder::new();
        self.append_rows(rows, |all, group| {
            lists.append_option(all.lists[group].as_deref());
        });
        Ok(Arc::new(lists.finish()))
    }

    fn reset(&mut self, groups: &[u32]) {
        let gone = groups.iter().flat_map(|group| &self.lists[*group as usize]);
        self.bytes -= gone.map(String::len).sum::<usize>();
        clear(&mut self.lists, groups);
        clear(&mut self.separators, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.lists, groups);
        keep_at(&mut self.separators, groups);
        self.bytes = self.lists.iter().flatten().map(String::len).sum();
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let texts = partials[0].as_string::<i32>();
        let separators = partials[1].as_string::<i32>();
        for (row, id) in ids.iter().enumerate() {
            if texts.is_valid(row) {
                self.append(*id as usize, texts.value(row), separators.value(row));
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let separators = groups.map(|group| self.separators[group].as_deref());
        Ok(vec![
            self.evaluate(groups)?,
            Arc::new(StringArray::from(separators)),
        ])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let lists = groups.map(|group| self.lists[group].as_deref());
        Ok(Arc::new(StringArray::from(lists)))
    }

    fn size_bytes(&self) -> usize {
        self.bytes
            + self.lists.capacity() * (size_of::<Option<String>>() + size_of::<Option<Box<str>>>())
    }
}
