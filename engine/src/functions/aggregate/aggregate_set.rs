//! All aggregates of a query over one set of groups: builds the accumulators, prepares their rows, gathers their results.
//!
//! Masks (FILTER, NULL arguments) are made once a batch, not once a row; DISTINCT aggregates over the same arguments share a
//! set; `COUNT(*)` is the number of rows, which is kept anyway where rows can be taken back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, StructArray};
use arrow::datatypes::{DataType, Field as ArrowField, Int64Type};

use super::accumulator::{Accumulator, AggregateRows};
use super::arrivals::{ArrivalsAccumulator, Finish as Arrivals};
use super::count::CountAccumulator;
use super::distinct::DistinctSet;
use super::first_last_value::{SingleValue, first_last_value};
use super::listagg::ListaggAccumulator;
use super::min_max::min_max;
use super::ordered_multiset::{Finish as Multiset, ordered_multiset};
use super::row_selection::{DistinctInput, counted_arguments, mask, pick, takes_nulls};
use super::sum::{DecimalSumAccumulator, DoubleSumAccumulator, Finish, IntegerSumAccumulator};
use super::variance::{Spread, VarianceAccumulator};
use crate::error::{Error, Result};
use crate::functions::AggregateCall;
use crate::state::{AGGREGATE_PART, Groups, ROWS_PART, STATE_PART, keep_at};
use crate::types::{Field, LogicalType, RowField, TypeRoot};

/// What an [`AggregateSet`] computes: made once for an operator.
#[derive(Debug, Clone)]
pub struct AggregateSetSpec {
    insert_only: bool,
    columns: Vec<usize>,
    /// What each of `columns` holds, for the names of states.
    column_texts: Vec<String>,
    results: Vec<ResultSource>,
    track_rows: bool,
    plain: Vec<AggregateCall>,
    distinct: Vec<DistinctSpec>,
}

/// Where the result of a call comes from.
#[derive(Debug, Clone, Copy)]
enum ResultSource {
    Rows,
    Plain(usize),
    Distinct { set: usize, index: usize },
}

#[derive(Debug, Clone)]
struct DistinctSpec {
    arguments: Vec<usize>,
    argument_types: Vec<LogicalType>,
    filters: Vec<Option<usize>>,
    takes_nulls: bool,
    calls: Vec<(usize, AggregateCall)>,
}

impl AggregateSetSpec {
    /// For these calls. `insert_only` says that no row is ever taken back, which lets MIN and MAX keep one value.
    /// Fails where a function does not exist or cannot take rows back.
    pub fn new(calls: &[AggregateCall], insert_only: bool) -> Result<Self> {
        let mut spec = AggregateSetSpec {
            insert_only,
            column_texts: needed_columns(calls)
                .iter()
                .map(|column| format!("${column}"))
                .collect(),
            columns: needed_columns(calls),
            results: Vec::new(),
            track_rows: !insert_only,
            plain: Vec::new(),
            distinct: Vec::new(),
        };
        for call in calls {
            accumulator(call, insert_only)?;
            let call = spec.over_own_columns(call);
            let result = spec.place(call);
            spec.results.push(result);
        }
        Ok(spec)
    }

    fn over_own_columns(&self, call: &AggregateCall) -> AggregateCall {
        let own = |column: &usize| {
            self.columns
                .binary_search(column)
                .expect("the columns of all calls were collected")
        };
        AggregateCall {
            arguments: call.arguments.iter().map(own).collect(),
            filter: call.filter.as_ref().map(own),
            ..call.clone()
        }
    }

    fn place(&mut self, call: AggregateCall) -> ResultSource {
        // A value that comes twice is no smaller or greater.
        let distinct = call.distinct && !matches!(call.function.as_str(), "MIN" | "MAX");
        if distinct && !call.arguments.is_empty() {
            return self.place_distinct(call);
        }
        if call.function == "COUNT" && call.arguments.is_empty() && call.filter.is_none() {
            self.track_rows = true;
            return ResultSource::Rows;
        }
        self.plain.push(call);
        ResultSource::Plain(self.plain.len() - 1)
    }

    fn place_distinct(&mut self, call: AggregateCall) -> ResultSource {
        let found = self.distinct.iter().position(|set| {
            set.arguments == call.arguments
                && set.argument_types == call.argument_types
                && set.takes_nulls == takes_nulls(&call.function)
        });
        let set = found.unwrap_or_else(|| {
            self.distinct.push(DistinctSpec {
                arguments: call.arguments.clone(),
                argument_types: call.argument_types.clone(),
                filters: Vec::new(),
                takes_nulls: takes_nulls(&call.function),
                calls: Vec::new(),
            });
            self.distinct.len() - 1
        });
        let spec = &mut self.distinct[set];
        let variant = spec
            .filters
            .iter()
            .position(|filter| *filter == call.filter);
        let variant = variant.unwrap_or_else(|| {
            spec.filters.push(call.filter);
            spec.filters.len() - 1
        });
        spec.calls.push((variant, call));
        ResultSource::Distinct {
            set,
            index: spec.calls.len() - 1,
        }
    }

    /// The input columns that the calls read, ascending: what [`AggregateSet::accumulate`] wants to be given.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The columns of a partial: what travels between phases and into snapshots.
    pub fn partial_fields(&self) -> Vec<Field> {
        let bigint = || LogicalType::not_null(TypeRoot::BigInt);
        let mut fields = Vec::new();
        if self.track_rows {
            fields.push(Field::new("count1", bigint()));
        }
        for (index, call) in self.plain.iter().enumerate() {
            let types = partial_types(call, self.insert_only);
            for (part, logical_type) in types.into_iter().enumerate() {
                let name = format!("{}${index}_{part}", call.function.to_lowercase());
                fields.push(Field::new(name, logical_type));
            }
        }
        for (index, set) in self.distinct.iter().enumerate() {
            fields.push(Field::new(format!("distinct${index}"), set.partial_type()));
        }
        fields
    }

    /// Names states by what the columns of the input hold (`price`, `UPPER(name)`) rather than by their numbers, so that another
    /// query finds them again: [`AggregateSetSpec::state_fields`].
    pub fn with_column_texts(mut self, texts: &[String]) -> Self {
        let own = self.columns.iter().map(|column| texts[*column].clone());
        self.column_texts = own.collect();
        self
    }

    /// The columns of a partial in a snapshot: the same as [`AggregateSetSpec::partial_fields`], named by what each aggregate computes.
    /// A column that a snapshot lacks begins as an aggregate over no rows: NULL where the field is nullable, zero or
    /// nothing where it is not ([`STATE_PART`] says where it may).
    pub fn state_fields(&self) -> Vec<ArrowField> {
        let mut names = Vec::new();
        if self.track_rows {
            names.push("COUNT(*)".to_string());
        }
        for call in &self.plain {
            let text = self.text_of(call);
            let parts = partial_types(call, self.insert_only).len();
            names.extend(
                part_names(call, parts)
                    .iter()
                    .map(|part| format!("{text}{part}")),
            );
        }
        names.extend(self.distinct.iter().map(|set| self.text_of_set(set)));
        let types = self
            .partial_fields()
            .into_iter()
            .map(|field| field.logical_type);
        let sets = self.distinct.iter().map(|set| self.state_type(set));
        let plain = types.take(names.len() - self.distinct.len());
        let fields = plain.chain(sets).zip(names).enumerate();
        let is_rows = |index: usize| index == 0 && self.track_rows && !self.insert_only;
        fields
            .map(|(index, (logical_type, name))| {
                let part = if is_rows(index) {
                    ROWS_PART
                } else {
                    AGGREGATE_PART
                };
                logical_type
                    .to_arrow_field(&name)
                    .with_metadata([(STATE_PART.to_string(), part.to_string())].into())
            })
            .collect()
    }

    /// Partials as the columns that [`AggregateSetSpec::state_fields`] names.
    pub fn state_columns(&self, mut partials: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let first = partials.len() - self.distinct.len();
        for (column, set) in partials[first..].iter_mut().zip(&self.distinct) {
            *column = renamed_entries(column, &self.state_type(set).to_arrow())?;
        }
        Ok(partials)
    }

    fn text_of(&self, call: &AggregateCall) -> String {
        call.described(&|column| self.column_texts[column].clone())
    }

    fn text_of_set(&self, set: &DistinctSpec) -> String {
        let arguments = set
            .arguments
            .iter()
            .map(|column| self.column_texts[*column].as_str());
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let nulls = if set.takes_nulls { " WITH NULLS" } else { "" };
        format!("DISTINCT {arguments}{nulls}")
    }

    /// The type of a set's partial with the counts named by their filters.
    fn state_type(&self, set: &DistinctSpec) -> LogicalType {
        let names = set.filters.iter().map(|filter| match filter {
            None => "count".to_string(),
            Some(column) => format!("count FILTER {}", self.column_texts[*column]),
        });
        set.partial_type_named(&names.collect::<Vec<_>>())
    }

    /// How many rows came less rows that went, by partial; `None` where that is not kept.
    pub fn row_counts<'a>(&self, partials: &'a [ArrayRef]) -> Option<&'a [i64]> {
        let counts = partials.first().filter(|_| self.track_rows)?;
        Some(counts.as_primitive::<Int64Type>().values())
    }

    /// An empty set of states.
    pub fn create(&self) -> Result<AggregateSet> {
        let of = |call: &AggregateCall| accumulator(call, self.insert_only);
        let distinct = self.distinct.iter().map(|set| {
            let types: Vec<DataType> = set
                .argument_types
                .iter()
                .map(LogicalType::to_arrow)
                .collect();
            let aggregates: Result<Vec<_>> = set
                .calls
                .iter()
                .map(|(variant, call)| Ok((*variant, of(call)?)))
                .collect();
            DistinctSet::new(&types, set.filters.len(), aggregates?)
        });
        Ok(AggregateSet {
            groups: 0,
            rows: self.track_rows.then(Vec::new),
            plain: self.plain.iter().map(of).collect::<Result<_>>()?,
            distinct: distinct.collect::<Result<_>>()?,
        })
    }
}

impl DistinctSpec {
    fn input<'a>(
        &self,
        ids: &'a [u32],
        columns: &[ArrayRef],
        arguments: &'a [ArrayRef],
        weights: Option<&'a [i8]>,
    ) -> DistinctInput<'a> {
        DistinctInput {
            ids,
            arguments,
            weights,
            filters: DistinctInput::filters(&self.filters, columns),
            takes_nulls: self.takes_nulls,
        }
    }

    fn partial_type(&self) -> LogicalType {
        let counts = (0..self.filters.len()).map(|index| format!("n{index}"));
        self.partial_type_named(&counts.collect::<Vec<_>>())
    }

    fn partial_type_named(&self, counts: &[String]) -> LogicalType {
        let values = self
            .argument_types
            .iter()
            .enumerate()
            .map(|(index, value)| RowField {
                name: format!("v{index}"),
                logical_type: value.with_nullable(true),
            });
        let counts = counts.iter().map(|name| RowField {
            name: name.clone(),
            logical_type: LogicalType::not_null(TypeRoot::BigInt),
        });
        let row = LogicalType::not_null(TypeRoot::Row(values.chain(counts).collect()));
        LogicalType::not_null(TypeRoot::Array(Box::new(row)))
    }
}

/// The same lists of rows under other names of the rows' fields.
fn renamed_entries(lists: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let (DataType::List(item), lists) = (data_type, lists.as_list::<i32>()) else {
        return Err(Error::internal("values of DISTINCT are lists"));
    };
    let DataType::Struct(fields) = item.data_type() else {
        return Err(Error::internal("values of DISTINCT are rows"));
    };
    let columns = lists.values().as_struct().columns().to_vec();
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(ListArray::try_new(
        item.clone(),
        lists.offsets().clone(),
        Arc::new(entries),
        lists.nulls().cloned(),
    )?))
}

/// What the parts of a call's state are called, behind what the call computes.
fn part_names(call: &AggregateCall, parts: usize) -> &'static [&'static str] {
    match (call.function.as_str(), parts) {
        (_, 1) => &[""],
        ("SUM" | "AVG" | "$SUM0", _) => &[".sum", ".count"],
        ("SINGLE_VALUE", _) => &[".value", ".count"],
        ("LISTAGG", 2) => &[".text", ".separator"],
        ("FIRST_VALUE" | "LAST_VALUE" | "ARRAY_AGG", _) => &[".values", ".missing"],
        ("LISTAGG", _) => &[".values", ".missing", ".separator"],
        _ => &[".count", ".mean", ".squares"],
    }
}

fn needed_columns(calls: &[AggregateCall]) -> Vec<usize> {
    let mut columns: Vec<usize> = calls
        .iter()
        .flat_map(|call| call.arguments.iter().copied().chain(call.filter))
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The accumulator of a call. DISTINCT is not its matter.
fn accumulator(call: &AggregateCall, insert_only: bool) -> Result<Box<dyn Accumulator>> {
    let name = call.function.as_str();
    let argument = call.argument_types.first().map(|argument| &argument.root);
    let Some(argument) = argument else {
        return match name {
            "COUNT" => Ok(Box::new(CountAccumulator::default())),
            _ => Err(Error::internal(format!("{name} without an argument"))),
        };
    };
    Ok(match name {
        "COUNT" => Box::new(CountAccumulator::default()),
        "SUM" => sum(Finish::Sum, argument, &call.logical_type)?,
        "$SUM0" => sum(Finish::SumZero, argument, &call.logical_type)?,
        "AVG" => sum(Finish::Average, argument, &call.logical_type)?,
        "MIN" | "MAX" if insert_only => min_max(&argument.to_arrow(), name == "MAX")?,
        "MIN" => ordered_multiset(&argument.to_arrow(), Multiset::Min)?,
        "MAX" => ordered_multiset(&argument.to_arrow(), Multiset::Max)?,
        "COLLECT" => ordered_multiset(&argument.to_arrow(), Multiset::Collect)?,
        "SINGLE_VALUE" => Box::new(SingleValue::new(&argument.to_arrow())?),
        "VAR_POP" | "VAR_SAMP" | "VARIANCE" | "STDDEV_POP" | "STDDEV_SAMP" => {
            let spread = Spread {
                sample: !name.ends_with("_POP"),
                deviation: name.starts_with("STDDEV"),
            };
            Box::new(VarianceAccumulator::new(
                spread,
                call.logical_type.to_arrow(),
            ))
        }
        "FIRST_VALUE" if insert_only => first_last_value(&argument.to_arrow(), false)?,
        "LAST_VALUE" if insert_only => first_last_value(&argument.to_arrow(), true)?,
        "LISTAGG" if insert_only => Box::new(ListaggAccumulator::default()),
        "FIRST_VALUE" | "LAST_VALUE" | "LISTAGG" | "ARRAY_AGG" => Box::new(
            ArrivalsAccumulator::new(&argument.to_arrow(), arrivals_finish(name))?,
        ),
        _ => return Err(Error::unsupported(format!("the aggregate function {name}"))),
    })
}

fn arrivals_finish(name: &str) -> Arrivals {
    match name {
        "FIRST_VALUE" => Arrivals::First,
        "LAST_VALUE" => Arrivals::Last,
        "ARRAY_AGG" => Arrivals::Array,
        _ => Arrivals::Text,
    }
}

fn sum(finish: Finish, argument: &TypeRoot, result: &LogicalType) -> Result<Box<dyn Accumulator>> {
    let arrow = result.to_arrow();
    Ok(match (argument, &result.root) {
        (TypeRoot::Decimal { scale, .. }, TypeRoot::Decimal { scale: result, .. }) => Box::new(
            DecimalSumAccumulator::new(finish, *scale as i8, *result as i8),
        ),
        (TypeRoot::Float | TypeRoot::Double, TypeRoot::Float | TypeRoot::Double) => {
            Box::new(DoubleSumAccumulator::new(finish, arrow))
        }
        (argument, result) if argument.is_integer() && result.is_integer() => {
            Box::new(IntegerSumAccumulator::new(finish, arrow))
        }
        (argument, result) => {
            return Err(Error::internal(format!("a sum of {argument} as {result}")));
        }
    })
}

/// The types of the columns of [`Accumulator::partials`].
fn partial_types(call: &AggregateCall, insert_only: bool) -> Vec<LogicalType> {
    let bigint = || LogicalType::not_null(TypeRoot::BigInt);
    let double = || LogicalType::not_null(TypeRoot::Double);
    let argument = call.argument_types.first();
    match call.function.as_str() {
        "SUM" | "AVG" | "$SUM0" => {
            let sum = match argument.map(|argument| &argument.root) {
                Some(TypeRoot::Decimal { scale, .. }) => LogicalType::nullable(TypeRoot::Decimal {
                    precision: 38,
                    scale: *scale,
                }),
                Some(TypeRoot::Float | TypeRoot::Double) => double(),
                _ => bigint(),
            };
            vec![sum, bigint()]
        }
        "COLLECT" => argument
            .map(|argument| count_map(argument, bigint()))
            .into_iter()
            .collect(),
        "MIN" | "MAX" if !insert_only => argument
            .map(|argument| count_map(argument, bigint()))
            .into_iter()
            .collect(),
        "FIRST_VALUE" | "LAST_VALUE" | "LISTAGG" if !insert_only => arrival_types(call),
        "ARRAY_AGG" => arrival_types(call),
        "SINGLE_VALUE" => argument
            .map(|argument| argument.with_nullable(true))
            .into_iter()
            .chain([bigint()])
            .collect(),
        "MIN" | "MAX" | "FIRST_VALUE" | "LAST_VALUE" => argument
            .map(|argument| argument.with_nullable(true))
            .into_iter()
            .collect(),
        "LISTAGG" => vec![LogicalType::STRING, LogicalType::STRING],
        "COUNT" => vec![bigint()],
        _ => vec![bigint(), double(), double()],
    }
}

fn count_map(key: &LogicalType, count: LogicalType) -> LogicalType {
    let key = Box::new(key.with_nullable(false));
    LogicalType::not_null(TypeRoot::Map(key, Box::new(count)))
}

/// Values, missing values, and the separator of LISTAGG.
fn arrival_types(call: &AggregateCall) -> Vec<LogicalType> {
    let list = |argument: &LogicalType| {
        LogicalType::not_null(TypeRoot::Array(Box::new(argument.with_nullable(true))))
    };
    let lists = call.argument_types.first().map(list);
    let mut types: Vec<LogicalType> = lists.iter().chain(&lists).cloned().collect();
    if call.function == "LISTAGG" {
        types.push(LogicalType::STRING);
    }
    types
}

/// The states of all aggregates of a query for groups numbered from 0.
pub struct AggregateSet {
    groups: usize,
    /// Rows that came less rows that went.
    rows: Option<Vec<i64>>,
    plain: Vec<Box<dyn Accumulator>>,
    distinct: Vec<DistinctSet>,
}

impl AggregateSet {
    /// Makes room for the groups `0 .. groups`.
    pub fn grow(&mut self, groups: usize) {
        if groups <= self.groups {
            return;
        }
        self.groups = groups;
        if let Some(rows) = &mut self.rows {
            rows.resize(groups, 0);
        }
        self.plain.iter_mut().for_each(|plain| plain.grow(groups));
        self.distinct.iter_mut().for_each(|set| set.grow(groups));
    }

    /// Folds rows into the groups `ids`, which exist. `columns` are the input columns [`AggregateSetSpec::columns`]; `weights` say
    /// which rows come (+1) and which are taken back (-1), absent where all come.
    pub fn accumulate(
        &mut self,
        spec: &AggregateSetSpec,
        ids: &[u32],
        columns: &[ArrayRef],
        weights: Option<&[i8]>,
    ) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            count_rows(rows, ids, weights);
        }
        for (accumulator, call) in self.plain.iter_mut().zip(&spec.plain) {
            let arguments = pick(columns, &call.arguments);
            let filter = call.filter.map(|filter| &columns[filter]);
            accumulator.accumulate(&AggregateRows {
                ids,
                arguments: &arguments,
                weights,
                mask: mask(counted_arguments(call, &arguments), filter).as_ref(),
            })?;
        }
        for (set, spec) in self.distinct.iter_mut().zip(&spec.distinct) {
            let arguments = pick(columns, &spec.arguments);
            spec.input(ids, columns, &arguments, weights).fold(set)?;
        }
        Ok(())
    }

    /// Folds rows as [`AggregateSet::accumulate`] does. Returns the results of each row's group right behind the row, a column a
    /// call.
    pub fn accumulate_running(
        &mut self,
        spec: &AggregateSetSpec,
        ids: &[u32],
        columns: &[ArrayRef],
        weights: Option<&[i8]>,
    ) -> Result<Vec<ArrayRef>> {
        let rows: Option<ArrayRef> = self.rows.as_mut().map(|rows| {
            let counts = count_rows_running(rows, ids, weights);
            Arc::new(Int64Array::from(counts)) as ArrayRef
        });
        let mut plain = Vec::with_capacity(self.plain.len());
        for (accumulator, call) in self.plain.iter_mut().zip(&spec.plain) {
            let arguments = pick(columns, &call.arguments);
            let filter = call.filter.map(|filter| &columns[filter]);
            plain.push(accumulator.accumulate_running(&AggregateRows {
                ids,
                arguments: &arguments,
                weights,
                mask: mask(counted_arguments(call, &arguments), filter).as_ref(),
            })?);
        }
        let mut distinct = Vec::with_capacity(self.distinct.len());
        for (set, spec) in self.distinct.iter_mut().zip(&spec.distinct) {
            let arguments = pick(columns, &spec.arguments);
            let input = spec.input(ids, columns, &arguments, weights);
            distinct.push(input.fold_running(set)?);
        }
        let of = |result: &ResultSource| match result {
            ResultSource::Rows => rows.clone().expect("COUNT(*) has rows tracked"),
            ResultSource::Plain(index) => plain[*index].clone(),
            ResultSource::Distinct { set, index } => distinct[*set][*index].clone(),
        };
        Ok(spec.results.iter().map(of).collect())
    }

    /// Makes groups empty again.
    pub fn reset(&mut self, groups: &[u32]) {
        if groups.is_empty() {
            return;
        }
        if let Some(rows) = &mut self.rows {
            groups.iter().for_each(|group| rows[*group as usize] = 0);
        }
        let plain = self.plain.iter_mut();
        plain.for_each(|accumulator| accumulator.reset(groups));
        self.distinct.iter_mut().for_each(|set| set.reset(groups));
    }

    /// Forgets all groups but these, given ascending, which get the numbers of their places here.
    pub fn keep(&mut self, groups: &[u32]) -> Result<()> {
        self.groups = groups.len();
        if let Some(rows) = &mut self.rows {
            keep_at(rows, groups);
        }
        let plain = self.plain.iter_mut();
        plain.for_each(|accumulator| accumulator.keep(groups));
        self.distinct
            .iter_mut()
            .try_for_each(|set| set.keep(groups))
    }

    /// Folds partials into the groups `ids`, which exist. `partials` are columns as [`AggregateSet::partials`] makes them.
    pub fn merge(
        &mut self,
        spec: &AggregateSetSpec,
        ids: &[u32],
        partials: &[ArrayRef],
    ) -> Result<()> {
        let mut rest = partials;
        let mut next = |count: usize| {
            let (now, later) = rest.split_at(count);
            rest = later;
            now
        };
        if let Some(rows) = &mut self.rows {
            let more = next(1)[0].as_primitive::<Int64Type>().values();
            for (id, more) in ids.iter().zip(more) {
                rows[*id as usize] += more;
            }
        }
        for (accumulator, call) in self.plain.iter_mut().zip(&spec.plain) {
            let columns = partial_types(call, spec.insert_only).len();
            accumulator.merge(ids, next(columns))?;
        }
        for set in &mut self.distinct {
            set.merge(ids, &next(1)[0])?;
        }
        Ok(())
    }

    /// The states of groups as columns, typed as [`AggregateSetSpec::partial_fields`].
    pub fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if let Some(rows) = &self.rows {
            columns.push(Arc::new(Int64Array::from(groups.gather(rows))));
        }
        for accumulator in &self.plain {
            columns.extend(accumulator.partials(groups)?);
        }
        for set in &self.distinct {
            columns.push(set.partial(groups)?);
        }
        Ok(columns)
    }

    /// The results of groups, in the order of the calls.
    pub fn evaluate(&self, spec: &AggregateSetSpec, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let of = |result: &ResultSource| -> Result<ArrayRef> {
            match result {
                ResultSource::Rows => {
                    let rows = self.rows.as_ref().expect("COUNT(*) has rows tracked");
                    Ok(Arc::new(Int64Array::from(groups.gather(rows))))
                }
                ResultSource::Plain(index) => self.plain[*index].evaluate(groups),
                ResultSource::Distinct { set, index } => {
                    self.distinct[*set].evaluate(*index, groups)
                }
            }
        };
        spec.results.iter().map(of).collect()
    }

    /// The groups that have a row left; `None` where all have.
    pub fn present(&self, spec: &AggregateSetSpec, groups: &Groups) -> Option<BooleanArray> {
        let rows = self.rows.as_ref().filter(|_| !spec.insert_only)?;
        let present = groups.map(|group| rows[group] > 0);
        present
            .iter()
            .any(|present| !present)
            .then(|| BooleanArray::from(present))
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        let rows = self.rows.as_ref().map_or(0, |rows| rows.capacity() * 8);
        let plain: usize = self.plain.iter().map(|plain| plain.size_bytes()).sum();
        let distinct: usize = self.distinct.iter().map(DistinctSet::size_bytes).sum();
        rows + plain + distinct
    }
}

fn count_rows_running(rows: &mut [i64], ids: &[u32], weights: Option<&[i8]>) -> Vec<i64> {
    let mut count = |id: &u32, weight: i64| {
        let count = &mut rows[*id as usize];
        *count += weight;
        *count
    };
    match weights {
        None => ids.iter().map(|id| count(id, 1)).collect(),
        Some(weights) => {
            let rows = ids.iter().zip(weights);
            rows.map(|(id, weight)| count(id, *weight as i64)).collect()
        }
    }
}

fn count_rows(rows: &mut [i64], ids: &[u32], weights: Option<&[i8]>) {
    match weights {
        None => ids.iter().for_each(|id| rows[*id as usize] += 1),
        Some(weights) => {
            for (id, weight) in ids.iter().zip(weights) {
                rows[*id as usize] += *weight as i64;
            }
        }
    }
}
