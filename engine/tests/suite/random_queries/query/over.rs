//! Aggregates with OVER: in event time over a table, else over any columns from the first row on.

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
        // Ascending, and over all columns, so that ties are equal rows.
        let order = self.all_columns(&input);
        let order: Vec<&str> = order
            .iter()
            .map(|at| &input.columns[*at].name[..])
            .collect();
        let frames = [
            "",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ];
        let frame = *frames.choose(self.random).unwrap_or(&"");
        let keep = match self.chance(0.5) {
            true => 1,
            false => order.len(),
        };
        // Ties of rows that differ are peers of a RANGE.
        let keep = if frame.contains("ROWS") {
            order.len()
        } else {
            keep
        };
        let order = order[..keep].join(", ");
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
