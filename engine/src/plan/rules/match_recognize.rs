//! MATCH_RECOGNIZE becomes a Match over rows dealt by its keys.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::Match;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::MatchNode;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;
use crate::types::{SortKey, TimeAttribute};

impl Planner<'_> {
    /// Sequences of rows by a pattern.
    pub(crate) fn match_recognize(&mut self, id: LogicalId, found: &Match) -> Result<Relation> {
        let time = self.match_time(id, found)?;
        let read: BTreeSet<usize> = found
            .partition_by
            .iter()
            .copied()
            .chain(found.order_by.iter().map(|key| key.column))
            .chain(
                found
                    .navigations
                    .iter()
                    .flat_map(|(navigation, _)| navigation.columns()),
            )
            .collect();
        let packed = self.input(id, 0)?.only(&read).pack(&mut self.builder)?;
        let at = |column: usize| packed.at(column);
        let node = MatchNode {
            partition_by: found.partition_by.iter().map(|key| at(*key)).collect(),
            order_by: found
                .order_by
                .iter()
                .map(|key| SortKey {
                    column: at(key.column),
                    ..*key
                })
                .collect(),
            is_event_time: time == TimeAttribute::Rowtime,
            pattern: found.pattern.clone(),
            navigations: found
                .navigations
                .iter()
                .map(|(navigation, logical_type)| {
                    (navigation.map_columns(&at), logical_type.clone())
                })
                .collect(),
            conditions: found.conditions.clone(),
            measures: found.measures.clone(),
        };
        let input = self.builder.distribute(packed.node, &node.partition_by);
        let kind = ExecNodeKind::Match(node);
        let base = self.builder.add(kind, vec![input], found.schema.clone());
        Ok(Relation::of_node(&self.builder, base))
    }

    fn match_time(&self, id: LogicalId, found: &Match) -> Result<TimeAttribute> {
        let refuse = |message: &str| Err(Error::user(message).at(found.position.0));
        let Some(first) = found.order_by.first() else {
            return refuse(
                "MATCH_RECOGNIZE needs ORDER BY: You must specify either rowtime or proctime for order by.",
            );
        };
        let input = self.schema(self.graph.nodes[id].inputs[0]);
        match input.fields[first.column].time_attribute {
            None => {
                refuse("You must specify either rowtime or proctime for order by as the first one.")
            }
            Some(_) if first.descending => {
                refuse("Primary sort order of a streaming table must be ascending on time.")
            }
            Some(time) => Ok(time),
        }
    }
}
