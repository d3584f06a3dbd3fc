//! What a connector is called, which options it has, and what the planner may ask of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{LookupSource, Sink, Source};
use crate::config::OptionSpec;
use crate::error::{Error, Result};
use crate::types::{ChangelogMode, Schema, SqlPosition};

/// A table as a connector sees it: the physical columns and the options of `WITH (…)`, hints already merged in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableDescriptor {
    /// The name in the catalog, for messages and split names.
    pub name: String,
    /// The physical columns as declared (no computed ones), in order; of a table that is read, ROW types may lack fields that
    /// nobody reads (see [`ConnectorFactory::projects_fields`]).
    pub physical: Schema,
    /// Which physical columns the query reads, by index, in the order in which the reader must give them. All of them where
    /// the connector cannot project.
    pub projection: Vec<usize>,
    /// The primary key: indices of physical columns.
    pub primary_key: Vec<usize>,
    /// The options, `connector` included.
    pub options: BTreeMap<String, String>,
    /// `table.local-time-zone`.
    pub time_zone: String,
}

impl TableDescriptor {
    /// The schema of what a reader gives: the projected physical columns.
    pub fn projected(&self) -> Schema {
        self.physical.project(&self.projection)
    }

    /// The value of an option.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// The value of an option that must be there.
    pub fn required(&self, key: &str) -> Result<&str> {
        self.option(key).ok_or_else(|| {
            Error::user(format!("table \"{}\" lacks the option '{key}'", self.name))
                .hint(format!("add '{key}' = '…' to WITH (…)"))
        })
    }
}

/// One kind of connector. Registered once, found by `'connector' = '…'`.
pub trait ConnectorFactory: Send + Sync {
    /// The value of the `connector` option.
    fn identifier(&self) -> &'static str;

    /// Every option that tables of this connector may have, those of its formats included; others are refused. Those of
    /// watermarks (`scan.watermark.*`) every table may have.
    fn options(&self, descriptor: &TableDescriptor) -> Vec<OptionSpec>;

    /// The kinds of rows that a source of this table gives.
    fn source_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        let _ = descriptor;
        Ok(ChangelogMode::INSERT_ONLY)
    }

    /// The kinds of rows that a sink of this table takes.
    fn sink_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        let _ = descriptor;
        Ok(ChangelogMode::INSERT_ONLY)
    }

    /// Whether a reader can leave out columns that nobody reads.
    fn projects(&self) -> bool {
        true
    }

    /// Whether a reader can leave out fields of ROW columns that nobody reads: it finds fields by name, so that a table
    /// declared with fewer of them gives the same values of the others, and NULL for the same rows. Then `physical` of the
    /// descriptor that the source is made of has ROW types of the fields that are read. Default: no.
    fn projects_fields(&self, descriptor: &TableDescriptor) -> bool {
        let _ = descriptor;
        false
    }

    /// The source of a table. Called when the plan is made, so that mistakes show early; opens nothing yet.
    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        Err(Error::unsupported(format!(
            "reading from connector '{}' (table \"{}\")",
            self.identifier(),
            descriptor.name
        )))
    }

    /// What answers for a table that is looked up by the physical columns `keys`, giving its projected columns. Called when the plan
    /// is made; opens nothing yet.
    fn create_lookup(
        &self,
        descriptor: &TableDescriptor,
        keys: &[usize],
    ) -> Result<Arc<dyn LookupSource>> {
        let _ = keys;
        Err(Error::unsupported(format!(
            "looking up rows in connector '{}' (table \"{}\")",
            self.identifier(),
            descriptor.name
        ))
        .hint("join the table as of an event time, or without FOR SYSTEM_TIME AS OF"))
    }

    /// The sink of a table; opens nothing yet.
    fn create_sink(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        Err(Error::unsupported(format!(
            "writing to connector '{}' (table \"{}\")",
            self.identifier(),
            descriptor.name
        )))
    }
}

/// The connectors that a session knows.
#[derive(Clone, Default)]
pub struct ConnectorRegistry {
    factories: BTreeMap<String, Arc<dyn ConnectorFactory>>,
}

impl ConnectorRegistry {
    /// Adds a connector, in place of one with the same identifier.
    pub fn register(&mut self, factory: Arc<dyn ConnectorFactory>) {
        self.factories
            .insert(factory.identifier().to_string(), factory);
    }

    /// All connectors, by identifier.
    pub fn factories(&self) -> impl Iterator<Item = &Arc<dyn ConnectorFactory>> {
        self.factories.values()
    }

    /// The factory for a table, after checking that every option is known.
    pub fn for_table(
        &self,
        descriptor: &TableDescriptor,
        position: Option<SqlPosition>,
    ) -> Result<Arc<dyn ConnectorFactory>> {
        let known = || {
            self.factories
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        };
        let name = descriptor.required("connector").map_err(|error| {
            error
                .at(position)
                .hint(format!("known connectors: {}", known()))
        })?;
        let factory = self.factories.get(name).ok_or_else(|| {
            Error::user(format!(
                "table \"{}\": there is no connector '{name}'",
                descriptor.name
            ))
            .at(position)
            .hint(format!("known connectors: {}", known()))
        })?;
        let mut known = factory.options(descriptor);
        known.extend_from_slice(crate::config::SCAN_WATERMARK_OPTIONS);
        crate::config::check_options(
            &descriptor.options,
            &known,
            &format!("table \"{}\" (connector '{name}')", descriptor.name),
        )
        .map_err(|error| error.at(position))?;
        Ok(factory.clone())
    }
}
