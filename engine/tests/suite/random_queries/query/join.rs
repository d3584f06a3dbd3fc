//! Joins of every kind, IN and EXISTS.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::super::column::Column;
use super::super::tables::Mode;
use super::{Relation, Writer};

impl Writer<'_> {
    pub(super) fn join(&mut self, levels: usize) -> Relation {
        let (left, right) = self.two_inputs(levels);
        let (l, r) = (self.name("r"), self.name("r"));
        let join = [
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
        ];
        let mut join = *join.choose(self.random).unwrap_or(&"JOIN");
        let (a, b) = (qualified(&left, &l), qualified(&right, &r));
        let on = match self.equality(&a, &b) {
            Some(on) => format!(" ON {on}"),
            None if self.chance(0.5) => {
                join = "CROSS JOIN";
                String::new()
            }
            None => return self.select(levels),
        };
        let on = match join {
            "CROSS JOIN" => on,
            _ => on + &self.residual(&a, &b),
        };
        let (items, columns, kept) = self.both_sides(&left, &right, (&l, &r));
        let pairs = left.keys.iter().flat_map(|first| {
            let shift = left.columns.len();
            right.keys.iter().map(move |second| {
                let second = second.iter().map(|column| column + shift);
                first.iter().copied().chain(second).collect::<Vec<usize>>()
            })
        });
        let place = |column: usize| kept.iter().position(|other| *other == column);
        let keys = pairs
            .filter_map(|key| key.into_iter().map(place).collect())
            .collect();
        let (from, with) = (self.read_as(&left, &l), self.read_as(&right, &r));
        let join_part = self.part(format!(" {join} {with}{on}"));
        Relation {
            sql: format!("SELECT {} FROM {from}{join_part}", self.list(&items)),
            is_table: false,
            columns,
            keys,
            inserts_only: left.inserts_only
                && right.inserts_only
                && join.ends_with("JOIN")
                && !join.contains("T "),
            array: None,
        }
    }

    /// Some columns of both sides under new names, and which.
    fn both_sides(
        &mut self,
        left: &Relation,
        right: &Relation,
        aliases: (&str, &str),
    ) -> (Vec<String>, Vec<Column>, Vec<usize>) {
        let shift = left.columns.len();
        let mut kept: Vec<usize> = (0..shift + right.columns.len()).collect();
        while kept.len() > 7 || (kept.len() > 1 && self.chance(0.15)) {
            let at = self.random.random_range(0..kept.len());
            kept.remove(at);
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for at in &kept {
            let (column, alias) = match at.checked_sub(shift) {
                None => (&left.columns[*at], aliases.0),
                Some(at) => (&right.columns[at], aliases.1),
            };
            let name = self.name("c");
            items.push(format!("{alias}.{} AS {name}", column.name));
            columns.push(Column {
                name,
                kind: column.kind,
                nullable: true,
                is_rowtime: false,
            });
        }
        (items, columns, kept)
    }

    /// One or two equalities between the sides.
    fn equality(&mut self, left: &[Column], right: &[Column]) -> Option<String> {
        let mut condition = self.one_equality(left, right)?;
        if self.chance(0.2)
            && let Some(more) = self.one_equality(left, right)
        {
            condition += &self.part(format!(" AND {more}"));
        }
        Some(condition)
    }

    fn one_equality(&mut self, left: &[Column], right: &[Column]) -> Option<String> {
        let mut pairs = Vec::new();
        for a in left {
            pairs.extend(right.iter().filter(|b| a.kind == b.kind).map(|b| (a, b)));
        }
        let (a, b) = pairs.choose(self.random)?;
        let operator = if self.chance(0.12) {
            "IS NOT DISTINCT FROM"
        } else {
            "="
        };
        Some(match self.chance(0.5) {
            true => format!("{} {operator} {}", a.name, b.name),
            false => format!("{} {operator} {}", b.name, a.name),
        })
    }

    /// A condition beside the equality, or none.
    fn residual(&mut self, left: &[Column], right: &[Column]) -> String {
        if self.chance(0.65) {
            return String::new();
        }
        let both = [left, right].concat();
        let condition = self.condition(&both);
        self.part(format!(" AND {condition}"))
    }

    pub(super) fn semi_join(&mut self, levels: usize) -> Relation {
        let (left, right) = self.two_inputs(levels);
        let (l, r) = (self.name("r"), self.name("r"));
        let (a, b) = (qualified(&left, &l), qualified(&right, &r));
        let from = self.read_as(&left, &l);
        let inner = self.read_as(&right, &r);
        let not = if self.chance(0.4) { "NOT " } else { "" };
        let is_in = self.chance(0.5);
        let condition = match is_in {
            true => self.membership(&a, &b, not, &inner),
            false => self.equality(&a, &b).map(|on| {
                let residual = self.residual(&a, &b);
                format!("{not}EXISTS (SELECT * FROM {inner} WHERE {on}{residual})")
            }),
        };
        let Some(condition) = condition else {
            return self.select(levels);
        };
        let more = match self.chance(0.3) {
            true => {
                let more = self.condition(&a);
                self.part(format!(" AND {more}"))
            }
            false => String::new(),
        };
        let columns = left.columns.clone();
        let items: Vec<String> = a.iter().map(|column| column.name.clone()).collect();
        Relation {
            sql: format!(
                "SELECT {} FROM {from}{}",
                self.list(&items),
                self.part(format!(" WHERE {condition}{more}"))
            ),
            is_table: false,
            keys: left.keys.clone(),
            columns,
            inserts_only: false,
            array: None,
        }
    }

    fn membership(
        &mut self,
        left: &[Column],
        right: &[Column],
        not: &str,
        inner: &str,
    ) -> Option<String> {
        let item = self.column_of(right, |b| left.iter().any(|a| a.kind == b.kind))?;
        let value = self.column_of(left, |a| a.kind == item.kind)?;
        let filter = match self.chance(0.4) {
            true => {
                let condition = self.condition(right);
                self.part(format!(" WHERE {condition}"))
            }
            false => String::new(),
        };
        Some(format!(
            "{} {not}IN (SELECT {} FROM {inner}{filter})",
            value.name, item.name
        ))
    }

    /// A join of two tables whose event times are near.
    pub(super) fn interval_join(&mut self) -> Relation {
        let is_timed =
            |table: &super::Table| table.mode == Mode::InsertOnly && table.time.is_some();
        let (left, right) = (self.table_where(is_timed), self.table_where(is_timed));
        let time = |relation: &Relation| {
            relation
                .columns
                .iter()
                .find(|column| column.is_rowtime)
                .cloned()
        };
        let (Some(a), Some(b)) = (time(&left), time(&right)) else {
            return self.join(1);
        };
        let (l, r) = (self.name("r"), self.name("r"));
        let Some(on) = self.equality(&qualified(&left, &l), &qualified(&right, &r)) else {
            return self.join(1);
        };
        let join = *["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
            .choose(self.random)
            .unwrap_or(&"JOIN");
        let (before, behind) = (
            self.random.random_range(0..9),
            self.random.random_range(0..9),
        );
        let (items, columns, _) = self.both_sides(&left, &right, (&l, &r));
        let (from, with) = (self.read_as(&left, &l), self.read_as(&right, &r));
        Relation {
            sql: format!(
                "SELECT {} FROM {from} {join} {with} ON {on} AND {l}.{} BETWEEN {r}.{} - INTERVAL '{before}' SECOND \
                 AND {r}.{} + INTERVAL '{behind}' SECOND",
                self.list(&items),
                a.name,
                b.name,
                b.name
            ),
            is_table: false,
            columns,
            keys: vec![],
            inserts_only: true,
            array: None,
        }
    }
}

/// The columns with the alias of their relation in front.
fn qualified(relation: &Relation, alias: &str) -> Vec<Column> {
    let qualified = |column: &Column| Column {
        name: format!("{alias}.{}", column.name),
        ..column.clone()
    };
    relation.columns.iter().map(qualified).collect()
}
