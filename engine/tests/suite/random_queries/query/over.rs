//! Aggregates with OVER: in event time over a table, else over any columns from the first row on.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::super::tables::Mode;
use super::{Relation, Writer};

impl Writer<'_> {
    pub(super) fn over(&mut self, levels: usize) -> Relation {
        match self.chance(0.5) {
            true => self.event_time_over(),
            false => self.plain_over(levels),
        }
    }

    fn event_time_over(&mut self) -> Relation {
        let input =
            self.table_where(|table| table.mode == Mode::InsertOnly && table.time.is_some());
        let Some(time) = input
            .columns
            .iter()
            .find(|column| column.is_rowtime)
            .cloned()
        else {
            return self.plain_over(1);
        };
        let frames = [
            "",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN INTERVAL '4' SECOND PRECEDING AND CURRENT ROW",
        ];
        let frame = *frames.choose(self.random).unwrap_or(&"");
        self.with_over(input, &time.name, frame, true)
    }

    fn plain_over(&mut self, levels: usize) -> Relation {
        let input = self.input(levels);
        // Ascending, and by one column; rows are counted where that is a key.
        let keys = input.keys.iter().filter(|key| key.len() == 1);
        let key = keys.map(|key| key[0]).next();
        let order = match key {
            Some(key) => key,
            None => self.random.random_range(0..input.columns.len()),
        };
        let order = input.columns[order].name.clone();
        let frames = [
            "",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ];
        let known = if key.is_some() { 3 } else { 2 };
        let frame = *frames[..known].choose(self.random).unwrap_or(&"");
        self.with_over(input, &order, frame, false)
    }

    fn with_over(
        &mut self,
        input: Relation,
        order: &str,
        frame: &str,
        inserts_only: bool,
    ) -> Relation {
        let partition = match self.chance(0.75) {
            true => {
                let columns = self.some_columns(input.columns.len(), 2);
                let names: Vec<&str> = columns
                    .iter()
                    .map(|at| &input.columns[*at].name[..])
                    .collect();
                self.part(format!("PARTITION BY {} ", names.join(", ")))
            }
            false => String::new(),
        };
        let mut columns = input.columns.clone();
        let mut items: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        loop {
            let (call, mut column) = self.bare_call(&input.plain_columns());
            column.name = self.name("a");
            items.push(format!(
                "{call} OVER ({partition}ORDER BY {order}{frame}) AS {}",
                column.name
            ));
            columns.push(column);
            if columns.len() >= 8 || self.chance(0.6) {
                break;
            }
        }
        let select = format!("SELECT {} FROM ", self.list(&items));
        Relation {
            sql: self.around(select, &input, String::new()),
            is_table: false,
            columns,
            keys: input.keys,
            inserts_only: inserts_only && input.inserts_only,
            array: None,
        }
    }
}
