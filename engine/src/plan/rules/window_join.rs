//! A join on equal window_start and equal window_end of both sides becomes a window join.

use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::{Join, JoinKind};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{JoinKey, WindowJoinNode};
use crate::plan::physical::Planner;
use crate::plan::relation::{Packed, Pending, Relation, column_of};
use crate::plan::row_logic::{can_fail, conjunction, conjuncts, is_shareable, reindex};
use crate::types::{Field, Schema};
use crate::window::{WindowColumn, WindowSpec};

use super::prune_columns::asked_by_join;

impl Planner<'_> {
    /// A window join, or refused.
    pub(crate) fn join(&mut self, id: LogicalId, join: &Join) -> Result<Relation> {
        let required = self.required(id).to_vec();
        let read = asked_by_join(
            join,
            &required,
            self.graph.nodes[self.graph.nodes[id].inputs[0]]
                .schema
                .len(),
        );
        let left = self
            .input(id, 0)?
            .only(&read[0])
            .decided(&mut self.builder)?;
        let right = self
            .input(id, 1)?
            .only(&read[1])
            .decided(&mut self.builder)?;
        let condition = Conditions::of(&join.condition, left.columns.len());
        let window = self.joined_window(join, &condition, &left, &right)?;
        let keys = condition.keys(&window);
        let (left, left_keys) = self.side(left, keys.iter().map(|key| &key.left))?;
        let (right, right_keys) = self.side(right, keys.iter().map(|key| &key.right))?;
        let keys: Vec<JoinKey> = keys
            .iter()
            .zip(left_keys.iter().zip(&right_keys))
            .map(|(key, (left, right))| JoinKey {
                left: *left,
                right: *right,
                null_safe: key.null_safe,
            })
            .collect();
        let width = self.builder.node(left.node).schema.len();
        let logical_left = condition.left_width;
        let at = |column: usize| {
            if column < logical_left {
                left.at(column)
            } else {
                width + right.at(column - logical_left)
            }
        };
        let residual = condition.residual().map(|part| reindex(&part, &at));
        let (left_in, right_in) = self.dealt(&left, &right, &keys);
        let kind = ExecNodeKind::WindowJoin(WindowJoinNode {
            kind: join.kind,
            window: window.window,
            left_window_start: left.at(window.start.0),
            left_window_end: left.at(window.end.0),
            right_window_start: right.at(window.start.1 - logical_left),
            right_window_end: right.at(window.end.1 - logical_left),
            keys,
            condition: residual,
        });
        let schema = self.join_schema(join.kind, left_in, right_in);
        let output = schema.clone();
        let node = self.builder.add(kind, vec![left_in, right_in], schema);
        let columns = self.schema(id).len();
        Ok(Relation {
            base: node,
            columns: (0..columns)
                .map(|column| {
                    required
                        .contains(&column)
                        .then(|| column_of(&output, at(column)))
                })
                .collect(),
            schema: self.schema(id).clone(),
            condition: None,
            pending: Pending::Nothing,
        })
    }

    /// One side with its keys as last columns; says where they are.
    fn side<'e>(
        &mut self,
        mut relation: Relation,
        keys: impl Iterator<Item = &'e Expression>,
    ) -> Result<(Packed, Vec<usize>)> {
        let first = relation.columns.len();
        for key in keys {
            let lowered = relation.lower(key);
            let field = Field::new(key.to_string(), key.logical_type().clone());
            relation.push(lowered, field);
        }
        let last = relation.columns.len();
        let packed = relation.pack(&mut self.builder)?;
        let keys = (first..last).map(|column| packed.at(column)).collect();
        Ok((packed, keys))
    }

    fn dealt(&mut self, left: &Packed, right: &Packed, keys: &[JoinKey]) -> (NodeId, NodeId) {
        let left_keys: Vec<usize> = keys.iter().map(|key| key.left).collect();
        let right_keys: Vec<usize> = keys.iter().map(|key| key.right).collect();
        (
            self.builder.distribute(left.node, &left_keys),
            self.builder.distribute(right.node, &right_keys),
        )
    }

    fn join_schema(&self, kind: JoinKind, left: NodeId, right: NodeId) -> Schema {
        let padded = |node: NodeId, pad: bool| {
            let mut schema = self.builder.node(node).schema.clone();
            for field in &mut schema.fields {
                field.logical_type.nullable |= pad;
            }
            schema
        };
        let left = padded(left, matches!(kind, JoinKind::Right | JoinKind::Full));
        match kind {
            JoinKind::Semi | JoinKind::Anti => left,
            _ => left.join(&padded(
                right,
                matches!(kind, JoinKind::Left | JoinKind::Full),
            )),
        }
    }

    fn joined_window(
        &self,
        join: &Join,
        conditions: &Conditions,
        left: &Relation,
        right: &Relation,
    ) -> Result<JoinedWindow> {
        let bound = |wanted: WindowColumn| {
            conditions.equalities.iter().find_map(|equality| {
                let columns = equality.columns?;
                let right_column = columns.1 - conditions.left_width;
                let both = left.window_column(&self.builder, columns.0) == Some(wanted)
                    && right.window_column(&self.builder, right_column) == Some(wanted);
                both.then_some(columns)
            })
        };
        let refuse = |hint: &str| {
            let what = format!("{} join without a window", kind_name(join.kind));
            Error::user(format!(
                "{what} is not supported yet: only window joins are"
            ))
            .at(join.position.0)
            .hint(hint.to_string())
        };
        let (start, end) = match (bound(WindowColumn::Start), bound(WindowColumn::End)) {
            (Some(start), Some(end)) => (start, end),
            (Some(_), None) => {
                return Err(refuse(
                    "join on window_end too: ON … AND l.window_end = r.window_end",
                ));
            }
            (None, Some(_)) => {
                return Err(refuse(
                    "join on window_start too: ON … AND l.window_start = r.window_start",
                ));
            }
            (None, None) => {
                return Err(refuse(
                    "join two windowed inputs ON l.window_start = r.window_start AND l.window_end = r.window_end",
                ));
            }
        };
        let window_of = |relation: &Relation| {
            let properties = relation.window_properties(&self.builder);
            properties.expect("a window column has a window").window
        };
        let (window, other) = (window_of(left), window_of(right));
        if window != other {
            return Err(Error::user(format!(
                "a window join needs the same window on both sides, but the left side has {} and the right side {}",
                described(&window),
                described(&other)
            ))
            .at(join.position.0)
            .hint("use the same window function with the same sizes, offset and kind of time on both sides"));
        }
        Ok(JoinedWindow { window, start, end })
    }
}

fn described(window: &WindowSpec) -> String {
    let time = match &window.time {
        crate::window::WindowTime::EventTimestamp => "event time as TIMESTAMP",
        crate::window::WindowTime::EventInstant { .. } => "event time as TIMESTAMP_LTZ",
        crate::window::WindowTime::Processing { .. } => "processing time",
    };
    match window.offset_ms {
        0 => format!("{} on {time}", window.kind),
        offset => format!("{} with offset {offset} ms on {time}", window.kind),
    }
}

fn kind_name(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "an inner",
        JoinKind::Left => "a LEFT",
        JoinKind::Right => "a RIGHT",
        JoinKind::Full => "a FULL",
        JoinKind::Semi => "a semi (IN, EXISTS)",
        JoinKind::Anti => "an anti (NOT IN, NOT EXISTS)",
    }
}

/// The window of a join, and the columns (left, right) of its bounds among the joined ones.
struct JoinedWindow {
    window: WindowSpec,
    start: (usize, usize),
    end: (usize, usize),
}

impl JoinedWindow {
    fn is_bound(&self, equality: &Equality) -> bool {
        equality.columns == Some(self.start) || equality.columns == Some(self.end)
    }
}

/// A join condition taken apart.
struct Conditions {
    left_width: usize,
    equalities: Vec<Equality>,
    others: Vec<Expression>,
}

/// `left = right`, each over its own side's columns.
struct Equality {
    left: Expression,
    right: Expression,
    null_safe: bool,
    /// The joined columns, where both sides are bare.
    columns: Option<(usize, usize)>,
}

impl Conditions {
    fn of(condition: &Expression, left_width: usize) -> Conditions {
        let mut conditions = Conditions {
            left_width,
            equalities: Vec::new(),
            others: Vec::new(),
        };
        for part in conjuncts(condition) {
            match equality(&part, left_width) {
                Some(equality) => conditions.equalities.push(equality),
                None => conditions.others.push(part),
            }
        }
        conditions
    }

    /// The equalities besides those of the window.
    fn keys(&self, window: &JoinedWindow) -> Vec<&Equality> {
        self.equalities
            .iter()
            .filter(|equality| !window.is_bound(equality))
            .collect()
    }

    /// What is not an equality of the two sides.
    fn residual(&self) -> Option<Expression> {
        conjunction(self.others.clone())
    }
}

fn equality(part: &Expression, left_width: usize) -> Option<Equality> {
    let Expression::Call {
        function,
        arguments,
        ..
    } = part
    else {
        return None;
    };
    let null_safe = function == "IS NOT DISTINCT FROM";
    let [first, second] = &arguments[..] else {
        return None;
    };
    if !(null_safe || function == "=") || !is_key(first) || !is_key(second) {
        return None;
    }
    let on_left = |e: &Expression| e.columns().iter().all(|column| *column < left_width);
    let on_right = |e: &Expression| e.columns().iter().all(|column| *column >= left_width);
    let (left, right) = if on_left(first) && on_right(second) {
        (first, second)
    } else if on_right(first) && on_left(second) {
        (second, first)
    } else {
        return None;
    };
    let bare = crate::plan::row_logic::bare_column;
    Some(Equality {
        left: left.clone(),
        right: reindex(right, &|column| column - left_width),
        null_safe,
        columns: bare(left).zip(bare(right)),
    })
}

/// Whether it may be computed for every row of its side.
fn is_key(expression: &Expression) -> bool {
    !expression.columns().is_empty()
        && (crate::plan::row_logic::bare_column(expression).is_some()
            || (!can_fail(expression) && is_shareable(expression)))
}
