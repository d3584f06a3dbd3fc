//! Conditions and values over columns: none of them can fail, whatever the row.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::super::column::{Column, Kind};
use super::Writer;

impl Writer<'_> {
    /// A condition in which the parts behind AND can be left out.
    pub(super) fn condition(&mut self, columns: &[Column]) -> String {
        let mut condition = self.predicate(columns, 2);
        while self.chance(0.2) {
            let more = self.predicate(columns, 1);
            condition += &self.part(format!(" AND {more}"));
        }
        condition
    }

    fn predicate(&mut self, columns: &[Column], depth: usize) -> String {
        let column = columns
            .choose(self.random)
            .expect("a relation has columns")
            .clone();
        if depth > 0 && self.chance(0.25) {
            let (a, b) = (
                self.predicate(columns, depth - 1),
                self.predicate(columns, depth - 1),
            );
            return match self.random.random_range(0..3) {
                0 => format!("NOT ({a})"),
                1 => format!("({a} OR {b})"),
                _ => format!("({a} AND {b})"),
            };
        }
        let name = column.name.clone();
        match self.random.random_range(0..9) {
            0 if column.kind == Kind::Boolean => name,
            1 => format!("{name} IS NULL"),
            2 => format!("{name} IS NOT NULL"),
            3 => {
                let distinct = ["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
                    .choose(self.random)
                    .unwrap_or(&"");
                format!("{name} {distinct} {}", self.value(columns, column.kind, 1))
            }
            4 => {
                let items: Vec<String> = (0..3).map(|_| column.kind.literal(self.random)).collect();
                let not = if self.chance(0.4) { "NOT " } else { "" };
                format!("{name} {not}IN ({})", items.join(", "))
            }
            5 if column.kind != Kind::Boolean => {
                let bounds = [
                    column.kind.literal(self.random),
                    column.kind.literal(self.random),
                ];
                format!("{name} BETWEEN {} AND {}", bounds[0], bounds[1])
            }
            6 if column.kind == Kind::Text => format!("{name} LIKE 'a%'"),
            _ => {
                let operator = self.comparison();
                format!("{name} {operator} {}", self.value(columns, column.kind, 1))
            }
        }
    }

    pub(super) fn comparison(&mut self) -> &'static str {
        ["=", "<>", "<", "<=", ">", ">=", "<>"]
            .choose(self.random)
            .unwrap_or(&"=")
    }

    /// A value of a kind.
    pub(super) fn value(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        if depth > 0 && self.chance(0.5) {
            return self.computed(columns, kind, depth - 1);
        }
        match self.column_of(columns, |column| column.kind == kind) {
            Some(column) if self.chance(0.6) => column.name,
            _ => kind.literal(self.random),
        }
    }

    fn computed(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        match self.random.random_range(0..4) {
            0 => {
                let condition = self.predicate(columns, 0);
                let (a, b) = (
                    self.value(columns, kind, depth),
                    self.value(columns, kind, depth),
                );
                format!("CASE WHEN {condition} THEN {a} ELSE {b} END")
            }
            1 => format!(
                "COALESCE({}, {})",
                self.value(columns, kind, depth),
                kind.literal(self.random)
            ),
            2 => format!(
                "NULLIF({}, {})",
                self.value(columns, kind, depth),
                self.value(columns, kind, depth)
            ),
            _ => self.computed_by_kind(columns, kind, depth),
        }
    }

    fn computed_by_kind(&mut self, columns: &[Column], kind: Kind, depth: usize) -> String {
        let a = self.value(columns, kind, depth);
        let b = self.value(columns, kind, depth);
        let choice = self.random.random_range(0..3);
        match (kind, choice) {
            (Kind::Int, 0) => format!("MOD({a}, 2)"),
            (Kind::Int, 1) => {
                let text = self.value(columns, Kind::Text, 0);
                format!("CHAR_LENGTH({text})")
            }
            (Kind::BigInt, 0) => {
                let number = self.value(columns, Kind::Int, 0);
                format!("CAST({number} AS BIGINT)")
            }
            (Kind::Int | Kind::BigInt, _) => format!("({a} + {b})"),
            (Kind::Decimal, 0) => format!("CAST(({a} - {b}) AS DECIMAL(10, 2))"),
            (Kind::Decimal, _) => format!("ABS({a})"),
            (Kind::Double, _) => format!("({a} + {b})"),
            (Kind::Text, 0) => format!("UPPER({a})"),
            (Kind::Text, 1) => format!("({a} || {b})"),
            (Kind::Text, _) => {
                let number = self.value(columns, Kind::Int, 0);
                format!("CAST({number} AS STRING)")
            }
            (Kind::Boolean, 0) => format!("(NOT {a})"),
            (Kind::Boolean, _) => format!("({})", self.predicate(columns, 0)),
            (Kind::SmallInt | Kind::Date | Kind::Time, _) => a,
        }
    }
}
