//! What a query asks for: relational algebra over bound expressions, as `sql` makes it and `plan` takes it.
//!
//! Columns are positions in the input; a join's input is the left columns, then the right ones. Nothing here says how
//! a query runs.

mod lookup_hint;
mod time;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use lookup_hint::{LookupHint, LookupOutputMode, LookupRetry};
pub(crate) use time::{TimeBounds, time_bounds, window_bounds};

use crate::connectors::factory::TableDescriptor;
use crate::expr::{Expression, Position};
use crate::functions::{AggregateCall, MatchPattern, Navigation};
pub use crate::types::JoinKind;
use crate::types::{Field, LogicalType, Schema, SortKey, TimeAttribute, TypeRoot};
use crate::window::WindowSpec;

/// A table of the catalog, ready to be read or written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableSpec {
    /// Physical columns and options (hints merged in); its `projection` names all columns, the planner narrows it.
    pub descriptor: TableDescriptor,
    /// All columns in the order of declaration, physical and computed.
    pub columns: Vec<ColumnSpec>,
    /// The WATERMARK clause.
    pub watermark: Option<WatermarkSpec>,
}

/// One declared column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ColumnSpec {
    /// Name, type, and whether the watermark or PROCTIME() makes it a time attribute.
    pub field: Field,
    /// `None`: physical. Else the expression of a computed column, over the physical columns (computed columns it refers to
    /// are expanded).
    pub computed: Option<Expression>,
}

/// `WATERMARK FOR column AS expression`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WatermarkSpec {
    /// Index of the event-time column among [`TableSpec::columns`].
    pub column: usize,
    /// The watermark of a row, over [`TableSpec::columns`]; of the column's type.
    pub expression: Expression,
}

impl TableSpec {
    /// The schema of a scan: all declared columns.
    pub fn schema(&self) -> Schema {
        Schema::new(
            self.columns
                .iter()
                .map(|column| column.field.clone())
                .collect(),
        )
    }

    /// The schema that INSERT INTO must match, by position: the physical columns.
    pub fn sink_schema(&self) -> Schema {
        self.descriptor.physical.clone()
    }
}

/// A relational expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogicalPlan {
    /// Reads a table: computed columns and watermark included.
    Scan(Scan),
    /// Constant rows.
    Values(Values),
    /// Computes columns.
    Project(Project),
    /// Keeps the rows where a condition is TRUE.
    Filter(Filter),
    /// CROSS or LEFT JOIN UNNEST.
    Unnest(Unnest),
    /// UNION ALL.
    Union(Union),
    /// TUMBLE, HOP, CUMULATE or SESSION in FROM.
    WindowTableFunction(WindowTableFunction),
    /// GROUP BY, or SELECT DISTINCT.
    Aggregate(Aggregate),
    /// ROW_NUMBER() OVER (…).
    RowNumber(RowNumber),
    /// A join of two tables.
    Join(Join),
    /// Aggregates and their like with OVER.
    Over(Over),
    /// ORDER BY, OFFSET and LIMIT of a query.
    Sort(Sort),
    /// INTERSECT and EXCEPT.
    SetOperation(SetOperation),
    /// MATCH_RECOGNIZE.
    Match(Box<Match>),
}

/// See [`LogicalPlan::Scan`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scan {
    /// The table.
    pub table: Arc<TableSpec>,
    /// Where it is named in the SQL text.
    pub position: Position,
}

/// See [`LogicalPlan::Values`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Values {
    /// Constant expressions, a row each.
    pub rows: Vec<Vec<Expression>>,
    /// The columns.
    pub schema: Schema,
}

/// See [`LogicalPlan::Project`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Project {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// One a column.
    pub expressions: Vec<Expression>,
    /// Names, types and time attributes of the columns: a bare column keeps its time attribute, anything computed loses it.
    pub schema: Schema,
}

/// See [`LogicalPlan::Filter`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Filter {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// BOOLEAN.
    pub condition: Expression,
}

/// See [`LogicalPlan::Unnest`]. Its columns are the input's, then those of the element (the fields of a ROW; key and
/// value of a MAP; one column otherwise), then the ordinality.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unnest {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// ARRAY, MAP or MULTISET, over the input.
    pub collection: Expression,
    /// Whether a last column counts the elements from 1 (INT NOT NULL).
    pub with_ordinality: bool,
    /// LEFT JOIN … ON TRUE: a row whose collection is empty or NULL stays, with NULLs.
    pub outer: bool,
    /// Names of all columns.
    pub schema: Schema,
}

/// See [`LogicalPlan::Union`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Union {
    /// At least two, with columns of equal types.
    pub inputs: Vec<LogicalPlan>,
    /// The first input's names. A column is a time attribute where it is one in every input.
    pub schema: Schema,
}

/// See [`LogicalPlan::WindowTableFunction`]. Its columns are the input's (the time column no longer a time attribute),
/// then window_start, window_end, window_time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowTableFunction {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// Which windows.
    pub window: WindowSpec,
    /// The input column of DESCRIPTOR; a time attribute.
    pub time_column: usize,
    /// SESSION: the columns of PARTITION BY.
    pub partition_by: Vec<usize>,
    /// Where the function stands in the SQL text.
    pub position: Position,
}

/// See [`LogicalPlan::Aggregate`]. Its columns are the grouping columns, then the aggregates, then, for the legacy
/// group windows, window_start, window_end (TIMESTAMP) and window_time (the time attribute).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Aggregate {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// Grouping columns of the input. Where it is windowed they contain window_start and window_end like any column.
    pub grouping: Vec<usize>,
    /// GROUPING SETS, ROLLUP, CUBE: each set as positions in `grouping`; empty: one set of all. With several sets the columns are
    /// followed by one more after the aggregates: the GROUPING_ID of all `grouping` columns, BIGINT NOT NULL, named `$e`.
    pub grouping_sets: Vec<Vec<usize>>,
    /// The aggregates over input columns.
    pub aggregates: Vec<AggregateCall>,
    /// `GROUP BY TUMBLE(ts, …)` and friends.
    pub legacy_window: Option<LegacyWindow>,
    /// How long a group is remembered, from a STATE_TTL hint; milliseconds, 0 for ever.
    pub state_ttl_ms: Option<u64>,
    /// Where GROUP BY stands in the SQL text.
    pub position: Position,
}

/// The window of a legacy group window.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LegacyWindow {
    /// Which windows.
    pub window: WindowSpec,
    /// The input column that tells the time.
    pub time_column: usize,
}

/// See [`LogicalPlan::RowNumber`]. Its columns are the input's, then the number, BIGINT NOT NULL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowNumber {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// The name of the number's column.
    pub name: String,
    /// Where it stands in the SQL text.
    pub position: Position,
}

/// See [`LogicalPlan::Join`]. Its columns are the left ones, then the right ones; only the left ones for SEMI and ANTI.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Join {
    /// The left rows.
    pub left: Box<LogicalPlan>,
    /// The right rows.
    pub right: Box<LogicalPlan>,
    /// INNER, LEFT, ….
    pub kind: JoinKind,
    /// BOOLEAN over the left columns, then the right ones.
    pub condition: Expression,
    /// `FOR SYSTEM_TIME AS OF l.ts` behind the right table: the left column that tells the time, a time attribute. In event time
    /// the right side is a versioned table, in processing time one to look up.
    pub as_of: Option<usize>,
    /// How long rows of the left and of the right side are remembered, from a STATE_TTL hint; milliseconds, 0 for ever.
    pub state_ttl_ms: [Option<u64>; 2],
    /// What a LOOKUP hint says about the right table.
    pub lookup_hint: Option<Box<LookupHint>>,
    /// Whether a MULTI_JOIN hint names all of its tables.
    pub multi_join: bool,
    /// Where JOIN stands in the SQL text.
    pub position: Position,
}

/// See [`LogicalPlan::Over`]. Its columns are the input's, then the results of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Over {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// Which rows before the current one count.
    pub frame: OverFrame,
    /// The calls over input columns: aggregates, and functions of rows such as LAG, whose offset and default are columns too.
    pub calls: Vec<AggregateCall>,
    /// Where the first of them stands in the SQL text.
    pub position: Position,
}

/// The frame of OVER, from so far before the current row to the current row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OverFrame {
    /// `ROWS BETWEEN n PRECEDING AND CURRENT ROW`; `None`: UNBOUNDED.
    Rows(Option<u64>),
    /// `RANGE BETWEEN INTERVAL … PRECEDING AND CURRENT ROW`, in milliseconds; `None`: UNBOUNDED. Rows of equal time are peers.
    Range(Option<i64>),
}

/// See [`LogicalPlan::Match`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Match {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// What is looked for.
    pub pattern: MatchPattern,
    /// The values of input columns that conditions and measures read, as columns with these types.
    pub navigations: Vec<(Navigation, LogicalType)>,
    /// The condition of each step of the pattern, over the navigations; `None`: any row.
    pub conditions: Vec<Option<Expression>>,
    /// The measures, over the navigations.
    pub measures: Vec<Expression>,
    /// The columns of PARTITION BY, then the measures.
    pub schema: Schema,
    /// Where MATCH_RECOGNIZE stands in the SQL text.
    pub position: Position,
}

/// See [`LogicalPlan::Sort`]. Its columns are the input's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sort {
    /// The rows.
    pub input: Box<LogicalPlan>,
    /// ORDER BY; empty where there is only OFFSET or LIMIT.
    pub order_by: Vec<SortKey>,
    /// How many rows are left out at the beginning.
    pub offset: u64,
    /// How many rows stay behind those; `None`: all.
    pub fetch: Option<u64>,
    /// Where ORDER BY or LIMIT stands in the SQL text.
    pub position: Position,
}

/// See [`LogicalPlan::SetOperation`]. NULLs are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SetOperation {
    /// Which.
    pub kind: SetOperationKind,
    /// ALL: equal rows count as often as they come.
    pub all: bool,
    /// The left rows.
    pub left: Box<LogicalPlan>,
    /// The right rows, with columns of equal types.
    pub right: Box<LogicalPlan>,
    /// The left input's names.
    pub schema: Schema,
    /// Where it stands in the SQL text.
    pub position: Position,
}

/// The set operations besides UNION.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SetOperationKind {
    /// INTERSECT.
    Intersect,
    /// EXCEPT.
    Except,
}

/// A statement that runs as a job.
#[derive(Debug, Clone)]
pub enum Statement {
    /// INSERT INTO sink SELECT …; several of them in a statement set run as one job.
    Inserts(Vec<Insert>),
    /// A bare SELECT: its rows go to the caller.
    Select(LogicalPlan),
}

/// What EXPLAIN shows beside the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExplainDetails {
    /// The kinds of rows that each node gives: CHANGELOG_MODE.
    pub changelog_mode: bool,
    /// What each node keeps: STATE.
    pub state: bool,
}

/// One INSERT INTO. The query's columns match the sink's physical columns by position and are already cast to them.
#[derive(Debug, Clone)]
pub struct Insert {
    /// The sink.
    pub table: Arc<TableSpec>,
    /// The rows.
    pub query: LogicalPlan,
    /// `ON CONFLICT DO …`.
    pub on_conflict: Option<OnConflict>,
    /// Where the sink is named in the SQL text.
    pub position: Position,
}

/// What an upsert sink does with rows of several keys of the query that have one primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnConflict {
    /// The first row of a primary key stays.
    DoNothing,
    /// The job fails.
    DoError,
    /// The last row wins; when it goes, the one before comes back.
    DoDeduplicate,
}

impl OnConflict {
    /// Its name in SQL, behind `ON CONFLICT DO`.
    pub fn name(self) -> &'static str {
        match self {
            OnConflict::DoNothing => "NOTHING",
            OnConflict::DoError => "ERROR",
            OnConflict::DoDeduplicate => "DEDUPLICATE",
        }
    }
}

impl LogicalPlan {
    /// The columns of its rows.
    pub fn schema(&self) -> Schema {
        match self {
            LogicalPlan::Scan(scan) => scan.table.schema(),
            LogicalPlan::Values(values) => values.schema.clone(),
            LogicalPlan::Project(project) => project.schema.clone(),
            LogicalPlan::Filter(filter) => filter.input.schema(),
            LogicalPlan::Unnest(unnest) => unnest.schema.clone(),
            LogicalPlan::Union(union) => union.schema.clone(),
            LogicalPlan::WindowTableFunction(function) => function.schema(),
            LogicalPlan::Aggregate(aggregate) => aggregate.schema(),
            LogicalPlan::RowNumber(number) => number.schema(),
            LogicalPlan::Join(join) => join.schema(),
            LogicalPlan::Over(over) => over.schema(),
            LogicalPlan::Sort(sort) => sort.input.schema(),
            LogicalPlan::SetOperation(operation) => operation.schema.clone(),
            LogicalPlan::Match(found) => found.schema.clone(),
        }
    }
}

impl LogicalPlan {
    /// How many columns its rows have.
    pub fn width(&self) -> usize {
        match self {
            LogicalPlan::Scan(scan) => scan.table.columns.len(),
            LogicalPlan::Project(project) => project.expressions.len(),
            LogicalPlan::Filter(filter) => filter.input.width(),
            LogicalPlan::Sort(sort) => sort.input.width(),
            LogicalPlan::RowNumber(number) => number.input.width() + 1,
            LogicalPlan::WindowTableFunction(function) => function.input.width() + 3,
            LogicalPlan::Over(over) => over.input.width() + over.calls.len(),
            LogicalPlan::Join(join) if join.kind.is_left_only() => join.left.width(),
            LogicalPlan::Join(join) => join.left.width() + join.right.width(),
            other => other.schema().len(),
        }
    }
}

impl WindowTableFunction {
    /// The input's columns, then the window's.
    pub fn schema(&self) -> Schema {
        let mut fields = self.input.schema().fields;
        let attribute = if self.window.time.is_event_time() {
            TimeAttribute::Rowtime
        } else {
            TimeAttribute::Proctime
        };
        let time = fields[self.time_column].logical_type.root.clone();
        fields[self.time_column].time_attribute = None;
        fields.extend(window_columns(time, attribute));
        Schema::new(fields)
    }
}

/// window_start, window_end: TIMESTAMP(3) NOT NULL; window_time: a time attribute of the time column's kind.
pub fn window_columns(time: TypeRoot, attribute: TimeAttribute) -> Vec<Field> {
    let bound = LogicalType::not_null(TypeRoot::Timestamp(3));
    let time = if matches!(time, TypeRoot::TimestampLtz(_)) {
        TypeRoot::TimestampLtz(3)
    } else {
        TypeRoot::Timestamp(3)
    };
    vec![
        Field::new("window_start", bound.clone()),
        Field::new("window_end", bound),
        Field::new("window_time", LogicalType::not_null(time)).with_time_attribute(Some(attribute)),
    ]
}

impl Aggregate {
    /// Grouping columns, aggregates, then what the field docs say.
    pub fn schema(&self) -> Schema {
        let input = self.input.schema();
        let several = self.grouping_sets.len() > 1;
        let mut fields: Vec<Field> = self
            .grouping
            .iter()
            .map(|column| input.fields[*column].clone())
            .collect();
        for (position, field) in fields.iter_mut().enumerate() {
            let in_all = self.grouping_sets.iter().all(|set| set.contains(&position));
            field.logical_type.nullable |= several && (field.time_attribute.is_none() || !in_all);
        }
        fields.extend(
            self.aggregates
                .iter()
                .map(|call| Field::new(&call.name, call.logical_type.clone())),
        );
        if several {
            fields.push(Field::new("$e", LogicalType::not_null(TypeRoot::BigInt)));
        }
        if let Some(legacy) = &self.legacy_window {
            let attribute = if legacy.window.time.is_event_time() {
                TimeAttribute::Rowtime
            } else {
                TimeAttribute::Proctime
            };
            fields.extend(window_columns(
                input.fields[legacy.time_column].logical_type.root.clone(),
                attribute,
            ));
        }
        Schema::new(fields)
    }
}

impl RowNumber {
    /// The input's columns, then the number.
    pub fn schema(&self) -> Schema {
        let mut fields = self.input.schema().fields;
        fields.push(Field::new(
            &self.name,
            LogicalType::not_null(TypeRoot::BigInt),
        ));
        Schema::new(fields)
    }
}

impl Over {
    /// The input's columns, then the results.
    pub fn schema(&self) -> Schema {
        let mut fields = self.input.schema().fields;
        let results = self.calls.iter();
        fields.extend(results.map(|call| Field::new(&call.name, call.logical_type.clone())));
        Schema::new(fields)
    }
}

impl Join {
    /// Of a temporal join in event time the right column that says when a version begins, if there is one.
    pub(crate) fn version_time(&self) -> Option<usize> {
        let as_of = self.left.schema().fields[self.as_of?].time_attribute;
        let right = self.right.schema();
        right
            .rowtime()
            .filter(|_| as_of == Some(TimeAttribute::Rowtime))
    }

    /// Left, then right columns; those of a side that may be padded become nullable. They are time attributes where the join
    /// keeps time.
    pub fn schema(&self) -> Schema {
        let (left, right) = (self.left.schema(), self.right.schema());
        let kept_times = time::kept_times(self, &left, &right);
        let pads = (self.kind.keeps_right(), self.kind.keeps_left());
        let left_width = left.len();
        let mut joined = match self.kind.is_left_only() {
            true => left,
            false => left.join(&right),
        };
        for (index, field) in joined.fields.iter_mut().enumerate() {
            let padded = if index < left_width { pads.0 } else { pads.1 };
            field.logical_type.nullable |= padded;
            if !kept_times.contains(&index) {
                field.time_attribute = None;
            }
        }
        joined
    }
}
