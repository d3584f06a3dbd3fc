//! A slow twin of the planner and the operators: a bound plan evaluated over whole tables, one row at a time.
//!
//! It knows no changelogs, no state and no rules: tables are lists of rows, a join is two loops, a group is a list of its
//! rows. Only scalar expressions are the engine's. Where the answer depends on the order of arrival it says so instead of
//! answering.

mod aggregate;
mod expression;
mod join;
mod over;
mod set_operation;
mod sort;
mod tests;
mod unnest;
mod window;

use std::collections::BTreeMap;

use volley::plan::logical::{LogicalPlan, Scan};
use volley::testing::cell::{Value, order_rows};

use expression::Evaluator;

/// The values of a row's columns.
pub(super) type Row = Vec<Value>;

/// The rows of each table by its name: the physical columns, in any order.
pub(super) type Tables = BTreeMap<String, Vec<Row>>;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// It depends on the order of arrival.
    Ties,
    /// It has too many rows for a slow twin.
    TooLarge,
    /// The twin does not know the node or the function.
    Unknown(&'static str),
}

/// How many rows a twin goes through in one node.
const MOST_ROWS: usize = 1_500;

/// The rows of a plan.
pub(super) fn evaluate(plan: &LogicalPlan, tables: &Tables) -> Result<Vec<Row>, Unclear> {
    let of = |plan: &LogicalPlan| evaluate(plan, tables);
    let rows = match plan {
        LogicalPlan::Scan(node) => scan(node, tables),
        LogicalPlan::Values(node) => values(&node.rows),
        LogicalPlan::Project(node) => {
            let evaluators = Evaluator::all(&node.expressions, &node.input.schema());
            of(&node.input)?
                .iter()
                .map(|row| evaluators.iter().map(|each| each.value(row)).collect())
                .collect()
        }
        LogicalPlan::Filter(node) => {
            let condition = Evaluator::new(&node.condition, &node.input.schema());
            let mut rows = of(&node.input)?;
            rows.retain(|row| condition.is_true(row));
            rows
        }
        LogicalPlan::Unnest(node) => unnest::unnest(node, of(&node.input)?),
        LogicalPlan::Union(node) => {
            let parts: Vec<Vec<Row>> = node.inputs.iter().map(of).collect::<Result<_, _>>()?;
            parts.concat()
        }
        LogicalPlan::WindowTableFunction(node) => window::windows(node, of(&node.input)?)?,
        LogicalPlan::Aggregate(node) => aggregate::aggregate(node, of(&node.input)?)?,
        LogicalPlan::RowNumber(node) => sort::row_number(node, of(&node.input)?)?,
        LogicalPlan::Join(node) => join::join(node, of(&node.left)?, of(&node.right)?)?,
        LogicalPlan::Over(node) => over::over(node, of(&node.input)?)?,
        LogicalPlan::Sort(node) => sort::sort(node, of(&node.input)?)?,
        LogicalPlan::SetOperation(node) => {
            set_operation::set_operation(node, of(&node.left)?, of(&node.right)?)
        }
        LogicalPlan::Match(_) => return Err(Unclear::Unknown("MATCH_RECOGNIZE")),
    };
    if rows.len() > MOST_ROWS {
        return Err(Unclear::TooLarge);
    }
    Ok(rows)
}

/// The declared columns, in their order: physical ones as they are, computed ones over those.
fn scan(node: &Scan, tables: &Tables) -> Vec<Row> {
    let table = &node.table;
    let rows = tables
        .get(&table.descriptor.name)
        .cloned()
        .unwrap_or_default();
    let computed: Vec<Option<Evaluator>> = table
        .columns
        .iter()
        .map(|column| {
            let expression = column.computed.as_ref()?;
            Some(Evaluator::new(expression, &table.descriptor.physical))
        })
        .collect();
    let all = |row: Row| {
        let mut physical = row.iter().cloned();
        let columns = computed.iter().map(|column| match column {
            None => physical.next().expect("a cell a physical column"),
            Some(evaluator) => evaluator.value(&row),
        });
        columns.collect()
    };
    rows.into_iter().map(all).collect()
}

fn values(rows: &[Vec<volley::expr::Expression>]) -> Vec<Row> {
    let none = volley::types::Schema::new(vec![]);
    rows.iter()
        .map(|row| {
            let evaluators = Evaluator::all(row, &none);
            evaluators.iter().map(|each| each.value(&[])).collect()
        })
        .collect()
}

/// A row as a key of ordered maps; NULLs are equal.
#[derive(Debug, Clone)]
pub(super) struct Ordered(pub(super) Row);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order_rows(&self.0, &other.0)
    }
}

/// Some columns of a row.
fn columns(row: &[Value], columns: &[usize]) -> Row {
    columns.iter().map(|column| row[*column].clone()).collect()
}

/// The rows by the values of some columns.
fn partitions(rows: Vec<Row>, by: &[usize]) -> BTreeMap<Ordered, Vec<Row>> {
    let mut result: BTreeMap<Ordered, Vec<Row>> = BTreeMap::new();
    for row in rows {
        let key = Ordered(columns(&row, by));
        result.entry(key).or_default().push(row);
    }
    result
}
