//! Reads of a table only what somebody reads: narrows the scan, the computed columns and the watermark together.
//!
//! They come out as TableSourceScan, Calc, WatermarkAssigner, next to each other; nothing goes between or below them.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::expr::{Expression, Position};
use crate::plan::exec_node::{ExecNodeKind, ExecPlan, NodeId};
use crate::plan::logical::TableSpec;
use crate::plan::nodes::{TableSourceScanNode, WatermarkAssignerNode};
use crate::plan::physical::Planner;
use crate::plan::relation::{Pending, Relation, column_of};
use crate::plan::row_logic::{reindex, substitute};
use crate::types::RowKind;

impl Planner<'_> {
    /// The `required` columns of a table.
    pub(crate) fn source(
        &mut self,
        table: &TableSpec,
        position: Position,
        required: &[usize],
    ) -> Result<Relation> {
        let needed = self.needed_columns(table, position, required)?;
        let scan = self.table_scan(table, position, &needed)?;
        let mut relation = self.declared_columns(table, scan, &needed);
        if let Some(watermark) = &table.watermark {
            let settled = relation.clone().select(&needed).settle(&mut self.builder)?;
            let at = |column: usize| {
                let position = needed.binary_search(&column).expect("needed");
                settled.bare(position).expect("settled columns are bare")
            };
            let field = &table.columns[watermark.column].field;
            let mut schema = self.builder.node(settled.base).schema.clone();
            schema.fields[at(watermark.column)].time_attribute = field.time_attribute;
            let kind = ExecNodeKind::WatermarkAssigner(WatermarkAssignerNode {
                column: at(watermark.column),
                expression: reindex(&watermark.expression, &at),
                table: table.descriptor.name.clone(),
                column_name: field.name.clone(),
                session_idle_timeout_ms: self
                    .config
                    .duration("table.exec.source.idle-timeout")
                    .as_millis() as u64,
                options: watermark_options(table),
                keeps_all_steps: false,
            });
            let node = self.builder.add(kind, vec![settled.base], schema);
            let schema = &self.builder.node(node).schema;
            relation.base = node;
            for column in &needed {
                relation.columns[*column] = Some(column_of(schema, at(*column)));
            }
        }
        Ok(relation)
    }

    /// The required columns, those of the watermark, and those that name the rows where old rows may have to be restored by them;
    /// sorted.
    fn needed_columns(
        &self,
        table: &TableSpec,
        position: Position,
        required: &[usize],
    ) -> Result<Vec<usize>> {
        let factory = self.connectors.for_table(&table.descriptor, position.0)?;
        let mode = factory
            .source_changelog_mode(&table.descriptor)
            .map_err(|error| error.at(position.0))?;
        let duplicates = self.config.get("table.exec.source.cdc-events-duplicate");
        let repeats = duplicates.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let by_key = !mode.contains(RowKind::UpdateBefore) || repeats;
        let mut needed = with_watermark(table, required);
        if !mode.is_insert_only() && by_key {
            let is_key = |declared: &usize| {
                table.columns[*declared].computed.is_none()
                    && table
                        .descriptor
                        .primary_key
                        .contains(&physical_index(table, *declared))
            };
            needed.extend((0..table.columns.len()).filter(is_key));
            needed.sort_unstable();
            needed.dedup();
        }
        Ok(needed)
    }

    fn table_scan(
        &mut self,
        table: &TableSpec,
        position: Position,
        needed: &[usize],
    ) -> Result<NodeId> {
        let factory = self.connectors.for_table(&table.descriptor, position.0)?;
        let mut descriptor = table.descriptor.clone();
        if factory.projects() {
            descriptor.projection = physical_columns(table, needed);
        }
        let changelog_mode = factory
            .source_changelog_mode(&descriptor)
            .map_err(|error| error.at(position.0))?;
        let schema = descriptor.projected();
        let kind = ExecNodeKind::TableSourceScan(TableSourceScanNode {
            table: descriptor,
            narrowed: vec![],
            changelog_mode,
        });
        Ok(self.builder.add(kind, vec![], schema))
    }

    /// All declared columns over the scan; those that nobody needs are left out.
    fn declared_columns(&self, table: &TableSpec, scan: NodeId, needed: &[usize]) -> Relation {
        let node = self.builder.node(scan);
        let ExecNodeKind::TableSourceScan(source) = &node.kind else {
            unreachable!("made by table_scan");
        };
        let read = |physical: usize| {
            let projection = &source.table.projection;
            let position = projection.iter().position(|column| *column == physical);
            column_of(
                &node.schema,
                position.expect("needed columns are projected"),
            )
        };
        let columns = (0..table.columns.len()).map(|index| {
            needed
                .contains(&index)
                .then(|| match &table.columns[index].computed {
                    None => read(physical_index(table, index)),
                    Some(expression) => substitute(expression, &read),
                })
        });
        Relation {
            base: scan,
            schema: table.schema(),
            columns: columns.collect(),
            condition: None,
            pending: Pending::Nothing,
        }
    }
}

/// The required columns and those of the watermark, sorted.
fn with_watermark(table: &TableSpec, required: &[usize]) -> Vec<usize> {
    let mut needed: BTreeSet<usize> = required.iter().copied().collect();
    if let Some(watermark) = &table.watermark {
        needed.insert(watermark.column);
        needed.extend(watermark.expression.columns());
    }
    needed.into_iter().collect()
}

/// The position of a declared physical column among the physical ones.
fn physical_index(table: &TableSpec, declared: usize) -> usize {
    table.columns[..declared]
        .iter()
        .filter(|column| column.computed.is_none())
        .count()
}

/// The physical columns that the needed ones are made of; one at least.
fn physical_columns(table: &TableSpec, needed: &[usize]) -> Vec<usize> {
    let read: BTreeSet<usize> = needed
        .iter()
        .flat_map(|column| match &table.columns[*column].computed {
            None => vec![physical_index(table, *column)],
            Some(expression) => expression.columns(),
        })
        .collect();
    if read.is_empty() && !table.descriptor.physical.is_empty() {
        return vec![0];
    }
    read.into_iter().collect()
}

fn watermark_options(table: &TableSpec) -> std::collections::BTreeMap<String, String> {
    table
        .descriptor
        .options
        .iter()
        .filter(|(key, _)| key.starts_with("scan.watermark."))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Tells the assigners whether somebody sees every watermark: an expression that reads CURRENT_WATERMARK, or a join that emits
/// rows in the order in which watermarks make them due.
pub(crate) fn mark_readers_of_watermarks(plan: &mut ExecPlan) {
    let everywhere = plan
        .nodes
        .iter()
        .flat_map(|node| node.kind.expressions())
        .any(|expression: &Expression| expression.calls("CURRENT_WATERMARK"));
    let mut reads = vec![everywhere; plan.nodes.len()];
    for node in plan.nodes.iter().rev() {
        let in_order = match &node.kind {
            ExecNodeKind::TemporalJoin(_) => true,
            ExecNodeKind::IntervalJoin(join) => join.feels_every_watermark(),
            _ => false,
        };
        if reads[node.id.0] || in_order {
            node.inputs.iter().for_each(|input| reads[input.0] = true);
        }
    }
    for (node, reads) in plan.nodes.iter_mut().zip(reads) {
        if let ExecNodeKind::WatermarkAssigner(assigner) = &mut node.kind {
            assigner.keeps_all_steps = reads;
        }
    }
}
