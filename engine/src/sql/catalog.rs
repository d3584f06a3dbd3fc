//! The catalog of a session: tables and views of `default_catalog.default_database`; temporary ones hide the others.

use std::collections::BTreeMap;

use sqlparser::ast::{Ident, Query};

use super::hints::Hints;
use super::position;
use super::statement::{Name, ObjectKind};
use super::suggestion;
use crate::connectors::TableDescriptor;
use crate::error::{Error, Result};
use crate::plan::logical::{ColumnSpec, TableSpec, WatermarkSpec};
use crate::types::{Field, Schema};

/// The only catalog.
pub(super) const CATALOG: &str = "default_catalog";
/// Its only database.
pub(super) const DATABASE: &str = "default_database";

/// Tables and views by name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    permanent: BTreeMap<String, CatalogObject>,
    temporary: BTreeMap<String, CatalogObject>,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub(super) enum CatalogObject {
    Table(CatalogTable),
    View(CatalogView),
}

/// A table as CREATE TABLE declared it.
#[derive(Debug, Clone)]
pub struct CatalogTable {
    /// Its name, without catalog and database.
    pub name: String,
    /// All columns, physical and computed, in the order of declaration.
    pub columns: Vec<ColumnSpec>,
    /// The WATERMARK clause.
    pub watermark: Option<WatermarkSpec>,
    /// The primary key: indices of physical columns.
    pub primary_key: Vec<usize>,
    /// The options of WITH.
    pub options: BTreeMap<String, String>,
    /// How the computed columns' expressions were written, by index of the column.
    pub(super) computed_texts: BTreeMap<usize, String>,
    /// How the watermark's expression was written.
    pub(super) watermark_text: Option<String>,
}

/// A view: its query is bound anew wherever it is used.
#[derive(Debug, Clone)]
pub struct CatalogView {
    /// Its name, without catalog and database.
    pub name: String,
    /// The names of its columns, fixed when it was created.
    pub columns: Vec<String>,
    /// The query as written.
    pub text: String,
    pub(super) query: Box<Query>,
    pub(super) hints: Hints,
}

impl CatalogObject {
    pub(super) fn kind(&self) -> ObjectKind {
        match self {
            CatalogObject::Table(_) => ObjectKind::Table,
            CatalogObject::View(_) => ObjectKind::View,
        }
    }
}

impl Catalog {
    /// The table of this name, if there is one.
    pub fn table(&self, name: &str) -> Option<&CatalogTable> {
        match self.find(name) {
            Some(CatalogObject::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// The table of this name, to change its options (a test gives tables without a connector one of its own).
    pub fn table_mut(&mut self, name: &str) -> Option<&mut CatalogTable> {
        let object = match self.temporary.get_mut(name) {
            Some(object) => Some(object),
            None => self.permanent.get_mut(name),
        };
        match object {
            Some(CatalogObject::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// The names of all tables, sorted; views not among them.
    pub fn table_names(&self) -> Vec<String> {
        self.names(ObjectKind::Table)
    }

    /// The names of all views, sorted.
    pub fn view_names(&self) -> Vec<String> {
        self.names(ObjectKind::View)
    }

    fn names(&self, kind: ObjectKind) -> Vec<String> {
        let mut names: Vec<String> = self
            .all_names()
            .filter(|name| self.find(name).is_some_and(|object| object.kind() == kind))
            .map(str::to_string)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The names of all tables and views.
    pub(super) fn all_names(&self) -> impl Iterator<Item = &str> {
        self.temporary
            .keys()
            .chain(self.permanent.keys())
            .map(String::as_str)
    }

    pub(super) fn find(&self, name: &str) -> Option<&CatalogObject> {
        self.temporary
            .get(name)
            .or_else(|| self.permanent.get(name))
    }

    /// Adds an object. Says whether it was added: not, where the name is taken and `if_not_exists`.
    pub(super) fn create(
        &mut self,
        name: &Name,
        object: CatalogObject,
        temporary: bool,
        if_not_exists: bool,
    ) -> Result<bool> {
        let key = local_name(name)?;
        let objects = if temporary {
            &mut self.temporary
        } else {
            &mut self.permanent
        };
        match objects.get(&key) {
            Some(_) if if_not_exists => Ok(false),
            Some(existing) => Err(Error::user(format!(
                "there is already a {} \"{key}\"",
                existing.kind().word()
            ))
            .at(place(name))
            .hint("drop it first, or write IF NOT EXISTS to keep it")),
            None => {
                objects.insert(key, object);
                Ok(true)
            }
        }
    }

    /// Removes an object.
    pub(super) fn drop(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        temporary: bool,
        if_exists: bool,
    ) -> Result<()> {
        let key = local_name(name)?;
        let hidden = !temporary && self.temporary.contains_key(&key);
        let objects = if temporary {
            &mut self.temporary
        } else {
            &mut self.permanent
        };
        match objects.get(&key).map(CatalogObject::kind) {
            Some(found) if found != kind => Err(Error::user(format!(
                "\"{key}\" is a {}, not a {}",
                found.word(),
                kind.word()
            ))
            .at(place(name))
            .hint(format!("DROP {} {key}", found.word().to_uppercase()))),
            Some(_) if hidden => Err(Error::user(format!(
                "a temporary {} \"{key}\" hides the permanent one",
                kind.word()
            ))
            .at(place(name))
            .hint("drop the temporary one first: DROP TEMPORARY …")),
            Some(_) => {
                objects.remove(&key);
                Ok(())
            }
            None if if_exists => Ok(()),
            None => Err(self.missing_for_drop(kind, name, &key, temporary)),
        }
    }

    fn missing_for_drop(&self, kind: ObjectKind, name: &Name, key: &str, temporary: bool) -> Error {
        let error = if temporary {
            Error::user(format!("there is no temporary {} \"{key}\"", kind.word()))
        } else {
            Error::user(format!("there is no {} \"{key}\"", kind.word()))
        };
        let error = if !temporary && self.temporary.contains_key(key) {
            error.hint(format!(
                "there is a temporary one: DROP TEMPORARY {} {key}",
                kind.word().to_uppercase()
            ))
        } else {
            error
        };
        error
            .at(place(name))
            .hint(suggestion::hint(key, "tables and views", self.all_names()))
    }
}

impl CatalogTable {
    /// All columns.
    pub fn schema(&self) -> Schema {
        Schema::new(
            self.columns
                .iter()
                .map(|column| column.field.clone())
                .collect(),
        )
    }

    /// The physical columns: those of the connector, and of INSERT INTO.
    pub fn physical(&self) -> Schema {
        let fields = self
            .columns
            .iter()
            .filter(|column| column.computed.is_none());
        // A stored column is a plain timestamp to the connector, whatever the watermark makes of it.
        let plain = |field: &Field| field.clone().with_time_attribute(None);
        Schema::new(fields.map(|column| plain(&column.field)).collect())
    }

    /// The table as a plan has it, with the given options and session time zone.
    pub(super) fn spec(&self, options: BTreeMap<String, String>, time_zone: &str) -> TableSpec {
        let physical = self.physical();
        TableSpec {
            descriptor: TableDescriptor {
                name: self.name.clone(),
                projection: (0..physical.len()).collect(),
                physical,
                primary_key: self.primary_key.clone(),
                options,
                time_zone: time_zone.to_string(),
            },
            columns: self.columns.clone(),
            watermark: self.watermark.clone(),
        }
    }
}

/// The last part of `[[default_catalog.]default_database.]name`; other catalogs and databases are refused.
pub(super) fn local_name(name: &[Ident]) -> Result<String> {
    let (last, above) = name.split_last().expect("a name has a part");
    let known = match above {
        [] => true,
        [database] => database.value == DATABASE,
        [catalog, database] => catalog.value == CATALOG && database.value == DATABASE,
        _ => false,
    };
    if !known {
        let written: Vec<&str> = above.iter().map(|part| part.value.as_str()).collect();
        return Err(
            Error::user(format!("there is no database \"{}\"", written.join(".")))
                .at(place(name))
                .hint(format!("the only one is {CATALOG}.{DATABASE}")),
        );
    }
    Ok(last.value.clone())
}

/// Where a name stands.
pub(super) fn place(name: &[Ident]) -> Option<crate::types::SqlPosition> {
    name.first().and_then(|part| position::of_span(part.span))
}
