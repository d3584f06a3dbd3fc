//! What the rows of a node are and what each column is, told in terms of tables: the part of a plan that state depends on.
//!
//! Two things are kept apart: *which rows* a node gives (tables, filters, joins, grouping keys), and *what a column holds* (an expression
//! over the tables' columns). Carrying one column more, under another name or at another place, changes neither.

use xxhash_rust::xxh3::xxh3_64;

use crate::expr::Expression;
use crate::functions::AggregateCall;
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::nodes::*;
use crate::types::{Schema, SortKey};
use crate::window::{WindowAggregateSpec, WindowColumn, WindowInput, WindowSpec};

/// The longest text of a column; a longer one is cut and told apart by its hash.
const LONGEST_TEXT: usize = 160;
/// Where a text that is too long is cut.
const CUT_TEXT: usize = 100;

/// See the file.
#[derive(Debug, Clone)]
pub(crate) struct Lineage {
    /// A digest of which rows there are.
    pub(crate) rows: String,
    /// What each column holds.
    pub(crate) columns: Vec<String>,
    /// A digest of what the state of the node speaks about; its uid follows from it.
    pub(crate) state: String,
}

/// The lineage of every node.
pub(crate) fn lineages(plan: &ExecPlan) -> Vec<Lineage> {
    let mut known: Vec<Lineage> = Vec::with_capacity(plan.nodes.len());
    for node in &plan.nodes {
        let lineage = Reading {
            plan,
            node,
            known: &known,
        }
        .lineage();
        debug_assert!(
            lineage.columns.len() == node.schema.len() || is_local(&node.kind),
            "{} has a text for each column",
            node.kind.name()
        );
        known.push(lineage);
    }
    known
}

fn is_local(kind: &ExecNodeKind) -> bool {
    matches!(
        kind,
        ExecNodeKind::LocalWindowAggregate(_)
            | ExecNodeKind::LocalGroupAggregate(_)
            | ExecNodeKind::Exchange(_)
            | ExecNodeKind::MiniBatchAssigner(_)
            | ExecNodeKind::LateRowsSink(_)
    )
}

/// The input that the rows of an aggregation in two phases come from: that of the local one.
pub(crate) fn folded_input(plan: &ExecPlan, node: &ExecNode) -> NodeId {
    let input = plan.node(node.inputs[0]);
    match input.kind {
        ExecNodeKind::LocalGroupAggregate(_) | ExecNodeKind::LocalWindowAggregate(_) => {
            input.inputs[0]
        }
        _ => folded_input(plan, input),
    }
}

/// `SUM(DISTINCT price) FILTER is_paid`, over texts of columns.
fn call_text(call: &AggregateCall, columns: &[String]) -> String {
    shortened(call.described(&|column| columns[column].clone()))
}

fn shortened(text: String) -> String {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let mut cut = CUT_TEXT;
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}…#{:016x}", &text[..cut], xxh3_64(text.as_bytes()))
}

fn digest(parts: &[&str]) -> String {
    format!("{:016x}", xxh3_64(parts.join("\u{1f}").as_bytes()))
}

/// An expression over texts of columns.
fn text(expression: &Expression, columns: &[String]) -> String {
    let named = expression.clone().transform(&mut |part| match part {
        Expression::Column {
            index,
            logical_type,
            ..
        } => Expression::Column {
            index,
            name: columns[index].clone(),
            logical_type,
        },
        other => other,
    });
    shortened(named.to_string())
}

fn optional(expression: Option<&Expression>, columns: &[String]) -> String {
    expression.map_or_else(String::new, |expression| text(expression, columns))
}

/// Columns with their Arrow types: what decides the hash of a key.
fn typed(keys: &[usize], columns: &[String], schema: &Schema) -> String {
    let typed = keys.iter().map(|key| {
        let data_type = schema.fields[*key].logical_type.to_arrow();
        format!("{}:{data_type:?}", columns[*key])
    });
    typed.collect::<Vec<_>>().join(", ")
}

fn listed(indices: &[usize], columns: &[String]) -> String {
    let listed = indices.iter().map(|index| columns[*index].as_str());
    listed.collect::<Vec<_>>().join(", ")
}

fn ordered(keys: &[SortKey], columns: &[String]) -> String {
    let keys = keys.iter().map(|key| {
        let (column, descending, nulls) = (&columns[key.column], key.descending, key.nulls_first);
        format!("{column} desc={descending} nulls_first={nulls}")
    });
    keys.collect::<Vec<_>>().join(", ")
}

fn windows(window: &WindowSpec) -> String {
    format!("{} {} {:?}", window.kind, window.offset_ms, window.time)
}

/// One node over the lineages of those before it.
struct Reading<'a> {
    plan: &'a ExecPlan,
    node: &'a ExecNode,
    known: &'a [Lineage],
}

impl Reading<'_> {
    fn input(&self, position: usize) -> &Lineage {
        &self.known[self.node.inputs[position].0]
    }

    fn input_schema(&self, position: usize) -> &Schema {
        &self.plan.node(self.node.inputs[position]).schema
    }

    fn lineage(&self) -> Lineage {
        match &self.node.kind {
            ExecNodeKind::TableSourceScan(scan) => self.named_rows(&scan.table.name),
            ExecNodeKind::Values(values) => self.values(values),
            ExecNodeKind::Calc(calc) => self.calc(calc),
            ExecNodeKind::Expand(expand) => self.expand(expand),
            ExecNodeKind::Correlate(correlate) => self.correlate(correlate),
            ExecNodeKind::Union(_) => self.union(),
            ExecNodeKind::WatermarkAssigner(_)
            | ExecNodeKind::Exchange(_)
            | ExecNodeKind::DropUpdateBefore(_)
            | ExecNodeKind::MiniBatchAssigner(_)
            | ExecNodeKind::LocalWindowAggregate(_)
            | ExecNodeKind::LocalGroupAggregate(_) => self.passing(&[]),
            ExecNodeKind::WindowTableFunction(function) => self.window_function(function),
            ExecNodeKind::WindowAggregate(node) => self.window_aggregate(&node.spec, None),
            ExecNodeKind::GroupWindowAggregate(node) => self.window_aggregate(&node.spec, None),
            ExecNodeKind::GlobalWindowAggregate(node) => {
                self.window_aggregate(&node.spec, Some(&node.local_input))
            }
            ExecNodeKind::GroupAggregate(node) => self.group_aggregate(&node.spec, None),
            ExecNodeKind::GlobalGroupAggregate(node) => {
                self.group_aggregate(&node.spec, Some(&node.local_input))
            }
            ExecNodeKind::WindowRank(rank) => self.window_rank(rank),
            ExecNodeKind::WindowDeduplicate(node) => self.window_deduplicate(node),
            ExecNodeKind::Deduplicate(node) => self.deduplicate(node),
            ExecNodeKind::Rank(rank) => self.rank(rank),
            ExecNodeKind::TemporalSort(sort) => {
                self.passing(&[&ordered(&sort.order_by, &self.input(0).columns)])
            }
            ExecNodeKind::OverAggregate(over) => self.over(over),
            ExecNodeKind::Match(found) => self.found(found),
            ExecNodeKind::WindowJoin(join) => self.window_join(join),
            ExecNodeKind::Join(join) => self.join(join),
            ExecNodeKind::MultiJoin(join) => self.multi_join(join),
            ExecNodeKind::IntervalJoin(join) => self.interval_join(join),
            ExecNodeKind::TemporalJoin(join) => self.temporal_join(join),
            ExecNodeKind::LookupJoin(join) => self.lookup_join(join),
            ExecNodeKind::ChangelogNormalize(node) => self.changelog_normalize(node),
            ExecNodeKind::SinkUpsertMaterializer(node) => self.materializer(node),
            ExecNodeKind::Sink(sink) => self.sink(sink),
            ExecNodeKind::LateRowsSink(sink) => self.named_rows(&sink.table.name),
        }
    }

    /// What belongs to a table by its name alone: a source goes on reading, a sink commits, whatever the query does with the rows.
    fn named_rows(&self, table: &str) -> Lineage {
        Lineage {
            rows: digest(&["table", table]),
            columns: self.node.schema.names().map(str::to_string).collect(),
            state: digest(&[self.node.kind.name(), table]),
        }
    }

    fn values(&self, values: &ValuesNode) -> Lineage {
        let rows = values.rows.iter().map(|row| {
            let cells: Vec<String> = row.iter().map(Expression::to_string).collect();
            cells.join(",")
        });
        let rows = digest(&["values", &rows.collect::<Vec<_>>().join(";")]);
        Lineage {
            columns: self.node.schema.names().map(str::to_string).collect(),
            state: rows.clone(),
            rows,
        }
    }

    /// The rows and columns of the only input.
    fn passing(&self, state: &[&str]) -> Lineage {
        let Lineage { rows, columns, .. } = self.input(0).clone();
        self.of(state, rows, columns)
    }

    /// A state that `facts` and the rows of all inputs describe.
    fn of(&self, facts: &[&str], rows: String, columns: Vec<String>) -> Lineage {
        Lineage {
            state: self.state(facts),
            rows,
            columns,
        }
    }

    fn state(&self, facts: &[&str]) -> String {
        let mut parts = vec![super::word(&self.node.kind)];
        let inputs = (0..self.node.inputs.len()).map(|input| self.input(input).rows.as_str());
        parts.extend(inputs);
        parts.extend_from_slice(facts);
        digest(&parts)
    }

    /// New rows, which the state describes too.
    fn making(&self, facts: &[&str], columns: Vec<String>) -> Lineage {
        let state = self.state(facts);
        Lineage {
            rows: state.clone(),
            columns,
            state,
        }
    }

    /// All columns of an input, where rows are told apart by all of them; else nothing.
    fn whole_rows(&self, position: usize) -> String {
        let input = self.plan.node(self.node.inputs[position]);
        if input.changelog_mode.is_insert_only() || !input.upsert_keys.is_empty() {
            return String::new();
        }
        self.input(position).columns.join(", ")
    }

    fn calc(&self, calc: &CalcNode) -> Lineage {
        let input = self.input(0);
        let of = |expression| text(expression, &input.columns);
        let columns = calc.projection.iter().map(of).collect();
        match &calc.condition {
            None => self.of(&[], input.rows.clone(), columns),
            Some(condition) => self.making(&["where", &of(condition)], columns),
        }
    }

    /// Columns that are the same in all copies pass; those that are not are what the copies are about.
    fn expand(&self, expand: &ExpandNode) -> Lineage {
        let input = &self.input(0).columns;
        let mut differing = Vec::new();
        let mut columns = Vec::new();
        for position in 0..self.node.schema.len() {
            let copies = expand.projections.iter();
            let copies: Vec<String> = copies.map(|copy| text(&copy[position], input)).collect();
            if copies.iter().all(|copy| *copy == copies[0]) {
                columns.push(copies[0].clone());
            } else {
                let of_copies = shortened(format!("copies({})", copies.join("|")));
                differing.push(of_copies.clone());
                columns.push(of_copies);
            }
        }
        self.making(&[&differing.join(", ")], columns)
    }

    fn correlate(&self, correlate: &CorrelateNode) -> Lineage {
        let input = self.input(0);
        let collection = text(&correlate.collection, &input.columns);
        let added = self.node.schema.names().skip(input.columns.len());
        let added = added.map(|name| shortened(format!("UNNEST({collection}).{name}")));
        let columns = input.columns.iter().cloned().chain(added).collect();
        let (outer, ordinality) = (correlate.outer, correlate.with_ordinality);
        self.making(&[&collection, &format!("{outer} {ordinality}")], columns)
    }

    fn union(&self) -> Lineage {
        let of_column = |position: usize| {
            let inputs = 0..self.node.inputs.len();
            let texts: Vec<&str> = inputs
                .map(|input| self.input(input).columns[position].as_str())
                .collect();
            if texts.iter().all(|text| *text == texts[0]) {
                texts[0].to_string()
            } else {
                shortened(format!("({})", texts.join(" | ")))
            }
        };
        let columns = (0..self.node.schema.len()).map(of_column).collect();
        self.making(&[], columns)
    }

    fn window_function(&self, function: &WindowTableFunctionNode) -> Lineage {
        let input = self.input(0);
        let keys = typed(&function.partition_by, &input.columns, self.input_schema(0));
        let added = self.node.schema.names().skip(input.columns.len());
        let columns = input.columns.iter().cloned();
        let columns = columns.chain(added.map(str::to_string)).collect();
        let time = &input.columns[function.time_column];
        self.making(&[&windows(&function.window), time, &keys], columns)
    }

    /// What the aggregates are is no part of it: each has a state of its own.
    fn group_aggregate(&self, spec: &GroupAggregateSpec, local: Option<&Schema>) -> Lineage {
        let (input, schema) = self.aggregated(local);
        let keys = typed(&spec.grouping, &input.columns, schema);
        let state = digest(&["group-aggregate", &input.rows, &keys]);
        let mut columns: Vec<String> = spec
            .grouping
            .iter()
            .map(|key| input.columns[*key].clone())
            .collect();
        let calls = spec.aggregates.iter();
        columns.extend(calls.map(|call| call_text(call, &input.columns)));
        Lineage {
            rows: state.clone(),
            columns,
            state,
        }
    }

    /// The rows that an aggregation speaks of, with their columns.
    fn aggregated<'b>(&'b self, local: Option<&'b Schema>) -> (&'b Lineage, &'b Schema) {
        match local {
            None => (self.input(0), self.input_schema(0)),
            Some(schema) => {
                let rows = folded_input(self.plan, self.node);
                (&self.known[rows.0], schema)
            }
        }
    }

    fn window_aggregate(&self, spec: &WindowAggregateSpec, local: Option<&Schema>) -> Lineage {
        let (input, schema) = self.aggregated(local);
        let keys = typed(&spec.keys, &input.columns, schema);
        let how = match spec.input {
            WindowInput::TimeColumn(column) => input.columns[column].clone(),
            WindowInput::Attached {
                window_start,
                window_end,
            } => listed(&[window_start, window_end], &input.columns),
        };
        let word = super::word(&self.node.kind);
        let state = digest(&[word, &input.rows, &windows(&spec.window), &how, &keys]);
        let mut columns: Vec<String> = spec
            .keys
            .iter()
            .map(|key| input.columns[*key].clone())
            .collect();
        let calls = spec.aggregates.iter();
        columns.extend(calls.map(|call| call_text(call, &input.columns)));
        columns.extend(spec.window_columns.iter().map(|column| {
            let name = match column {
                WindowColumn::Start => "window_start",
                WindowColumn::End => "window_end",
                WindowColumn::Time => "window_time",
            };
            name.to_string()
        }));
        Lineage {
            rows: state.clone(),
            columns,
            state,
        }
    }

    /// The columns of the input and, where the node adds one, the rank.
    fn ranked_columns(&self) -> Vec<String> {
        let input = &self.input(0).columns;
        let rank = (self.node.schema.len() > input.len()).then(|| "ROW_NUMBER()".to_string());
        input.iter().cloned().chain(rank).collect()
    }

    fn window_rank(&self, rank: &WindowRankNode) -> Lineage {
        let input = &self.input(0).columns;
        let facts = [
            windows(&rank.window),
            listed(&[rank.window_start, rank.window_end], input),
            typed(&rank.partition_by, input, self.input_schema(0)),
            ordered(&rank.order_by, input),
            format!("{} {}", rank.rank_start, rank.rank_end),
        ];
        self.making(&facts.each_ref().map(String::as_str), self.ranked_columns())
    }

    fn window_deduplicate(&self, node: &WindowDeduplicateNode) -> Lineage {
        let input = &self.input(0).columns;
        let facts = [
            windows(&node.window),
            listed(&[node.window_start, node.window_end], input),
            typed(&node.partition_by, input, self.input_schema(0)),
            input[node.order_column].clone(),
            format!("{:?}", node.keep),
        ];
        self.making(&facts.each_ref().map(String::as_str), input.clone())
    }

    fn deduplicate(&self, node: &DeduplicateNode) -> Lineage {
        let input = &self.input(0).columns;
        let facts = [
            typed(&node.unique_key, input, self.input_schema(0)),
            node.order_column
                .map_or_else(String::new, |column| input[column].clone()),
            format!("{:?} {:?}", node.keep, node.emission),
        ];
        self.making(&facts.each_ref().map(String::as_str), input.clone())
    }

    fn rank(&self, rank: &RankNode) -> Lineage {
        let input = &self.input(0).columns;
        let (strategy, identity) = match &rank.strategy {
            RankStrategy::AppendFast => ("append", String::new()),
            RankStrategy::UpdateFast { key } => ("update", listed(key, input)),
            RankStrategy::Retract => ("retract", self.whole_rows(0)),
        };
        let range = match rank.range {
            RankRange::Constant { start, end } => format!("{start} {end}"),
            RankRange::Variable { end_column } => input[end_column].clone(),
        };
        let facts = [
            typed(&rank.partition_by, input, self.input_schema(0)),
            ordered(&rank.order_by, input),
            range,
            strategy.to_string(),
            identity,
        ];
        self.making(&facts.each_ref().map(String::as_str), self.ranked_columns())
    }

    /// The states of the functions of a frame hang together, so they are part of it.
    fn over(&self, over: &OverAggregateNode) -> Lineage {
        let input = &self.input(0).columns;
        let calls: Vec<String> = over
            .calls
            .iter()
            .map(|call| call_text(call, input))
            .collect();
        let facts = [
            typed(&over.partition_by, input, self.input_schema(0)),
            ordered(&over.order_by, input),
            format!("{:?}", over.frame),
            calls.join(", "),
        ];
        let columns = input.iter().cloned().chain(calls).collect();
        self.of(
            &facts.each_ref().map(String::as_str),
            self.input(0).rows.clone(),
            columns,
        )
    }

    /// The pattern as EXPLAIN shows it, over texts of columns.
    fn found(&self, found: &MatchNode) -> Lineage {
        let input = self.input(0);
        let renamed = |node: &ExecNode, names: &[String]| {
            let mut node = node.clone();
            for (field, name) in node.schema.fields.iter_mut().zip(names) {
                field.name = name.clone();
            }
            node
        };
        let below = renamed(self.plan.node(self.node.inputs[0]), &input.columns);
        let measures = (0..self.node.schema.len()).map(|position| format!("m{position}"));
        let node = renamed(self.node, &measures.collect::<Vec<_>>());
        let scope = Scope {
            node: &node,
            inputs: vec![&below],
        };
        let shown = found.attributes(&scope).into_iter();
        let shown: Vec<String> = shown
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let keys = typed(&found.partition_by, &input.columns, self.input_schema(0));
        let (keys_shown, measures) = (
            listed(&found.partition_by, &input.columns),
            found.measures.len(),
        );
        let mut columns: Vec<String> = found
            .partition_by
            .iter()
            .map(|key| input.columns[*key].clone())
            .collect();
        let pattern = shortened(format!("{keys_shown} {}", shown.join(" ")));
        columns
            .extend((0..measures).map(|measure| shortened(format!("MATCH({pattern}).{measure}"))));
        self.making(&[&keys, &shown.join("\u{1f}")], columns)
    }

    /// The columns of several inputs side by side.
    fn joined_columns(&self, names: &[&str]) -> Vec<String> {
        let mut columns = Vec::new();
        for (position, name) in names.iter().enumerate() {
            let input = self.input(position).columns.iter();
            columns.extend(input.map(|column| shortened(format!("{name}.{column}"))));
        }
        columns
    }

    /// The equalities of a join, with their types.
    fn equalities(&self, keys: &[JoinKey]) -> String {
        let side = |position: usize, columns: &[usize]| {
            typed(
                columns,
                &self.input(position).columns,
                self.input_schema(position),
            )
        };
        let left: Vec<usize> = keys.iter().map(|key| key.left).collect();
        let right: Vec<usize> = keys.iter().map(|key| key.right).collect();
        let null_safe: Vec<bool> = keys.iter().map(|key| key.null_safe).collect();
        format!("{} = {} {null_safe:?}", side(0, &left), side(1, &right))
    }

    /// A join of two inputs: its columns are those of both, or the left ones alone.
    fn join_of(&self, keys: &[JoinKey], condition: Option<&Expression>, facts: &[&str]) -> Lineage {
        let both = self.joined_columns(&["left", "right"]);
        let (equalities, condition) = (self.equalities(keys), optional(condition, &both));
        let mut all = vec![equalities.as_str(), condition.as_str()];
        all.extend_from_slice(facts);
        let mut columns = both.clone();
        columns.truncate(self.node.schema.len());
        if columns.len() < both.len() {
            columns = self.input(0).columns.clone();
        }
        self.making(&all, columns)
    }

    fn window_join(&self, join: &WindowJoinNode) -> Lineage {
        let (left, right) = (&self.input(0).columns, &self.input(1).columns);
        let facts = [
            format!("{:?}", join.kind),
            windows(&join.window),
            listed(&[join.left_window_start, join.left_window_end], left),
            listed(&[join.right_window_start, join.right_window_end], right),
        ];
        let facts = facts.each_ref().map(String::as_str);
        self.join_of(&join.keys, join.condition.as_ref(), &facts)
    }

    fn join(&self, join: &JoinNode) -> Lineage {
        let kind = format!("{:?}", join.kind);
        let facts = [&kind[..], &self.whole_rows(0), &self.whole_rows(1)];
        self.join_of(&join.keys, join.condition.as_ref(), &facts)
    }

    fn multi_join(&self, join: &MultiJoinNode) -> Lineage {
        let names: Vec<String> = (1..=join.inputs.len())
            .map(|number| format!("${number}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = self.joined_columns(&names);
        let mut facts = Vec::new();
        for (position, input) in join.inputs.iter().enumerate() {
            let own = &self.input(position).columns;
            facts.push(typed(&input.keys, own, self.input_schema(position)));
            facts.push(self.whole_rows(position));
        }
        for level in &join.levels {
            let condition = optional(level.condition.as_ref(), &columns);
            facts.push(format!(
                "{:?} {:?} {condition}",
                level.kind, level.joined_to
            ));
        }
        let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
        self.making(&facts, columns)
    }

    fn interval_join(&self, join: &IntervalJoinNode) -> Lineage {
        let (left, right) = (&self.input(0).columns, &self.input(1).columns);
        let facts = [
            format!("{:?} {}", join.kind, join.is_event_time),
            format!("{} {}", join.lower_bound_ms, join.upper_bound_ms),
            left[join.left_time].clone(),
            right[join.right_time].clone(),
        ];
        let facts = facts.each_ref().map(String::as_str);
        self.join_of(&join.keys, join.condition.as_ref(), &facts)
    }

    fn temporal_join(&self, join: &TemporalJoinNode) -> Lineage {
        let (left, right) = (&self.input(0).columns, &self.input(1).columns);
        let facts = [
            format!("{:?}", join.kind),
            left[join.left_time].clone(),
            right[join.right_time].clone(),
            listed(&join.right_key, right),
        ];
        let facts = facts.each_ref().map(String::as_str);
        self.join_of(&join.keys, join.condition.as_ref(), &facts)
    }

    fn lookup_join(&self, join: &LookupJoinNode) -> Lineage {
        let input = &self.input(0).columns;
        let mut columns = input.clone();
        let added = self.node.schema.names().skip(input.len());
        columns.extend(added.map(|name| format!("{}.{name}", join.table.name)));
        let keys = join.keys.iter().map(|key| {
            let column = &join.table.physical.fields[key.column].name;
            match &key.value {
                LookupValue::Column(value) => format!("{column}={}", input[*value]),
                LookupValue::Constant(value) => format!("{column}={value}"),
            }
        });
        let facts = [
            join.table.name.clone(),
            format!("{:?}", join.kind),
            keys.collect::<Vec<_>>().join(", "),
            optional(join.condition.as_ref(), &columns),
        ];
        self.making(&facts.each_ref().map(String::as_str), columns)
    }

    fn changelog_normalize(&self, node: &ChangelogNormalizeNode) -> Lineage {
        let input = self.input(0);
        let key = typed(&node.key, &input.columns, self.input_schema(0));
        match &node.condition {
            None => self.passing(&[&key]),
            Some(condition) => {
                let condition = text(condition, &input.columns);
                self.making(&[&key, &condition], input.columns.clone())
            }
        }
    }

    fn materializer(&self, node: &SinkUpsertMaterializerNode) -> Lineage {
        let input = &self.input(0).columns;
        let identity = match &node.upsert_key[..] {
            [] => input.join(", "),
            key => listed(key, input),
        };
        let key = typed(&node.primary_key, input, self.input_schema(0));
        self.passing(&[&node.table, &key, &identity])
    }

    fn sink(&self, sink: &SinkNode) -> Lineage {
        match &sink.target {
            SinkTarget::Table(table) => self.named_rows(&table.name),
            SinkTarget::Collect => self.named_rows("*"),
        }
    }
}
