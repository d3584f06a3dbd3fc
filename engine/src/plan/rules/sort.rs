//! ORDER BY and LIMIT become a temporal sort, or a Top-N of all rows.

use crate::error::{Error, Result};
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::Sort;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{RankForm, RankNode, RankRange, TemporalSortNode};
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;
use crate::types::SortKey;

impl Planner<'_> {
    /// The rows of a query in order, or the first of them.
    pub(crate) fn sort(&mut self, id: LogicalId, sort: &Sort) -> Result<Relation> {
        let required = self.required(id).to_vec();
        let mut read = required.clone();
        for key in &sort.order_by {
            if !read.contains(&key.column) {
                read.push(key.column);
            }
        }
        let input = self.input(id, 0)?.decided(&mut self.builder)?;
        let packed = input.select(&read).pack(&mut self.builder)?;
        let place = |column: usize| {
            let read = read.iter().position(|read| *read == column);
            packed.at(read.expect("a column that is read"))
        };
        let order_by: Vec<SortKey> = sort
            .order_by
            .iter()
            .map(|key| SortKey {
                column: place(key.column),
                ..*key
            })
            .collect();
        let below = self.builder.distribute(packed.node, &[]);
        let kind = match sort.fetch {
            Some(fetch) => self.first_rows(below, order_by, sort.offset, fetch),
            None => self.temporal_sort(below, order_by, sort)?,
        };
        let schema = self.builder.node(below).schema.clone();
        let node = self.builder.add(kind, vec![below], schema);
        let sorted = Relation::of_node(&self.builder, node);
        let mut columns = vec![None; self.schema(id).len()];
        for column in required {
            columns[column] = sorted.columns[place(column)].clone();
        }
        Ok(Relation {
            columns,
            schema: self.schema(id).clone(),
            ..sorted
        })
    }

    fn first_rows(
        &self,
        input: NodeId,
        order_by: Vec<SortKey>,
        offset: u64,
        fetch: u64,
    ) -> ExecNodeKind {
        let form = if order_by.is_empty() {
            RankForm::Limit
        } else {
            RankForm::SortLimit
        };
        ExecNodeKind::Rank(RankNode {
            strategy: self.rank_strategy(input, &[], &order_by),
            partition_by: vec![],
            order_by,
            range: RankRange::Constant {
                start: offset.saturating_add(1),
                end: offset.saturating_add(fetch),
            },
            output_rank: false,
            form,
        })
    }

    fn temporal_sort(
        &self,
        input: NodeId,
        order_by: Vec<SortKey>,
        sort: &Sort,
    ) -> Result<ExecNodeKind> {
        if sort.offset > 0 || order_by.is_empty() {
            return Err(Error::user(
                "FETCH is missed, which on streaming table is not supported currently.",
            )
            .at(sort.position.0)
            .hint(
                "say how many rows stay behind the offset: OFFSET 5 ROWS FETCH NEXT 10 ROWS ONLY",
            ));
        }
        let schema = &self.builder.node(input).schema;
        let first = &order_by[0];
        if schema.fields[first.column].time_attribute.is_none() {
            return Err(
                Error::user("Sort on a non-time-attribute field is not supported.")
                    .at(sort.position.0)
                    .hint("order by a time attribute first, or add LIMIT to keep the first rows"),
            );
        }
        if first.descending {
            return Err(Error::user(
                "the time attribute of ORDER BY must be in ascending order: rows that come later would be the first",
            )
            .at(sort.position.0)
            .hint("leave out DESC, or add LIMIT to keep the last rows"));
        }
        Ok(ExecNodeKind::TemporalSort(TemporalSortNode { order_by }))
    }
}
