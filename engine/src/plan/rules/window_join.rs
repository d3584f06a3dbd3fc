//! A join on equal window_start and equal window_end of both sides becomes a window join.

use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::Join;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::WindowJoinNode;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;
use crate::window::{WindowColumn, WindowSpec};

use super::join::JoinInputs;
use super::join_conditions::Equality;

impl Planner<'_> {
    /// A join whose condition equates both bounds of one window.
    pub(super) fn window_join(
        &mut self,
        id: LogicalId,
        join: &Join,
        inputs: JoinInputs,
        window: JoinedWindow,
    ) -> Result<Relation> {
        let (bounds, keys): (Vec<Equality>, Vec<Equality>) = inputs
            .conditions
            .equalities
            .iter()
            .cloned()
            .partition(|equality| window.is_bound(equality));
        debug_assert!(bounds.len() >= 2, "a window join equates both bounds");
        let residual = inputs.conditions.residual();
        let sides = self.join_sides(inputs, keys, residual)?;
        let kind = ExecNodeKind::WindowJoin(WindowJoinNode {
            kind: join.kind,
            left_window_start: sides.left.at(window.start.0),
            left_window_end: sides.left.at(window.end.0),
            right_window_start: sides.right.at(window.start.1 - sides.left_width),
            right_window_end: sides.right.at(window.end.1 - sides.left_width),
            window: window.window,
            keys: sides.keys.clone(),
            condition: sides.condition.clone(),
        });
        let schema = self.join_schema(join.kind, &sides);
        Ok(self.joined(id, kind, sides, schema))
    }

    /// The window whose bounds both inputs carry and the condition equates, if it does. Refused: different windows.
    pub(super) fn joined_window(
        &self,
        join: &Join,
        inputs: &JoinInputs,
    ) -> Result<Option<JoinedWindow>> {
        let (left, right) = (&inputs.left, &inputs.right);
        let bound = |wanted: WindowColumn| {
            inputs.conditions.equalities.iter().find_map(|equality| {
                let columns = equality.columns?;
                let right_column = columns.1 - inputs.conditions.left_width;
                let both = left.window_column(&self.builder, columns.0) == Some(wanted)
                    && right.window_column(&self.builder, right_column) == Some(wanted);
                both.then_some(columns)
            })
        };
        let (Some(start), Some(end)) = (bound(WindowColumn::Start), bound(WindowColumn::End))
        else {
            return Ok(None);
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
        Ok(Some(JoinedWindow { window, start, end }))
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

/// The window of a join, and the columns (left, right) of its bounds among the joined ones.
pub(super) struct JoinedWindow {
    window: WindowSpec,
    start: (usize, usize),
    end: (usize, usize),
}

impl JoinedWindow {
    fn is_bound(&self, equality: &Equality) -> bool {
        equality.columns == Some(self.start) || equality.columns == Some(self.end)
    }
}
