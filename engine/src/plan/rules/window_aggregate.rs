//! GROUP BY window_start, window_end becomes a window aggregation.
//!
//! The window function is fused into it (rows then go to slices, not windows) where nothing else needs its columns: the
//! filters and expressions between the two speak only about the function's input. Otherwise the rows come with their
//! windows attached: from a window function evaluated below, or from an earlier window operator of the same window.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::functions::AggregateCall;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::{Aggregate, LegacyWindow, WindowTableFunction, window_columns};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::GroupWindowAggregateNode;
use crate::plan::physical::Planner;
use crate::plan::relation::{Packed, Pending, PendingWindow, Relation, column_of};
use crate::types::{Field, LogicalType, Schema, TimeAttribute, TypeRoot};
use crate::window::{WindowAggregateSpec, WindowColumn, WindowInput, WindowKind};

impl Planner<'_> {
    /// A window function waits for its consumer.
    pub(crate) fn window_function(
        &mut self,
        id: LogicalId,
        function: &WindowTableFunction,
    ) -> Result<Relation> {
        let input = self.input(id, 0)?.decided(&mut self.builder)?;
        let session = matches!(function.window.kind, WindowKind::Session { .. });
        let read = |input: &Relation| {
            let time = input.bare(function.time_column)?;
            let keys: Option<Vec<usize>> = function
                .partition_by
                .iter()
                .map(|column| input.bare(*column))
                .collect();
            Some((time, keys?))
        };
        let input = if read(&input).is_none() || (session && input.condition.is_some()) {
            input.settle(&mut self.builder)?
        } else {
            input
        };
        let (time_column, partition_by) = read(&input).expect("settled columns are bare");
        let read = self.required(id).iter().copied().collect();
        let base = &self.builder.node(input.base).schema;
        let width = base.len();
        let virtual_columns = Schema::new(window_columns(
            base.fields[time_column].logical_type.root.clone(),
            TimeAttribute::Rowtime,
        ));
        let input = input.only(&read);
        let mut columns = input.columns;
        columns.extend((0..3).map(|index| {
            let field = &virtual_columns.fields[index];
            Some(crate::expr::Expression::column(
                width + index,
                &field.name,
                field.logical_type.clone(),
            ))
        }));
        Ok(Relation {
            base: input.base,
            schema: function.schema(),
            columns,
            condition: input.condition,
            pending: Pending::Window(PendingWindow {
                window: function.window.clone(),
                time_column,
                partition_by,
            }),
        })
    }

    /// An aggregation: by window, or of everything that came so far.
    pub(crate) fn aggregate(&mut self, id: LogicalId, aggregate: &Aggregate) -> Result<Relation> {
        let input = self.input(id, 0)?;
        if let Some(legacy) = &aggregate.legacy_window {
            return self.group_window_aggregate(id, aggregate, legacy, input);
        }
        let bounds: Vec<Option<WindowColumn>> = aggregate
            .grouping
            .iter()
            .map(|column| input.window_column(&self.builder, *column))
            .collect();
        if !is_by_window(aggregate, &bounds) {
            return self.group_aggregate(id, aggregate, input);
        }
        if self.fuses(id, aggregate, &bounds, &input) {
            return self.fused_aggregate(id, aggregate, &bounds, input);
        }
        let input = input.decided(&mut self.builder)?;
        self.attached_aggregate(id, aggregate, &bounds, input)
    }

    /// Whether nothing but the grouping reads the window function's columns. SESSION: the function's partitions must also
    /// be the groups, and no row may be dropped between the two.
    fn fuses(
        &self,
        id: LogicalId,
        aggregate: &Aggregate,
        bounds: &[Option<WindowColumn>],
        input: &Relation,
    ) -> bool {
        let Pending::Window(window) = &input.pending else {
            return false;
        };
        let width = self.builder.node(input.base).schema.len();
        let on_rows = |column: usize| {
            let columns = input.column(column).columns();
            columns.iter().all(|column| *column < width)
        };
        let keys = key_columns(aggregate, bounds);
        let arguments = self
            .calls(id, aggregate)
            .into_iter()
            .flat_map(|(_, call)| read_by(&call));
        let reads_rows = keys.iter().copied().chain(arguments).all(on_rows)
            && input
                .condition
                .iter()
                .flat_map(|condition| condition.columns())
                .all(|column| column < width);
        let session = matches!(window.window.kind, WindowKind::Session { .. });
        reads_rows && (!session || session_fuses(aggregate, &keys, input, window))
    }

    fn fused_aggregate(
        &mut self,
        id: LogicalId,
        aggregate: &Aggregate,
        bounds: &[Option<WindowColumn>],
        input: Relation,
    ) -> Result<Relation> {
        let Pending::Window(window) = input.pending.clone() else {
            unreachable!("only window functions are fused");
        };
        let mut rows = Rows::new(
            self,
            id,
            aggregate,
            bounds,
            &Relation {
                pending: Pending::Nothing,
                ..input
            },
        );
        let time = rows.relation.push_base(&self.builder, window.time_column);
        let packed = rows.pack(self, aggregate, &[time])?;
        let spec = packed.spec(
            window.window,
            WindowInput::TimeColumn(packed.extra[0]),
            distinct_bounds(bounds),
        );
        let node = self.window_aggregate_phases(packed.node, spec.clone());
        Ok(self.aggregated(id, aggregate, bounds, &packed, &spec, node))
    }

    fn attached_aggregate(
        &mut self,
        id: LogicalId,
        aggregate: &Aggregate,
        bounds: &[Option<WindowColumn>],
        input: Relation,
    ) -> Result<Relation> {
        let window = input
            .window_properties(&self.builder)
            .expect("checked: the grouping has window columns")
            .window;
        let bound = |wanted: WindowColumn| {
            let at = bounds.iter().position(|bound| *bound == Some(wanted));
            let grouping = aggregate.grouping[at.expect("checked: both bounds are grouped by")];
            input.bare(grouping).expect("a window column is bare")
        };
        let (start, end) = (bound(WindowColumn::Start), bound(WindowColumn::End));
        let mut rows = Rows::new(self, id, aggregate, bounds, &input);
        let start = rows.relation.push_base(&self.builder, start);
        let end = rows.relation.push_base(&self.builder, end);
        let packed = rows.pack(self, aggregate, &[start, end])?;
        let attached = WindowInput::Attached {
            window_start: packed.extra[0],
            window_end: packed.extra[1],
        };
        let spec = packed.spec(window, attached, distinct_bounds(bounds));
        let node = self.window_aggregate_phases(packed.node, spec.clone());
        Ok(self.aggregated(id, aggregate, bounds, &packed, &spec, node))
    }

    fn group_window_aggregate(
        &mut self,
        id: LogicalId,
        aggregate: &Aggregate,
        legacy: &LegacyWindow,
        input: Relation,
    ) -> Result<Relation> {
        let input = input.decided(&mut self.builder)?;
        let bounds = vec![None; aggregate.grouping.len()];
        let mut rows = Rows::new(self, id, aggregate, &bounds, &input);
        let time = rows.relation.push(
            input.column(legacy.time_column).clone(),
            input.schema.fields[legacy.time_column].clone(),
        );
        let packed = rows.pack(self, aggregate, &[time])?;
        let spec = packed.spec(
            legacy.window.clone(),
            WindowInput::TimeColumn(packed.extra[0]),
            vec![WindowColumn::Start, WindowColumn::End, WindowColumn::Time],
        );
        let below = self.builder.distribute(packed.node, &spec.keys);
        let schema = self.aggregate_schema(below, &spec);
        let kind =
            ExecNodeKind::GroupWindowAggregate(GroupWindowAggregateNode { spec: spec.clone() });
        let node = self.builder.add(kind, vec![below], schema);
        Ok(self.aggregated(id, aggregate, &bounds, &packed, &spec, node))
    }

    /// The aggregates that somebody reads, with their places in the logical node.
    fn calls(&self, id: LogicalId, aggregate: &Aggregate) -> Vec<(usize, AggregateCall)> {
        let first = aggregate.grouping.len();
        let required = self.required(id);
        aggregate
            .aggregates
            .iter()
            .cloned()
            .enumerate()
            .filter(|(index, _)| required.contains(&(first + index)))
            .collect()
    }

    /// The columns of a complete aggregation: keys, aggregates, window columns.
    pub(crate) fn aggregate_schema(&self, input: NodeId, spec: &WindowAggregateSpec) -> Schema {
        let input = &self.builder.node(input).schema;
        let mut fields: Vec<Field> = spec
            .keys
            .iter()
            .map(|key| input.fields[*key].clone())
            .collect();
        fields.extend(
            spec.aggregates
                .iter()
                .map(|call| Field::new(&call.name, call.logical_type.clone())),
        );
        let attribute = if spec.window.time.is_event_time() {
            TimeAttribute::Rowtime
        } else {
            TimeAttribute::Proctime
        };
        let of_window = window_columns(window_time_root(spec, input), attribute);
        fields.extend(spec.window_columns.iter().map(|column| match column {
            WindowColumn::Start => of_window[0].clone(),
            WindowColumn::End => of_window[1].clone(),
            WindowColumn::Time => of_window[2].clone(),
        }));
        Schema::new(fields)
    }

    /// The logical node's columns over the exec node's.
    fn aggregated(
        &self,
        id: LogicalId,
        aggregate: &Aggregate,
        bounds: &[Option<WindowColumn>],
        packed: &PackedRows,
        spec: &WindowAggregateSpec,
        node: NodeId,
    ) -> Relation {
        let output = &self.builder.node(node).schema;
        let calls_at = spec.keys.len();
        let windows_at = calls_at + spec.aggregates.len();
        let window_at = |wanted: WindowColumn| {
            let at = spec
                .window_columns
                .iter()
                .position(|column| *column == wanted);
            windows_at + at.expect("the grouped bounds are given")
        };
        let mut keys = packed.grouped_keys.iter();
        let mut at: Vec<Option<usize>> = bounds
            .iter()
            .map(|bound| match bound {
                Some(bound) => Some(window_at(*bound)),
                None => keys.next().copied(),
            })
            .collect();
        at.extend((0..aggregate.aggregates.len()).map(|index| {
            let call = packed.call_at.iter().find(|(logical, _)| *logical == index);
            call.map(|(_, at)| calls_at + at)
        }));
        if aggregate.grouping_sets.len() > 1 {
            at.push(packed.grouping_id);
        }
        if aggregate.legacy_window.is_some() {
            at.extend([
                Some(window_at(WindowColumn::Start)),
                Some(window_at(WindowColumn::End)),
                Some(window_at(WindowColumn::Time)),
            ]);
        }
        Relation {
            base: node,
            schema: self.schema(id).clone(),
            columns: at
                .into_iter()
                .map(|at| at.map(|at| column_of(output, at)))
                .collect(),
            condition: None,
            pending: Pending::Nothing,
        }
    }
}

/// The type of window_time: an instant where the time column is one.
fn window_time_root(spec: &WindowAggregateSpec, input: &Schema) -> TypeRoot {
    match (&spec.window.time, spec.input) {
        (_, WindowInput::TimeColumn(column)) => input.fields[column].logical_type.root.clone(),
        (crate::window::WindowTime::EventTimestamp, _) => TypeRoot::Timestamp(3),
        _ => TypeRoot::TimestampLtz(3),
    }
}

fn key_columns(aggregate: &Aggregate, bounds: &[Option<WindowColumn>]) -> Vec<usize> {
    aggregate
        .grouping
        .iter()
        .zip(bounds)
        .filter(|(_, bound)| bound.is_none())
        .map(|(column, _)| *column)
        .collect()
}

fn read_by(call: &AggregateCall) -> Vec<usize> {
    call.arguments.iter().copied().chain(call.filter).collect()
}

fn distinct_bounds(bounds: &[Option<WindowColumn>]) -> Vec<WindowColumn> {
    let bounds: BTreeSet<WindowColumn> = bounds.iter().flatten().copied().collect();
    bounds.into_iter().collect()
}

fn session_fuses(
    aggregate: &Aggregate,
    keys: &[usize],
    input: &Relation,
    window: &PendingWindow,
) -> bool {
    let keys: Option<BTreeSet<usize>> = keys.iter().map(|key| input.bare(*key)).collect();
    let partition: BTreeSet<usize> = window.partition_by.iter().copied().collect();
    input.condition.is_none() && aggregate.grouping_sets.len() < 2 && keys == Some(partition)
}

/// Whether every grouping set has both bounds of the window: then each group is complete when its window fires.
fn is_by_window(aggregate: &Aggregate, bounds: &[Option<WindowColumn>]) -> bool {
    let in_all_sets = |wanted: WindowColumn| {
        let at = |set: &[usize]| set.iter().any(|position| bounds[*position] == Some(wanted));
        if aggregate.grouping_sets.is_empty() {
            bounds.contains(&Some(wanted))
        } else {
            aggregate.grouping_sets.iter().all(|set| at(set))
        }
    };
    in_all_sets(WindowColumn::Start) && in_all_sets(WindowColumn::End)
}

/// The rows that an aggregation reads: keys first, then the arguments and filters of its calls.
pub(crate) struct Rows {
    pub(crate) relation: Relation,
    keys: Vec<usize>,
    calls: Vec<(usize, AggregateCall)>,
    /// Which positions of the logical grouping the keys are.
    grouped: Vec<usize>,
}

/// Those rows as a node.
pub(crate) struct PackedRows {
    pub(crate) node: NodeId,
    /// The keys of the state: grouping columns, each once, then the grouping id.
    pub(crate) keys: Vec<usize>,
    /// For each key column of the logical grouping its place among `keys`.
    pub(super) grouped_keys: Vec<usize>,
    /// The place of the grouping id among `keys`.
    pub(super) grouping_id: Option<usize>,
    pub(super) aggregates: Vec<AggregateCall>,
    /// Logical aggregate, place in `aggregates`.
    pub(super) call_at: Vec<(usize, usize)>,
    /// Where the extra columns are.
    extra: Vec<usize>,
}

impl Rows {
    pub(super) fn new(
        planner: &Planner,
        id: LogicalId,
        aggregate: &Aggregate,
        bounds: &[Option<WindowColumn>],
        input: &Relation,
    ) -> Rows {
        let keys = key_columns(aggregate, bounds);
        let mut calls = planner.calls(id, aggregate);
        let mut columns = keys.clone();
        let mut place = |column: usize| {
            columns
                .iter()
                .position(|known| *known == column)
                .unwrap_or_else(|| {
                    columns.push(column);
                    columns.len() - 1
                })
        };
        for (_, call) in &mut calls {
            call.arguments
                .iter_mut()
                .for_each(|column| *column = place(*column));
            call.filter = call.filter.map(&mut place);
        }
        let grouped = (0..bounds.len())
            .filter(|at| bounds[*at].is_none())
            .collect();
        Rows {
            relation: input.select(&columns),
            keys: (0..keys.len()).collect(),
            calls,
            grouped,
        }
    }

    pub(super) fn pack(
        self,
        planner: &mut Planner,
        aggregate: &Aggregate,
        extra: &[usize],
    ) -> Result<PackedRows> {
        let packed = self.relation.pack(&mut planner.builder)?;
        let mut rows = PackedRows {
            node: packed.node,
            keys: Vec::new(),
            grouped_keys: Vec::new(),
            grouping_id: None,
            aggregates: Vec::new(),
            call_at: Vec::new(),
            extra: extra.iter().map(|column| packed.at(*column)).collect(),
        };
        for key in &self.keys {
            let at = packed.at(*key);
            let known = rows.keys.iter().position(|key| *key == at);
            rows.grouped_keys.push(known.unwrap_or(rows.keys.len()));
            if known.is_none() {
                rows.keys.push(at);
            }
        }
        for (index, call) in &self.calls {
            rows.add_call(*index, placed(call, &packed));
        }
        if aggregate.grouping_sets.len() > 1 {
            planner.expand(&mut rows, aggregate, &self.grouped)?;
        }
        Ok(rows)
    }
}

fn placed(call: &AggregateCall, packed: &Packed) -> AggregateCall {
    AggregateCall {
        arguments: call
            .arguments
            .iter()
            .map(|column| packed.at(*column))
            .collect(),
        filter: call.filter.map(|column| packed.at(column)),
        ..call.clone()
    }
}

impl PackedRows {
    /// Adds a call, or finds the equal one.
    fn add_call(&mut self, logical: usize, call: AggregateCall) {
        let known = self.aggregates.iter().position(|known| {
            AggregateCall {
                name: call.name.clone(),
                ..known.clone()
            } == call
        });
        self.call_at
            .push((logical, known.unwrap_or(self.aggregates.len())));
        if known.is_none() {
            self.aggregates.push(call);
        }
    }

    fn spec(
        &self,
        window: crate::window::WindowSpec,
        input: WindowInput,
        window_columns: Vec<WindowColumn>,
    ) -> WindowAggregateSpec {
        WindowAggregateSpec {
            window,
            input,
            keys: self.keys.clone(),
            aggregates: self.aggregates.clone(),
            window_columns,
        }
    }

    /// Columns that calls and the window read, which must keep their values where a key is nulled.
    pub(crate) fn read_besides_keys(&mut self) -> Vec<&mut usize> {
        self.aggregates
            .iter_mut()
            .flat_map(|call| call.arguments.iter_mut().chain(&mut call.filter))
            .chain(&mut self.extra)
            .collect()
    }

    /// The place in the node of each key column of the logical grouping.
    pub(crate) fn grouped_columns(&self) -> Vec<usize> {
        self.grouped_keys
            .iter()
            .map(|key| self.keys[*key])
            .collect()
    }

    /// Takes another column for one key of the logical grouping.
    pub(crate) fn give_own_column(&mut self, key: usize, column: usize) {
        self.grouped_keys[key] = self.keys.len();
        self.keys.push(column);
    }

    /// Takes the grouping id as the last key.
    pub(crate) fn set_grouping_id(&mut self, column: usize) {
        self.grouping_id = Some(self.keys.len());
        self.keys.push(column);
    }
}

/// BIGINT NOT NULL.
pub(crate) fn grouping_id_type() -> LogicalType {
    LogicalType::not_null(TypeRoot::BigInt)
}
