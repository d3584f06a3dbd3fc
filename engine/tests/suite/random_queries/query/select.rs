//! SELECT … WHERE, DISTINCT, and UNNEST.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::super::column::{Column, Kind};
use super::super::draft::part;
use super::{Relation, Writer};

impl Writer<'_> {
    pub(super) fn select(&mut self, levels: usize) -> Relation {
        let input = self.input(levels);
        let filter = match self.random.random_range(0..10) {
            0..5 => {
                let condition = self.condition(&input.columns);
                self.part(format!(" WHERE {condition}"))
            }
            5 => self.scalar_filter(&input, levels),
            _ => String::new(),
        };
        let (items, columns, kept) = self.items(&input);
        Relation {
            sql: self.around(format!("SELECT {items} FROM "), &input, filter),
            is_table: false,
            keys: input.keys_in(&kept),
            columns,
            inserts_only: input.inserts_only,
            array: None,
        }
    }

    /// A comparison with what a subquery gives: an aggregate of other rows, or of those with an equal column.
    fn scalar_filter(&mut self, input: &Relation, levels: usize) -> String {
        let other = self.input(levels);
        let Some(value) = self.column_of(&other.columns, |column| {
            input.columns.iter().any(|own| own.kind == column.kind)
        }) else {
            return String::new();
        };
        let own = self.column_of(&input.columns, |column| column.kind == value.kind);
        let own = own.expect("a column of the kind");
        let function = ["MIN", "MAX"].choose(self.random).unwrap_or(&"MAX");
        let operator = self.comparison();
        let alias = self.name("r");
        let from = self.read_as(&other, &alias);
        self.part(format!(
            " WHERE {} {operator} (SELECT {function}({alias}.{}) FROM {from})",
            own.name, value.name
        ))
    }

    /// Most columns, and perhaps values computed of them. Also which columns stay, at the positions of the new ones.
    fn items(&mut self, input: &Relation) -> (String, Vec<Column>, Vec<usize>) {
        let count = input.columns.len();
        let mut kept: Vec<usize> = match self.chance(0.4) {
            true => (0..count).collect(),
            false => self.some_columns(count, 6),
        };
        kept.truncate(7);
        let mut columns: Vec<Column> = kept.iter().map(|at| input.columns[*at].clone()).collect();
        let mut items: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        while self.chance(0.35) && columns.len() < 8 {
            let kind = *Kind::ALL.choose(self.random).unwrap_or(&Kind::Int);
            let name = self.name("e");
            items.push(format!("{} AS {name}", self.value(&input.columns, kind, 2)));
            columns.push(Column {
                name,
                kind,
                nullable: true,
                is_rowtime: false,
            });
        }
        (self.list(&items), columns, kept)
    }

    pub(super) fn distinct(&mut self, levels: usize) -> Relation {
        let input = self.input(levels);
        let kept = self.some_columns(input.columns.len(), 3);
        let all = input.plain_columns();
        let columns: Vec<Column> = kept.iter().map(|at| all[*at].clone()).collect();
        let items: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let distinct = self.part(" DISTINCT");
        let select = format!("SELECT{distinct} {} FROM ", self.list(&items));
        Relation {
            sql: self.around(select, &input, String::new()),
            is_table: false,
            keys: vec![(0..columns.len()).collect()],
            columns,
            inserts_only: input.inserts_only,
            array: None,
        }
    }

    pub(super) fn unnest(&mut self) -> Relation {
        let table = self.table_where(|table| table.array.is_some());
        let Some(array) = &table.array else {
            return self.select(1);
        };
        let element = self.name("e");
        let mut columns = table.columns.clone();
        let mut names = element.clone();
        columns.push(Column {
            name: element,
            kind: Kind::Int,
            nullable: true,
            is_rowtime: false,
        });
        let outer = self.chance(0.5);
        let mut keys = Vec::new();
        let ordinality = match self.chance(0.5) {
            true => {
                let name = self.name("o");
                names += &format!(", {name}");
                let last = columns.len();
                keys.extend(table.keys.iter().map(|key| [&key[..], &[last]].concat()));
                columns.push(Column {
                    name,
                    kind: Kind::Int,
                    nullable: outer,
                    is_rowtime: false,
                });
                " WITH ORDINALITY"
            }
            false => "",
        };
        let (join, on) = match outer {
            true => ("LEFT JOIN", " ON TRUE"),
            false => ("CROSS JOIN", ""),
        };
        let items: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let alias = self.name("u");
        let filter = match self.random.random_bool(0.3) {
            true => {
                self.parts += 1;
                part(self.parts, format!(" WHERE {}", self.condition(&columns)))
            }
            false => String::new(),
        };
        Relation {
            sql: format!(
                "SELECT {} FROM {} {join} UNNEST({array}){ordinality} AS {alias} ({names}){on}{filter}",
                self.list(&items),
                table.sql
            ),
            is_table: false,
            columns,
            keys,
            inserts_only: table.inserts_only,
            array: None,
        }
    }
}
