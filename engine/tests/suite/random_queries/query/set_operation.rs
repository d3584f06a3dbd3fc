//! UNION, INTERSECT and EXCEPT, with and without ALL.

use rand::seq::IndexedRandom;

use super::super::column::{Column, Kind};
use super::super::draft::part;
use super::{Relation, Writer};

impl Writer<'_> {
    pub(super) fn set_operation(&mut self, levels: usize) -> Relation {
        let (left, right) = self.two_inputs(levels);
        let kept = self.some_columns(left.columns.len(), 3);
        let columns: Vec<Column> = kept
            .iter()
            .map(|at| left.plain_columns()[*at].clone())
            .collect();
        let kinds: Vec<Kind> = kept.iter().map(|at| left.kinds()[*at]).collect();
        let operator = [
            "UNION ALL",
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "INTERSECT ALL",
            "EXCEPT",
            "EXCEPT ALL",
        ];
        let operator = *operator.choose(self.random).unwrap_or(&"UNION ALL");
        // The items of one position go together.
        let first_part = self.parts + 1;
        self.parts += columns.len();
        let item = |at: usize, text: &str| part(first_part + at, format!(", {text}"));
        let items: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| item(at, &column.name))
            .collect();
        let first = self.branch(&left, items.concat());
        let items: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| item(at, &self.matching(&right, *kind)))
            .collect();
        let second = self.branch(&right, items.concat());
        let second = self.part(format!(" {operator} {second}"));
        let all = operator.ends_with("ALL");
        Relation {
            sql: format!("{first}{second}"),
            is_table: false,
            keys: match all {
                true => vec![],
                false => vec![(0..columns.len()).collect()],
            },
            columns: columns
                .into_iter()
                .map(|column| Column {
                    nullable: true,
                    ..column
                })
                .collect(),
            inserts_only: operator.starts_with("UNION") && left.inserts_only && right.inserts_only,
            array: None,
        }
    }

    fn branch(&mut self, input: &Relation, items: String) -> String {
        let from = self.from(input);
        let filter = match self.chance(0.3) {
            true => {
                let condition = self.condition(&input.columns);
                self.part(format!(" WHERE {condition}"))
            }
            false => String::new(),
        };
        format!("SELECT {items} FROM {from}{filter}")
    }

    /// A column of a kind, or a constant.
    fn matching(&mut self, input: &Relation, kind: Kind) -> String {
        match self.column_of(&input.columns, |column| column.kind == kind) {
            Some(column) => column.name,
            None => kind.literal(self.random),
        }
    }
}
