//! The values that conditions and measures ask of the rows of a match, as columns.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute;
use arrow::datatypes::DataType;

use super::batch_of;
use super::matcher::{Candidate, Match};
use crate::error::Result;
use crate::functions::Navigation;
use crate::functions::aggregate::AggregateSetSpec;
use crate::state::{Groups, RowSlab};

/// See the module.
pub(super) struct MatchValues {
    navigations: Vec<Navigation>,
    aggregates: Vec<Option<AggregateSetSpec>>,
    types: Vec<DataType>,
    freed: Vec<u32>,
}

impl MatchValues {
    pub(super) fn new(navigations: &[(Navigation, DataType)]) -> Result<Self> {
        let aggregates = navigations.iter().map(|(navigation, _)| match navigation {
            Navigation::Aggregate { call, .. } => {
                AggregateSetSpec::new(std::slice::from_ref(call), true).map(Some)
            }
            _ => Ok(None),
        });
        Ok(MatchValues {
            aggregates: aggregates.collect::<Result<_>>()?,
            navigations: navigations
                .iter()
                .map(|(navigation, _)| navigation.clone())
                .collect(),
            types: navigations
                .iter()
                .map(|(_, data_type)| data_type.clone())
                .collect(),
            freed: Vec::new(),
        })
    }

    /// Whether a value is that of the row itself, where it is a candidate for this step.
    pub(super) fn is_of_row(&self, column: usize, step: usize) -> bool {
        matches!(
            &self.navigations[column],
            Navigation::Last { variable, offset: 0, .. } if variable.is_none_or(|own| own == step)
        )
    }

    /// The values of rows that ask for nothing else.
    pub(super) fn of_rows(&self, read: &[usize], rows: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = vec![None; self.types.len()];
        for column in read {
            if let Navigation::Last { column: own, .. } = &self.navigations[*column] {
                columns[*column] = Some(rows.column(*own).clone());
            }
        }
        batch_of(&self.types, columns, rows.num_rows())
    }

    /// The values for a candidate: one row.
    pub(super) fn row(
        &self,
        read: &[usize],
        candidate: &Candidate,
        slab: &RowSlab,
    ) -> Result<RecordBatch> {
        let mut steps = candidate.steps.to_vec();
        steps.push(candidate.step as u16);
        let mut ids = candidate.ids.to_vec();
        ids.push(candidate.id);
        let tried = [Match { steps, ids }];
        self.of(read.iter().copied(), &tried, slab)
    }

    /// All values of matches: a row each.
    pub(super) fn of_matches(&self, matches: &[Match], slab: &RowSlab) -> Result<RecordBatch> {
        self.of(0..self.types.len(), matches, slab)
    }

    fn of(
        &self,
        read: impl Iterator<Item = usize>,
        matches: &[Match],
        slab: &RowSlab,
    ) -> Result<RecordBatch> {
        let mut columns = vec![None; self.types.len()];
        for column in read {
            columns[column] = Some(self.column(column, matches, slab)?);
        }
        batch_of(&self.types, columns, matches.len())
    }

    fn column(&self, column: usize, matches: &[Match], slab: &RowSlab) -> Result<ArrayRef> {
        match &self.navigations[column] {
            Navigation::First {
                variable,
                column: own,
                offset,
            } => {
                let ids = matches.iter().map(|found| found.nth(*variable, *offset));
                gather(slab, *own, ids.collect(), &self.types[column])
            }
            Navigation::Last {
                variable,
                column: own,
                offset,
            } => {
                let ids = matches
                    .iter()
                    .map(|found| found.nth_last(*variable, *offset));
                gather(slab, *own, ids.collect(), &self.types[column])
            }
            Navigation::Aggregate { variable, .. } => {
                let spec = self.aggregates[column]
                    .as_ref()
                    .expect("an aggregate has its spec");
                let (mut groups, mut ids) = (Vec::new(), Vec::new());
                for (group, found) in matches.iter().enumerate() {
                    let rows = found.rows(*variable);
                    ids.extend(rows);
                    groups.resize(ids.len(), group as u32);
                }
                let mut set = spec.create()?;
                set.grow(matches.len());
                let columns = slab.gather_columns(spec.columns(), &ids)?;
                set.accumulate(spec, &groups, &columns, None)?;
                let results = set.evaluate(spec, &Groups::Range(0..matches.len()))?;
                Ok(results[0].clone())
            }
        }
    }

    /// Rows that are dropped once the matches at hand are out.
    pub(super) fn free_later(&mut self, ids: Vec<u32>) {
        self.freed.extend(ids);
    }

    pub(super) fn take_freed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.freed)
    }
}

impl Match {
    /// The ids of the rows of a variable, or of all.
    fn rows(&self, variable: Option<usize>) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let belongs = move |step: u16| variable.is_none_or(|own| own == step as usize);
        self.steps
            .iter()
            .zip(&self.ids)
            .filter(move |(step, _)| belongs(**step))
            .map(|(_, id)| *id)
    }

    fn nth(&self, variable: Option<usize>, offset: usize) -> Option<u32> {
        self.rows(variable).nth(offset)
    }

    fn nth_last(&self, variable: Option<usize>, offset: usize) -> Option<u32> {
        self.rows(variable).rev().nth(offset)
    }
}

/// A column of rows, NULL where there is no row.
fn gather(
    slab: &RowSlab,
    column: usize,
    ids: Vec<Option<u32>>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let present: Vec<u32> = ids.iter().flatten().copied().collect();
    if present.is_empty() {
        return Ok(new_null_array(data_type, ids.len()));
    }
    let values = slab.gather_columns(&[column], &present)?.remove(0);
    if present.len() == ids.len() {
        return Ok(values);
    }
    let mut next = 0..;
    let indices: UInt32Array = ids.iter().map(|id| id.and_then(|_| next.next())).collect();
    Ok(compute::take(&values, &indices, None)?)
}
