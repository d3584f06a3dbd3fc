//! Which rows of a batch an aggregate folds: where FILTER is TRUE and no argument is NULL. Made once a batch, not once a row.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};

use super::distinct::{DistinctBatch, DistinctRows, DistinctSet, Weights, take_all};
use crate::error::Result;
use crate::functions::AggregateCall;

pub(super) fn pick(columns: &[ArrayRef], indices: &[usize]) -> Vec<ArrayRef> {
    indices
        .iter()
        .map(|index| columns[*index].clone())
        .collect()
}

/// Whether a function takes NULLs like other values.
pub(super) fn takes_nulls(function: &str) -> bool {
    matches!(function, "ARRAY_AGG" | "SINGLE_VALUE")
}

/// The arguments whose NULL keeps a row out: all, but for the separator of LISTAGG.
pub(super) fn counted_arguments<'a>(
    call: &AggregateCall,
    arguments: &'a [ArrayRef],
) -> &'a [ArrayRef] {
    match call.function.as_str() {
        "LISTAGG" => &arguments[..1],
        function if takes_nulls(function) => &[],
        _ => arguments,
    }
}

/// The rows where the filter is TRUE and no argument is NULL; `None` where that is all of them.
pub(super) fn mask(arguments: &[ArrayRef], filter: Option<&ArrayRef>) -> Option<BooleanBuffer> {
    let mut mask = filter.map(true_rows);
    for nulls in arguments
        .iter()
        .filter_map(|argument| argument.logical_nulls())
    {
        if nulls.null_count() > 0 {
            let valid: &NullBuffer = &nulls;
            mask = Some(match mask {
                None => valid.inner().clone(),
                Some(mask) => &mask & valid.inner(),
            });
        }
    }
    mask
}

fn true_rows(filter: &ArrayRef) -> BooleanBuffer {
    let filter = filter.as_boolean();
    match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    }
}

/// A batch as a DISTINCT set reads it.
pub(super) struct DistinctInput<'a> {
    /// The group of each row.
    pub(super) ids: &'a [u32],
    /// The arguments of each row.
    pub(super) arguments: &'a [ArrayRef],
    /// See [`super::AggregateRows`].
    pub(super) weights: Option<&'a [i8]>,
    /// The FILTER of each variant.
    pub(super) filters: Vec<Option<BooleanBuffer>>,
    /// Whether NULL is a value.
    pub(super) takes_nulls: bool,
}

impl<'a> DistinctInput<'a> {
    pub(super) fn filters(
        filters: &[Option<usize>],
        columns: &[ArrayRef],
    ) -> Vec<Option<BooleanBuffer>> {
        filters
            .iter()
            .map(|filter| filter.map(|filter| true_rows(&columns[filter])))
            .collect()
    }

    /// Folds the rows that count.
    pub(super) fn fold(&self, set: &mut DistinctSet) -> Result<()> {
        self.with_rows(|rows, _| set.fold(&rows))
    }

    /// Folds the rows that count, with the results behind every row.
    pub(super) fn fold_running(&self, set: &mut DistinctSet) -> Result<Vec<ArrayRef>> {
        let batch = DistinctBatch {
            ids: self.ids,
            arguments: self.arguments,
        };
        self.with_rows(|rows, places| set.fold_running(&rows, places, &batch))
    }

    /// Hands the rows that count over, with their places in the batch where they are not all.
    fn with_rows<R>(
        &self,
        fold: impl FnOnce(DistinctRows, Option<&[u32]>) -> Result<R>,
    ) -> Result<R> {
        let not_null = if self.takes_nulls {
            &[]
        } else {
            self.arguments
        };
        let Some(kept) = kept_rows(mask(not_null, None), &self.filters) else {
            let rows = DistinctRows {
                ids: self.ids,
                arguments: self.arguments,
                weights: self.variants(None),
            };
            return fold(rows, None);
        };
        let places: Vec<u32> = kept.set_indices().map(|row| row as u32).collect();
        let ids: Vec<u32> = places.iter().map(|row| self.ids[*row as usize]).collect();
        let indices = UInt32Array::from(places.clone());
        let rows = DistinctRows {
            ids: &ids,
            arguments: &take_all(self.arguments, &indices)?,
            weights: self.variants(Some(&places)),
        };
        fold(rows, Some(&places))
    }

    /// How often the rows at `places` count for each variant.
    fn variants(&self, places: Option<&[u32]>) -> Vec<Weights<'static>> {
        let variant = |filter: &Option<BooleanBuffer>| {
            if filter.is_none() && self.weights.is_none() {
                return Weights::One;
            }
            let weight = |row: usize| {
                let counts = filter.as_ref().is_none_or(|filter| filter.value(row));
                let weight = self.weights.map_or(1, |weights| weights[row] as i64);
                if counts { weight } else { 0 }
            };
            Weights::Each(match places {
                None => (0..self.ids.len()).map(weight).collect(),
                Some(places) => places.iter().map(|row| weight(*row as usize)).collect(),
            })
        };
        self.filters.iter().map(variant).collect()
    }
}

/// The rows without NULL that at least one filter keeps; `None` where that is all of them.
fn kept_rows(
    without_null: Option<BooleanBuffer>,
    filters: &[Option<BooleanBuffer>],
) -> Option<BooleanBuffer> {
    let mut any: Option<BooleanBuffer> = None;
    for filter in filters {
        let Some(filter) = filter else {
            return without_null;
        };
        any = Some(any.map_or(filter.clone(), |any| &any | filter));
    }
    match (without_null, any) {
        (Some(mask), Some(any)) => Some(&mask & &any),
        (mask, any) => mask.or(any),
    }
}
