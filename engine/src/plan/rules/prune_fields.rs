//! Reads of a ROW column only the fields that somebody reads, where the connector can leave the others out.
//!
//! Works on the finished graph of nodes, where shared scans are one node: from the sinks to the scans it gathers which
//! fields are read, as the union over all consumers; then, from the scans on, it narrows the types and counts the fields
//! anew. Whoever does more with a ROW than take a field out of it or pass it on keeps it whole.

use std::collections::BTreeMap;

use crate::connectors::ConnectorRegistry;
use crate::error::Result;
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan};
use crate::plan::nodes::{CalcNode, Distribution, TableSourceScanNode, WindowTableFunctionNode};
use crate::types::{LogicalType, RowField, Schema, TypeRoot};

/// What is read of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Use {
    /// All of it.
    Whole,
    /// These fields of a ROW, by their index in the declared type; none: nothing is read, and the type stays as it is.
    Fields(BTreeMap<usize, Use>),
}

const NOTHING: Use = Use::Fields(BTreeMap::new());
static WHOLE: Use = Use::Whole;

/// Narrows the ROW columns of all scans whose connectors can project fields. Fails where a connector refuses its table,
/// which it must see as declared.
pub(crate) fn prune_fields(plan: &mut ExecPlan, connectors: &ConnectorRegistry) -> Result<()> {
    let mut uses = uses_of(plan);
    let mut kept: Vec<Vec<Use>> = Vec::with_capacity(plan.nodes.len());
    for (node, uses) in plan.nodes.iter_mut().zip(&mut uses) {
        let columns = match &mut node.kind {
            ExecNodeKind::TableSourceScan(scan) => {
                narrow_scan(scan, std::mem::take(uses), connectors)?
            }
            _ => narrow_node(node, &kept),
        };
        node.schema = narrow_schema(&node.schema, &columns);
        kept.push(columns);
    }
    Ok(())
}

/// For each node what its consumers read of its columns.
fn uses_of(plan: &ExecPlan) -> Vec<Vec<Use>> {
    let mut uses: Vec<Vec<Use>> = plan
        .nodes
        .iter()
        .map(|node| vec![NOTHING; node.schema.len()])
        .collect();
    for node in plan.nodes.iter().rev() {
        for input in &node.inputs {
            let width = plan.node(*input).schema.len();
            let asked = asked_of_input(node, &uses[node.id.0], width);
            for (known, asked) in uses[input.0].iter_mut().zip(&asked) {
                known.merge(asked);
            }
        }
    }
    uses
}

/// What a node reads of an input with `width` columns, given what is read of its own columns.
fn asked_of_input(node: &ExecNode, uses: &[Use], width: usize) -> Vec<Use> {
    match &node.kind {
        ExecNodeKind::Calc(calc) => asked_by_calc(calc, uses, width),
        ExecNodeKind::WatermarkAssigner(assigner) => {
            let mut asked = uses.to_vec();
            read_whole(&mut asked, &[assigner.column]);
            read(&mut asked, &assigner.expression, &Use::Whole);
            asked
        }
        ExecNodeKind::Correlate(correlate) => {
            let mut asked = uses[..width].to_vec();
            read(&mut asked, &correlate.collection, &Use::Whole);
            asked
        }
        ExecNodeKind::WindowTableFunction(function) => {
            asked_by_window_function(function, &uses[..width])
        }
        ExecNodeKind::Exchange(exchange) => {
            let mut asked = uses.to_vec();
            if let Distribution::Hash(keys) = &exchange.distribution {
                read_whole(&mut asked, keys);
            }
            asked
        }
        _ => vec![Use::Whole; width],
    }
}

fn asked_by_calc(calc: &CalcNode, uses: &[Use], width: usize) -> Vec<Use> {
    let mut asked = vec![NOTHING; width];
    for (expression, used) in calc.projection.iter().zip(uses) {
        read(&mut asked, expression, used);
    }
    if let Some(condition) = &calc.condition {
        read(&mut asked, condition, &Use::Whole);
    }
    asked
}

fn asked_by_window_function(function: &WindowTableFunctionNode, passed: &[Use]) -> Vec<Use> {
    let mut asked = passed.to_vec();
    read_whole(&mut asked, &[function.time_column]);
    read_whole(&mut asked, &function.partition_by);
    asked
}

fn read_whole(uses: &mut [Use], columns: &[usize]) {
    for column in columns {
        uses[*column] = Use::Whole;
    }
}

/// Adds to `uses` of the columns what an expression reads whose own value is read as `used`.
fn read(uses: &mut [Use], expression: &Expression, used: &Use) {
    match path(expression) {
        Some((column, fields)) => uses[column].read(&fields, used),
        None => {
            for child in expression.children() {
                read(uses, child, &Use::Whole);
            }
        }
    }
}

/// The column and the fields of an expression that only takes fields: `r.a.b`.
fn path(expression: &Expression) -> Option<(usize, Vec<usize>)> {
    match expression {
        Expression::Column { index, .. } => Some((*index, vec![])),
        Expression::FieldAccess { input, field, .. } => {
            let (column, mut fields) = path(input)?;
            fields.push(*field);
            Some((column, fields))
        }
        _ => None,
    }
}

impl Use {
    fn merge(&mut self, other: &Use) {
        match (&mut *self, other) {
            (Use::Whole, _) => {}
            (_, Use::Whole) => *self = Use::Whole,
            (Use::Fields(fields), Use::Fields(others)) => {
                for (field, other) in others {
                    fields.entry(*field).or_insert(NOTHING).merge(other);
                }
            }
        }
    }

    /// Adds that the value at the end of a path of fields is read as `used`.
    fn read(&mut self, path: &[usize], used: &Use) {
        match (&mut *self, path) {
            (Use::Whole, _) => {}
            (_, []) => self.merge(used),
            (Use::Fields(fields), [field, rest @ ..]) => {
                fields.entry(*field).or_insert(NOTHING).read(rest, used);
            }
        }
    }

    /// The fields that are kept, where not all are.
    fn kept(&self) -> Option<&BTreeMap<usize, Use>> {
        match self {
            Use::Fields(fields) if !fields.is_empty() => Some(fields),
            _ => None,
        }
    }

    /// The type of the value when only what is read of it is made. Its nullability stays.
    fn narrow(&self, logical_type: &LogicalType) -> LogicalType {
        let (TypeRoot::Row(declared), Some(kept)) = (&logical_type.root, self.kept()) else {
            return logical_type.clone();
        };
        let fields = kept.iter().map(|(field, used)| RowField {
            name: declared[*field].name.clone(),
            logical_type: used.narrow(&declared[*field].logical_type),
        });
        LogicalType {
            root: TypeRoot::Row(fields.collect()),
            nullable: logical_type.nullable,
        }
    }

    /// Where a declared field stands in the narrowed type, and what is kept of it.
    fn of_declared(&self, field: usize) -> (usize, &Use) {
        match self.kept() {
            None => (field, &WHOLE),
            Some(kept) => (
                kept.range(..field).count(),
                kept.get(&field).expect("a field that is read is kept"),
            ),
        }
    }

    /// What is kept of the field at a position of the narrowed type.
    fn of_narrowed(&self, position: usize) -> &Use {
        self.kept()
            .and_then(|kept| kept.values().nth(position))
            .unwrap_or(&WHOLE)
    }
}

/// Narrows a table to what is read of its projected columns, and says what is kept of them.
fn narrow_scan(
    scan: &mut TableSourceScanNode,
    uses: Vec<Use>,
    connectors: &ConnectorRegistry,
) -> Result<Vec<Use>> {
    let narrowed = narrowed_columns(scan, &uses);
    let factory = connectors.for_table(&scan.table, None)?;
    if narrowed.is_empty() || !factory.projects_fields(&scan.table) {
        return Ok(vec![Use::Whole; uses.len()]);
    }
    // Mistakes in fields that nobody reads show too.
    factory.create_source(&scan.table)?;
    for position in &narrowed {
        let field = &mut scan.table.physical.fields[scan.table.projection[*position]];
        field.logical_type = uses[*position].narrow(&field.logical_type);
    }
    scan.narrowed = narrowed;
    Ok(uses)
}

/// The projected columns whose types would become smaller.
fn narrowed_columns(scan: &TableSourceScanNode, uses: &[Use]) -> Vec<usize> {
    let fields = scan.table.projected().fields;
    let is_narrowed = |position: &usize| {
        let declared = &fields[*position].logical_type;
        uses[*position].narrow(declared) != *declared
    };
    (0..fields.len()).filter(is_narrowed).collect()
}

/// Rewrites the expressions of a node over what is kept of its inputs' columns, and says what is kept of its own.
fn narrow_node(node: &mut ExecNode, kept: &[Vec<Use>]) -> Vec<Use> {
    let input = node.inputs.first().map(|input| &kept[input.0][..]);
    let input = input.unwrap_or_default();
    let mut passed = input.to_vec();
    match &mut node.kind {
        ExecNodeKind::Calc(calc) => passed = narrow_calc(calc, input),
        ExecNodeKind::WatermarkAssigner(assigner) => {
            assigner.expression = narrow_expression(&assigner.expression, input);
        }
        ExecNodeKind::Correlate(correlate) => {
            correlate.collection = narrow_expression(&correlate.collection, input);
        }
        ExecNodeKind::Exchange(_) | ExecNodeKind::WindowTableFunction(_) => {}
        _ => passed.clear(),
    }
    passed.resize(node.schema.len(), Use::Whole);
    passed
}

fn narrow_calc(calc: &mut CalcNode, input: &[Use]) -> Vec<Use> {
    for expression in calc.projection.iter_mut().chain(&mut calc.condition) {
        *expression = narrow_expression(expression, input);
    }
    calc.projection
        .iter()
        .map(|expression| kept_of(expression, input).clone())
        .collect()
}

/// The same expression over narrowed columns.
fn narrow_expression(expression: &Expression, input: &[Use]) -> Expression {
    expression.clone().transform(&mut |part| match part {
        Expression::Column {
            index,
            name,
            logical_type,
        } => Expression::Column {
            index,
            name,
            logical_type: input[index].narrow(&logical_type),
        },
        Expression::FieldAccess {
            input: row,
            field,
            logical_type,
        } => {
            let (field, kept) = kept_of(&row, input).of_declared(field);
            Expression::FieldAccess {
                input: row,
                field,
                logical_type: kept.narrow(&logical_type),
            }
        }
        other => other,
    })
}

/// What is kept of the value of an expression over narrowed columns.
fn kept_of<'a>(narrowed: &Expression, input: &'a [Use]) -> &'a Use {
    match narrowed {
        Expression::Column { index, .. } => &input[*index],
        Expression::FieldAccess {
            input: row, field, ..
        } => kept_of(row, input).of_narrowed(*field),
        _ => &WHOLE,
    }
}

fn narrow_schema(schema: &Schema, kept: &[Use]) -> Schema {
    let mut schema = schema.clone();
    for (field, kept) in schema.fields.iter_mut().zip(kept) {
        field.logical_type = kept.narrow(&field.logical_type);
    }
    schema
}
