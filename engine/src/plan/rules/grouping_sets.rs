//! GROUPING SETS, ROLLUP and CUBE: each row is given once for each set, with NULL in the keys that the set leaves out.
//!
//! The number of the set (GROUPING_ID over all grouping columns: the bit of a column that is left out is 1, the first
//! column has the highest) is one more key, so that a NULL of the data and a NULL of the set stay apart.

use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::Aggregate;
use crate::plan::nodes::ExpandNode;
use crate::plan::physical::Planner;
use crate::plan::relation::column_of;
use crate::types::Field;

use super::window_aggregate::{PackedRows, grouping_id_type};

impl Planner<'_> {
    /// Puts an Expand under the aggregation. `grouped` are the positions of the rows' keys in the logical grouping.
    pub(super) fn expand(
        &mut self,
        rows: &mut PackedRows,
        aggregate: &Aggregate,
        grouped: &[usize],
    ) -> Result<()> {
        let ids: Vec<i64> = aggregate
            .grouping_sets
            .iter()
            .map(|set| grouping_id(aggregate.grouping.len(), set))
            .collect();
        if (1..ids.len()).any(|at| ids[..at].contains(&ids[at])) {
            return Err(Error::unsupported("the same grouping set twice")
                .at(aggregate.position.0)
                .hint("write each grouping set once"));
        }
        let keys = rows.grouped_columns();
        let mut schema = self.builder.node(rows.node).schema.clone();
        let width = schema.len();
        let mut copied = Vec::new();
        for column in rows.read_besides_keys() {
            if keys.contains(column) {
                let at = copied.iter().position(|known| known == column);
                let at = at.unwrap_or_else(|| {
                    copied.push(*column);
                    copied.len() - 1
                });
                *column = width + at;
            }
        }
        // Logical keys that are one column of the rows: each but the first gets a column of its own.
        let doubles: Vec<usize> = (0..keys.len())
            .filter(|at| keys[..*at].contains(&keys[*at]))
            .collect();
        let projections = aggregate
            .grouping_sets
            .iter()
            .zip(&ids)
            .map(|(set, id)| {
                let key = |at: usize| match set.contains(&grouped[at]) {
                    true => column_of(&schema, keys[at]),
                    false => {
                        let logical_type = &schema.fields[keys[at]].logical_type;
                        Expression::literal(Literal::Null, logical_type.with_nullable(true))
                    }
                };
                let own = (0..width).map(|column| {
                    match keys.iter().position(|key_column| *key_column == column) {
                        Some(at) => key(at),
                        None => column_of(&schema, column),
                    }
                });
                let copies = copied.iter().map(|column| column_of(&schema, *column));
                let doubles = doubles.iter().map(|at| key(*at));
                let id = Expression::literal(Literal::Integer(*id), grouping_id_type());
                own.chain(copies).chain(doubles).chain([id]).collect()
            })
            .collect();
        for (place, at) in doubles.iter().enumerate() {
            rows.give_own_column(*at, width + copied.len() + place);
        }
        copied.extend(doubles.iter().map(|at| keys[*at]));
        let copies: Vec<Field> = copied
            .iter()
            .map(|column| {
                let field = schema.fields[*column].clone();
                Field {
                    name: format!("{}_0", field.name),
                    ..field
                }
            })
            .collect();
        for key in &keys {
            schema.fields[*key].logical_type.nullable = true;
        }
        let first_double = copies.len() - doubles.len();
        schema.fields.extend(copies);
        for double in &mut schema.fields[width + first_double..] {
            double.logical_type.nullable = true;
        }
        schema.fields.push(Field::new("$e", grouping_id_type()));
        let grouping_id = schema.len() - 1;
        let kind = ExecNodeKind::Expand(ExpandNode { projections });
        rows.node = self.builder.add(kind, vec![rows.node], schema);
        rows.set_grouping_id(grouping_id);
        Ok(())
    }
}

fn grouping_id(columns: usize, set: &[usize]) -> i64 {
    (0..columns).fold(0, |id, column| id << 1 | i64::from(!set.contains(&column)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_column_has_the_highest_bit_and_a_column_left_out_is_one() {
        assert_eq!(super::grouping_id(2, &[0, 1]), 0);
        assert_eq!(super::grouping_id(2, &[0]), 1);
        assert_eq!(super::grouping_id(2, &[1]), 2);
        assert_eq!(super::grouping_id(2, &[]), 3);
    }
}
