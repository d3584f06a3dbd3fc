//! Top-N and deduplication by ROW_NUMBER over a total order.

use rand::Rng;

use super::super::column::{Column, Kind};
use super::{Relation, Writer};

impl Writer<'_> {
    pub(super) fn rank(&mut self, levels: usize) -> Relation {
        let input = self.input(levels);
        let partition_by = match self.chance(0.15) {
            true => vec![],
            false => self.some_columns(input.columns.len(), 2),
        };
        let order_by = self.rank_order(&input);
        let number = self.name("n");
        let (bound, is_first) = self.bound(&number);
        let names: Vec<String> = input
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect();
        let partition = match partition_by.is_empty() {
            true => String::new(),
            false => {
                let names: Vec<&str> = partition_by.iter().map(|at| &names[*at][..]).collect();
                self.part(format!("PARTITION BY {} ", names.join(", ")))
            }
        };
        let alias = self.name("r");
        let mut columns = input.columns.clone();
        let mut items = names.clone();
        let mut keys = input.keys.clone();
        if is_first && !partition_by.is_empty() {
            keys.push(partition_by.clone());
        }
        if self.chance(0.3) {
            items.push(number.clone());
            keys.push([&partition_by[..], &[columns.len()]].concat());
            columns.push(Column {
                name: number.clone(),
                kind: Kind::BigInt,
                nullable: false,
                is_rowtime: false,
            });
        }
        let more = match self.chance(0.2) {
            true => {
                let condition = self.condition(&input.columns);
                self.part(format!(" AND {condition}"))
            }
            false => String::new(),
        };
        let select = format!(
            "SELECT {} FROM (SELECT {}, ROW_NUMBER() OVER ({partition}ORDER BY {order_by}) AS {number} FROM ",
            self.list(&items),
            self.list(&names),
        );
        Relation {
            sql: self.around(select, &input, format!(") AS {alias} WHERE {bound}{more}")),
            is_table: false,
            columns,
            keys,
            inserts_only: false,
            array: None,
        }
    }

    /// A total order; by the event time alone where that is one.
    fn rank_order(&mut self, input: &Relation) -> String {
        let rowtime = input.columns.iter().position(|column| column.is_rowtime);
        if let Some(rowtime) = rowtime
            && input.keys.contains(&vec![rowtime])
            && self.chance(0.6)
        {
            return self.ordered(&input.columns[rowtime].clone());
        }
        let order = self.total_order(input);
        self.order_list(&order)
    }

    /// A condition on the number, and whether it leaves one row a partition.
    fn bound(&mut self, number: &str) -> (String, bool) {
        let most = self.random.random_range(1..=4);
        match self.random.random_range(0..6) {
            0 | 1 => (format!("{number} = 1"), true),
            2 => (
                format!("{number} BETWEEN {} AND {}", most.min(2), most + 1),
                false,
            ),
            3 => (format!("{number} < {}", most + 1), most == 1),
            _ => (format!("{number} <= {most}"), most == 1),
        }
    }
}
