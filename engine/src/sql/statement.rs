//! The syntax tree of statements; queries and expressions inside are the library's.

use std::collections::BTreeMap;

use sqlparser::ast::{Expr, Ident, Query};

use crate::plan::logical::ExplainDetails;
use crate::plan::logical::OnConflict;
use crate::types::{LogicalType, SqlPosition};

/// `a`, `a.b` or `a.b.c`.
pub(super) type Name = Vec<Ident>;

/// One statement.
#[derive(Debug, Clone)]
pub(super) enum Statement {
    CreateTable(CreateTable),
    CreateView(CreateView),
    Drop(Drop),
    /// `SET 'key' = 'value'`; without them: lists.
    Set(Option<(String, String, Option<SqlPosition>)>),
    /// `RESET 'key'`; without it: everything.
    Reset(Option<(String, Option<SqlPosition>)>),
    /// `USE CATALOG c`: the flag is true.
    Use(bool, Name),
    ShowTables,
    ShowViews,
    ShowCreate(ObjectKind, Name),
    Describe(Name),
    Inserts(Vec<Insert>),
    Explain(ExplainDetails, Box<Statement>),
    /// `EXPLAIN UPGRADE [FROM 'path'] statement`.
    ExplainUpgrade(Option<String>, Box<Statement>),
    Query(Box<Query>),
}

/// What a catalog holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Table,
    View,
}

impl ObjectKind {
    /// `table` or `view`.
    pub(super) fn word(self) -> &'static str {
        match self {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
        }
    }
}

/// `CREATE [TEMPORARY] TABLE …`.
#[derive(Debug, Clone)]
pub(super) struct CreateTable {
    pub(super) temporary: bool,
    pub(super) if_not_exists: bool,
    pub(super) name: Name,
    pub(super) columns: Vec<Column>,
    pub(super) watermarks: Vec<Watermark>,
    pub(super) primary_keys: Vec<PrimaryKey>,
    pub(super) options: BTreeMap<String, String>,
}

/// A column of CREATE TABLE.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: Ident,
    pub(super) kind: ColumnKind,
}

/// Whether a column is stored or computed.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "a statement has a few columns and lives for a moment"
)]
pub(super) enum ColumnKind {
    Physical(LogicalType),
    /// The expression, and how it was written.
    Computed(Expr, String),
}

/// `WATERMARK FOR column AS expression`.
#[derive(Debug, Clone)]
pub(super) struct Watermark {
    pub(super) column: Name,
    pub(super) expression: Expr,
    /// How the expression was written.
    pub(super) text: String,
}

/// `PRIMARY KEY (columns) NOT ENFORCED`.
#[derive(Debug, Clone)]
pub(super) struct PrimaryKey {
    pub(super) columns: Vec<Ident>,
    pub(super) position: Option<SqlPosition>,
}

/// `CREATE [TEMPORARY] VIEW …`.
#[derive(Debug, Clone)]
pub(super) struct CreateView {
    pub(super) temporary: bool,
    pub(super) if_not_exists: bool,
    pub(super) name: Name,
    pub(super) columns: Vec<Ident>,
    pub(super) query: Box<Query>,
    /// The query as written.
    pub(super) text: String,
}

/// `DROP [TEMPORARY] TABLE | VIEW [IF EXISTS] name`.
#[derive(Debug, Clone)]
pub(super) struct Drop {
    pub(super) kind: ObjectKind,
    pub(super) temporary: bool,
    pub(super) if_exists: bool,
    pub(super) name: Name,
}

/// `INSERT INTO table [(columns)] query`.
#[derive(Debug, Clone)]
pub(super) struct Insert {
    pub(super) table: Name,
    pub(super) columns: Vec<Ident>,
    pub(super) query: Box<Query>,
    pub(super) on_conflict: Option<OnConflict>,
}
