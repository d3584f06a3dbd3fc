//! Random queries: SQL that binds, nested up to four levels, over random tables.
//!
//! A relation knows its columns and which of them are unique, so that ORDER BY can be total and a sink can have a primary
//! key. Column names are unique in the whole query.

mod aggregate;
mod expression;
mod join;
mod over;
mod rank;
mod select;
mod set_operation;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::column::{Column, Kind};
use super::draft::part;
use super::tables::{Mode, Table, shuffled};

/// Something that can stand in FROM.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// A table's name, or a query; a draft.
    pub(super) sql: String,
    pub(super) is_table: bool,
    pub(super) columns: Vec<Column>,
    /// Sets of columns whose values together are unique.
    pub(super) keys: Vec<Vec<usize>>,
    pub(super) inserts_only: bool,
    /// An ARRAY<INT>.
    array: Option<String>,
}

/// Writes one query.
pub(super) struct Writer<'r> {
    random: &'r mut SmallRng,
    tables: &'r [Table],
    names: usize,
    parts: usize,
}

impl<'r> Writer<'r> {
    pub(super) fn new(random: &'r mut SmallRng, tables: &'r [Table]) -> Self {
        Writer {
            random,
            tables,
            names: 0,
            parts: 0,
        }
    }

    /// A query of at most so many levels.
    pub(super) fn query(&mut self, levels: usize) -> Relation {
        match self.random.random_range(0..100) {
            0..12 => self.select(levels),
            12..32 => self.aggregate(levels),
            32..37 => self.distinct(levels),
            37..55 => self.join(levels),
            55..66 => self.semi_join(levels),
            66..79 => self.rank(levels),
            79..89 => self.set_operation(levels),
            89..93 => self.limit(levels),
            93..95 => self.over(levels),
            _ => self.of_table(),
        }
    }

    /// Queries that only make sense over a table.
    fn of_table(&mut self) -> Relation {
        match self.random.random_range(0..5) {
            0 | 1 => self.unnest(),
            2 | 3 => self.window_aggregate(),
            _ => self.interval_join(),
        }
    }

    /// What a query of some levels reads.
    fn input(&mut self, levels: usize) -> Relation {
        let levels = levels.saturating_sub(self.random.random_range(1..=2));
        if levels == 0 {
            let table = self.tables.choose(self.random).expect("there are tables");
            return table_relation(table);
        }
        self.query(levels)
    }

    /// Two inputs; sometimes twice the same.
    fn two_inputs(&mut self, levels: usize) -> (Relation, Relation) {
        let left = self.input(levels);
        let right = match self.chance(0.12) {
            true => left.clone(),
            false => self.input(levels),
        };
        (left, right)
    }

    /// A table for which something holds, or any.
    fn table_where(&mut self, is: impl Fn(&Table) -> bool) -> Relation {
        let tables: Vec<&Table> = self.tables.iter().filter(|table| is(table)).collect();
        let table = match tables.choose(self.random) {
            Some(table) => table,
            None => self.tables.choose(self.random).expect("there are tables"),
        };
        table_relation(table)
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Text that can be left out.
    fn part(&mut self, text: impl std::fmt::Display) -> String {
        self.parts += 1;
        part(self.parts, text)
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    /// A total order: some columns, then a key or all columns.
    fn total_order(&mut self, relation: &Relation) -> Vec<String> {
        let mut order: Vec<usize> = Vec::new();
        let count = relation.columns.len();
        if !self.chance(0.25) {
            let wanted = self.random.random_range(0..=2);
            order.extend(shuffled(self.random, count).into_iter().take(wanted));
        }
        let rest = match relation.keys.choose(self.random) {
            Some(key) if !key.is_empty() && !self.random.random_bool(0.2) => key.clone(),
            _ => shuffled(self.random, count),
        };
        for column in rest {
            if !order.contains(&column) {
                order.push(column);
            }
        }
        order
            .into_iter()
            .map(|column| self.ordered(&relation.columns[column]))
            .collect()
    }

    fn ordered(&mut self, column: &Column) -> String {
        let direction = ["", "", " ASC", " DESC", " DESC"]
            .choose(self.random)
            .unwrap_or(&"");
        let nulls = match self.random.random_range(0..8) {
            0 => " NULLS FIRST",
            1 => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", column.name)
    }

    /// Some of the positions of columns, at least one.
    fn some_columns(&mut self, count: usize, most: usize) -> Vec<usize> {
        let wanted = self.random.random_range(1..=most.min(count));
        shuffled(self.random, count)
            .into_iter()
            .take(wanted)
            .collect()
    }

    fn column_of(&mut self, columns: &[Column], is: impl Fn(&Column) -> bool) -> Option<Column> {
        let matching: Vec<&Column> = columns.iter().filter(|column| is(column)).collect();
        matching.choose(self.random).map(|column| (*column).clone())
    }

    /// Items of a SELECT, each with a comma in front and each to be left out.
    fn list(&mut self, items: &[String]) -> String {
        items
            .iter()
            .map(|item| self.part(format!(", {item}")))
            .collect()
    }

    /// Keys of an ORDER BY; all but the last can be left out.
    fn order_list(&mut self, keys: &[String]) -> String {
        let (last, others) = keys.split_last().expect("an order has a key");
        let others: Vec<String> = others
            .iter()
            .map(|key| self.part(format!("{key}, ")))
            .collect();
        format!("{}{last}", others.concat())
    }

    /// A query whose text around its input can be left out, where that is a query too.
    fn around(&mut self, before: String, input: &Relation, behind: String) -> String {
        let alias = self.name("r");
        if input.is_table {
            return format!("{before}{}{behind}", self.read_as(input, &alias));
        }
        self.parts += 1;
        let number = self.parts;
        format!(
            "{}{}{}",
            part(number, format!("{before}(")),
            input.sql,
            part(number, format!(") AS {alias}{behind}"))
        )
    }

    fn limit(&mut self, levels: usize) -> Relation {
        let input = self.input(levels);
        let order = self.total_order(&input);
        let order = self.order_list(&order);
        let limit = self.random.random_range(0..=6);
        let offset = match self.chance(0.3) {
            true => {
                let offset = self.random.random_range(1..=3);
                self.part(format!(" OFFSET {offset}"))
            }
            false => String::new(),
        };
        let items: Vec<String> = input
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect();
        let select = format!("SELECT {} FROM ", self.list(&items));
        let end = format!(" ORDER BY {order} LIMIT {limit}{offset}");
        Relation {
            sql: self.around(select, &input, end),
            is_table: false,
            inserts_only: false,
            array: None,
            ..input
        }
    }

    /// The relation as an item of FROM. A table with an array is read without it.
    fn from(&mut self, relation: &Relation) -> String {
        let alias = self.name("r");
        self.read_as(relation, &alias)
    }

    fn read_as(&mut self, relation: &Relation, alias: &str) -> String {
        match (relation.is_table, &relation.array) {
            (true, None) => format!("{} AS {alias}", relation.sql),
            (true, Some(_)) => {
                let names: Vec<&str> = relation
                    .columns
                    .iter()
                    .map(|column| &column.name[..])
                    .collect();
                format!(
                    "(SELECT {} FROM {}) AS {alias}",
                    names.join(", "),
                    relation.sql
                )
            }
            (false, _) => format!("({}) AS {alias}", relation.sql),
        }
    }
}

fn table_relation(table: &Table) -> Relation {
    Relation {
        sql: table.name.clone(),
        is_table: true,
        columns: table.columns.clone(),
        keys: table.keys(),
        inserts_only: table.mode == Mode::InsertOnly,
        array: table.array.clone(),
    }
}

impl Relation {
    /// The keys of which all columns stay, where the column at `kept[n]` becomes the `n`th.
    fn keys_in(&self, kept: &[usize]) -> Vec<Vec<usize>> {
        let place = |column: &usize| kept.iter().position(|other| other == column);
        let keys = self.keys.iter();
        keys.filter_map(|key| key.iter().map(place).collect())
            .collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        self.columns.iter().map(|column| column.kind).collect()
    }

    /// The columns as they are behind an operator that drops time attributes.
    fn plain_columns(&self) -> Vec<Column> {
        let plain = |column: &Column| Column {
            is_rowtime: false,
            ..column.clone()
        };
        self.columns.iter().map(plain).collect()
    }
}
