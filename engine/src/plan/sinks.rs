//! The ends of queries: which sink takes what, and what is remembered by its primary key.
//!
//! A sink that takes upserts is right by itself where the query names its rows as the sink does. Where it names them otherwise,
//! several rows of the query may have one primary key, and what is seen of them is decided before the sink: by
//! `table.exec.sink.upsert-materialize`, or by ON CONFLICT.

use super::exec_node::{ExecNode, ExecNodeKind, NodeId};
use super::logical::{Insert, OnConflict, Statement};
use super::logical_graph::LogicalId;
use super::nodes::*;
use super::physical::Planner;
use crate::connectors::TableDescriptor;
use crate::error::{Error, Result};
use crate::types::{ChangelogMode, RowKind};

const MATERIALIZE: &str = "table.exec.sink.upsert-materialize";

impl Planner<'_> {
    /// The sinks of a statement, in order.
    pub(super) fn sinks(&mut self, statement: &Statement) -> Result<Vec<NodeId>> {
        let roots = self.graph.roots.clone();
        match statement {
            Statement::Inserts(inserts) => inserts
                .iter()
                .zip(roots)
                .map(|(insert, root)| self.insert(insert, root))
                .collect(),
            Statement::Select(_) => Ok(vec![self.collect(roots[0])?]),
        }
    }

    fn insert(&mut self, insert: &Insert, root: LogicalId) -> Result<NodeId> {
        let descriptor = &insert.table.descriptor;
        let position = insert.position.0;
        let placed = |error: Error| error.at(position);
        let factory = self.connectors.for_table(descriptor, position)?;
        let changelog_mode = factory.sink_changelog_mode(descriptor).map_err(placed)?;
        let table = factory.create_sink(descriptor).map_err(placed)?;
        let query = self.query(root)?;
        let mut node = self.sink_node(SinkTarget::Table(descriptor.clone()), changelog_mode);
        node.on_conflict = insert.on_conflict;
        let decided = self.settle_conflicts(query, &mut node).map_err(placed)?;
        let input = match table.parallelism() {
            _ if table.is_single() => self.builder.gather(decided),
            Some(1) => self.builder.gather(decided),
            _ => decided,
        };
        let given = &self.builder.node(input).schema;
        node.not_null = (0..given.len())
            .filter(|column| {
                given.fields[*column].logical_type.nullable
                    && !descriptor.physical.fields[*column].logical_type.nullable
            })
            .collect();
        let sink = self.sink(input, node);
        if let (Some(parallelism), false) = (table.parallelism(), table.is_single()) {
            self.check_parallelism(parallelism, decided, descriptor)
                .map_err(placed)?;
            self.builder.set_parallelism(sink, parallelism);
        }
        Ok(sink)
    }

    /// Rows are dealt one by one to as many subtasks of a sink as it asks for, so that those of one key may overtake each other.
    fn check_parallelism(
        &self,
        parallelism: usize,
        input: NodeId,
        table: &TableDescriptor,
    ) -> Result<()> {
        let most = self.config.max_parallelism() as usize;
        if parallelism > most {
            return Err(Error::user(format!(
                "table \"{}\": 'sink.parallelism' = '{parallelism}' is above 'pipeline.max-parallelism' = '{most}'",
                table.name
            )));
        }
        let input = self.builder.node(input);
        if parallelism == 1
            || parallelism == input.parallelism
            || input.changelog_mode.is_insert_only()
        {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "table \"{}\": 'sink.parallelism' = '{parallelism}' below a query that updates its rows at parallelism {}",
            table.name, input.parallelism
        ))
        .hint("leave the option out"))
    }

    fn collect(&mut self, root: LogicalId) -> Result<NodeId> {
        let query = self.query(root)?;
        let input = self.builder.gather(query);
        let node = self.sink_node(SinkTarget::Collect, ChangelogMode::RETRACT);
        Ok(self.sink(input, node))
    }

    fn sink_node(&self, target: SinkTarget, changelog_mode: ChangelogMode) -> SinkNode {
        SinkNode {
            target,
            not_null: vec![],
            enforcer: if self.option_is("table.exec.sink.not-null-enforcer", "drop") {
                NotNullEnforcer::Drop
            } else {
                NotNullEnforcer::Error
            },
            changelog_mode,
            type_length: self.type_length_enforcer(),
            upsert_materialize: false,
            on_conflict: None,
        }
    }

    fn type_length_enforcer(&self) -> TypeLengthEnforcer {
        let key = "table.exec.sink.type-length-enforcer";
        if self.option_is(key, "trim_pad") {
            TypeLengthEnforcer::TrimPad
        } else if self.option_is(key, "error") {
            TypeLengthEnforcer::Error
        } else {
            TypeLengthEnforcer::Ignore
        }
    }

    fn option_is(&self, key: &str, value: &str) -> bool {
        let option = self.config.get(key);
        option.is_some_and(|option| option.eq_ignore_ascii_case(value))
    }

    fn sink(&mut self, input: NodeId, node: SinkNode) -> NodeId {
        let schema = self.builder.node(input).schema.clone();
        self.builder
            .add(ExecNodeKind::Sink(node), vec![input], schema)
    }

    /// The rows of the query, decided by primary key where rows of several keys of the query may have the same.
    fn settle_conflicts(&mut self, query: NodeId, sink: &mut SinkNode) -> Result<NodeId> {
        let SinkTarget::Table(table) = &sink.target else {
            return Ok(query);
        };
        let table = table.clone();
        check_on_conflict(sink, &table)?;
        let key = sink.primary_key();
        if !takes_upserts(sink) || key.is_empty() {
            return Ok(query);
        }
        let input = self.builder.node(query);
        if !self.remembers_rows(input, sink.on_conflict, &key) {
            return Ok(query);
        }
        if sink.on_conflict.is_none()
            && !self.option_is(MATERIALIZE, "force")
            && self.option_is("table.exec.sink.require-on-conflict", "true")
        {
            return Err(self.without_on_conflict(query, &table, &key));
        }
        sink.upsert_materialize = true;
        let node = SinkUpsertMaterializerNode {
            table: table.name.clone(),
            upsert_key: input.upsert_key().unwrap_or_default().to_vec(),
            on_conflict: sink.on_conflict,
            compacts_at_checkpoints: self
                .option_is("table.exec.sink.upserts.compaction-mode", "checkpoint"),
            primary_key: key.clone(),
        };
        let dealt = self.builder.distribute(query, &key);
        let schema = self.builder.node(dealt).schema.clone();
        let kind = ExecNodeKind::SinkUpsertMaterializer(node);
        Ok(self.builder.add(kind, vec![dealt], schema))
    }

    fn remembers_rows(
        &self,
        input: &ExecNode,
        on_conflict: Option<OnConflict>,
        key: &[usize],
    ) -> bool {
        let within = |upsert: &Vec<usize>| upsert.iter().all(|column| key.contains(column));
        let conflicts = !input.upsert_keys.iter().any(within);
        let is_insert_only = input.changelog_mode.is_insert_only();
        let forced = self.option_is(MATERIALIZE, "force");
        match on_conflict {
            Some(OnConflict::DoNothing | OnConflict::DoError) => conflicts,
            Some(OnConflict::DoDeduplicate) => forced || conflicts && !is_insert_only,
            None if self.option_is(MATERIALIZE, "none") => false,
            None => forced || conflicts && !is_insert_only,
        }
    }

    fn without_on_conflict(&self, query: NodeId, table: &TableDescriptor, key: &[usize]) -> Error {
        let node = self.builder.node(query);
        let upsert_key = match node.upsert_key() {
            Some(key) => format!("[{}]", columns(&node.schema, key)),
            None => "none".to_string(),
        };
        Error::user(format!(
            "The query has an upsert key that differs from the primary key of the sink table \
             'default_catalog.default_database.{}'. Primary key: [{}], upsert key: {upsert_key}. Rows of several keys of the query \
             may have one primary key. Please specify an ON CONFLICT clause",
            table.name,
            columns(&table.physical, key),
        ))
        .hint(
            "add ON CONFLICT DO NOTHING (the first row stays), DO ERROR (the job fails) or DO DEDUPLICATE (the last row wins) behind \
             the query, or SET 'table.exec.sink.require-on-conflict' = 'false'",
        )
    }
}

/// Whether a sink wants updates without the rows before them.
fn takes_upserts(sink: &SinkNode) -> bool {
    sink.changelog_mode.contains(RowKind::UpdateAfter)
        && !sink.changelog_mode.contains(RowKind::UpdateBefore)
}

fn check_on_conflict(sink: &SinkNode, table: &TableDescriptor) -> Result<()> {
    let Some(on_conflict) = sink.on_conflict else {
        return Ok(());
    };
    let clause = format!("ON CONFLICT DO {}", on_conflict.name());
    if table.primary_key.is_empty() {
        return Err(Error::user(format!(
            "{clause} needs a PRIMARY KEY, but table \"{}\" declares none",
            table.name
        ))
        .hint("add PRIMARY KEY (…) NOT ENFORCED to CREATE TABLE, or leave the clause out"));
    }
    if !takes_upserts(sink) {
        return Err(Error::user(format!(
            "{clause} needs a table that takes updates by key, but \"{}\" takes [{}]",
            table.name, sink.changelog_mode
        ))
        .hint("leave the clause out"));
    }
    Ok(())
}
