//! GROUP BY, grouping sets, HAVING, and aggregates of windows.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::super::column::{Column, Kind};
use super::super::tables::{Mode, shuffled};
use super::{Relation, Writer};

impl Writer<'_> {
    pub(super) fn aggregate(&mut self, levels: usize) -> Relation {
        let input = self.input(levels);
        let plain = input.plain_columns();
        let keys: Vec<Column> = match self.chance(0.12) {
            true => vec![],
            false => {
                let keys = self.some_columns(plain.len(), 2);
                keys.into_iter().map(|at| plain[at].clone()).collect()
            }
        };
        let (mut items, mut columns): (Vec<String>, Vec<Column>) = keys
            .iter()
            .map(|key| (key.name.clone(), key.clone()))
            .unzip();
        if let Some(key) = keys
            .choose(self.random)
            .filter(|_| self.random.random_bool(0.25))
        {
            let (item, column) = self.call_of_key(key);
            items.push(item);
            columns.push(column);
        }
        for _ in 0..self.random.random_range(1..=3) {
            let (item, column) = self.aggregate_call(&plain);
            items.push(item);
            columns.push(column);
        }
        let has_sets = !keys.is_empty() && self.chance(0.12);
        let group_by = self.group_by(&keys, has_sets);
        if has_sets {
            columns
                .iter_mut()
                .take(keys.len())
                .for_each(|key| key.nullable = true);
        }
        let filter = match self.chance(0.25) {
            true => {
                let condition = self.condition(&input.columns);
                self.part(format!(" WHERE {condition}"))
            }
            false => String::new(),
        };
        let having = match self.chance(0.2) {
            true => self.having(&plain),
            false => String::new(),
        };
        let select = format!("SELECT {} FROM ", self.list(&items));
        Relation {
            sql: self.around(select, &input, format!("{filter}{group_by}{having}")),
            is_table: false,
            keys: match has_sets {
                true => vec![],
                false => vec![(0..keys.len()).collect()],
            },
            columns,
            inserts_only: false,
            array: None,
        }
    }

    /// An aggregate that depends on the order of rows, over a column that is one value in each group.
    fn call_of_key(&mut self, key: &Column) -> (String, Column) {
        let name = self.name("a");
        let calls = ["FIRST_VALUE", "LAST_VALUE", "LISTAGG", "LISTAGG", "LISTAGG"];
        let known = if key.kind == Kind::Text { 5 } else { 2 };
        let call = calls[..known].choose(self.random).unwrap_or(&"LAST_VALUE");
        let column = Column {
            name: name.clone(),
            kind: key.kind,
            nullable: true,
            is_rowtime: false,
        };
        (format!("{call}({}) AS {name}", key.name), column)
    }

    fn group_by(&mut self, keys: &[Column], has_sets: bool) -> String {
        let names: Vec<&str> = keys.iter().map(|key| &key.name[..]).collect();
        let all = names.join(", ");
        if !has_sets {
            return match keys.is_empty() {
                true => String::new(),
                false => format!(" GROUP BY {all}"),
            };
        }
        match (self.random.random_range(0..3), &names[..]) {
            (0, _) => format!(" GROUP BY ROLLUP ({all})"),
            (1, _) => format!(" GROUP BY CUBE ({all})"),
            (_, [a, b]) => format!(" GROUP BY GROUPING SETS (({a}), ({b}), ({a}, {b}))"),
            _ => format!(" GROUP BY GROUPING SETS (({all}), ())"),
        }
    }

    fn having(&mut self, columns: &[Column]) -> String {
        let (call, column) = self.bare_call(columns);
        let operator = self.comparison();
        let bound = column.kind.literal(self.random);
        self.part(format!(" HAVING {call} {operator} {bound}"))
    }

    /// An aggregate as an item, and its column.
    pub(super) fn aggregate_call(&mut self, columns: &[Column]) -> (String, Column) {
        let (call, mut column) = self.bare_call(columns);
        let filter = match self.chance(0.15) {
            true => {
                let condition = self.condition(columns);
                self.part(format!(" FILTER (WHERE {condition})"))
            }
            false => String::new(),
        };
        column.name = self.name("a");
        (format!("{call}{filter} AS {}", column.name), column)
    }

    pub(super) fn bare_call(&mut self, columns: &[Column]) -> (String, Column) {
        let result = |kind: Kind, nullable: bool| Column {
            name: String::new(),
            kind,
            nullable,
            is_rowtime: false,
        };
        let number = self.column_of(columns, |column| column.kind.is_number());
        let any = columns
            .choose(self.random)
            .expect("a relation has columns")
            .clone();
        let distinct = match self.chance(0.25) {
            true => self.part("DISTINCT "),
            false => String::new(),
        };
        match (self.random.random_range(0..8), number) {
            (0, _) => ("COUNT(*)".to_string(), result(Kind::BigInt, false)),
            (1, _) if self.random.random_bool(0.2) => {
                let other = columns
                    .choose(self.random)
                    .map_or("", |column| &column.name);
                (
                    format!("COUNT(DISTINCT {}, {other})", any.name),
                    result(Kind::BigInt, false),
                )
            }
            (1 | 2, _) => (
                format!("COUNT({distinct}{})", any.name),
                result(Kind::BigInt, false),
            ),
            (3 | 4, Some(number)) => (
                format!("SUM({distinct}{})", number.name),
                result(number.kind, true),
            ),
            (5, Some(number)) => (
                format!("AVG({distinct}{})", number.name),
                result(number.kind, true),
            ),
            (6, _) => (format!("MIN({})", any.name), result(any.kind, true)),
            _ => (format!("MAX({})", any.name), result(any.kind, true)),
        }
    }

    /// The aggregate of a window: each window fires once.
    pub(super) fn window_aggregate(&mut self) -> Relation {
        let table =
            self.table_where(|table| table.mode == Mode::InsertOnly && table.time.is_some());
        let Some(time) = table.columns.iter().find(|column| column.is_rowtime) else {
            return self.aggregate(1);
        };
        let window = [
            "TUMBLE(TABLE {t}, DESCRIPTOR({c}), INTERVAL '5' SECOND)",
            "HOP(TABLE {t}, DESCRIPTOR({c}), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
            "CUMULATE(TABLE {t}, DESCRIPTOR({c}), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
        ];
        let window = window.choose(self.random).unwrap_or(&"");
        let window = window.replace("{t}", &table.sql).replace("{c}", &time.name);
        let plain: Vec<Column> = table
            .plain_columns()
            .into_iter()
            .filter(|column| column.name != time.name)
            .collect();
        let mut items = Vec::new();
        let mut columns = Vec::new();
        let mut group = vec!["window_start".to_string(), "window_end".to_string()];
        for bound in ["window_start", "window_end"] {
            let name = self.name("w");
            items.push(format!("{bound} AS {name}"));
            columns.push(Column {
                name,
                kind: Kind::Time,
                nullable: false,
                is_rowtime: false,
            });
        }
        let wanted = self.random.random_range(0..=2);
        for at in shuffled(self.random, plain.len()).into_iter().take(wanted) {
            group.push(plain[at].name.clone());
            items.push(plain[at].name.clone());
            columns.push(plain[at].clone());
        }
        let key = (0..columns.len()).collect();
        for _ in 0..self.random.random_range(1..=2) {
            let (item, column) = match plain.is_empty() {
                true => {
                    let name = self.name("a");
                    (
                        format!("COUNT(*) AS {name}"),
                        Column {
                            name,
                            kind: Kind::BigInt,
                            nullable: false,
                            is_rowtime: false,
                        },
                    )
                }
                false => self.aggregate_call(&plain),
            };
            items.push(item);
            columns.push(column);
        }
        Relation {
            sql: format!(
                "SELECT {} FROM TABLE({window}) GROUP BY {}",
                self.list(&items),
                group.join(", ")
            ),
            is_table: false,
            columns,
            keys: vec![key],
            inserts_only: true,
            array: None,
        }
    }
}
