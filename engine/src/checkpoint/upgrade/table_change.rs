//! What lies between the columns of a saved table and those that an operator asks for.

use std::fmt;

use arrow::datatypes::{DataType, Field, Fields, Schema};

use crate::checkpoint::ColumnTexts;
use crate::state::{AGGREGATE_PART, EXPIRY_COLUMN, ROWS_PART, STATE_PART};

/// How a table changes its shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableChange {
    /// The table.
    pub table: String,
    /// Where each column that is asked for comes from: a saved column, or nowhere.
    pub(super) sources: Vec<Option<usize>>,
    /// Columns whose values are cast: name, from, to.
    pub widened: Vec<(String, String, String)>,
    /// Columns that begin as NULL.
    pub added: Vec<String>,
    /// Columns that nobody reads any more.
    pub removed: Vec<String>,
    /// Parts of aggregates that begin over no rows.
    pub new_aggregates: Vec<String>,
    /// Parts of aggregates that nobody asks for any more.
    pub dropped_aggregates: Vec<String>,
    /// Whether rows can be taken back from the new aggregates that they have not seen come.
    pub takes_back: bool,
}

/// Why a saved table cannot become what an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatible {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// What is wrong, with both types.
    pub reason: String,
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {}, column {}: {}",
            self.table, self.column, self.reason
        )
    }
}

impl TableChange {
    /// The change from `saved` to `asked`.
    pub fn between(table: &str, saved: &Schema, asked: &Schema) -> Result<Self, Incompatible> {
        let mut change = TableChange {
            table: table.to_string(),
            ..TableChange::default()
        };
        let refused = |column: &str, reason: String| Incompatible {
            table: table.to_string(),
            column: column.to_string(),
            reason,
        };
        for (index, field) in asked.fields().iter().enumerate() {
            let source = same_column(asked.fields(), index, saved.fields());
            change.sources.push(source);
            match source {
                Some(source) => {
                    let saved = saved.field(source);
                    if saved.is_nullable() && !field.is_nullable() && part(field).is_none() {
                        let reason = "it may be NULL in the state and cannot be NULL now";
                        return Err(refused(field.name(), reason.to_string()));
                    }
                    let from = saved.data_type();
                    let notes = change
                        .convert(field, from)
                        .map_err(|reason| refused(field.name(), reason))?;
                    change.note(field, from, notes);
                }
                None => change
                    .fill(field)
                    .map_err(|reason| refused(field.name(), reason))?,
            }
        }
        let counts_rows = |field: &std::sync::Arc<Field>| part(field) == Some(ROWS_PART);
        let counts_rows = asked.fields().iter().any(counts_rows);
        change.takes_back = counts_rows && !change.new_aggregates.is_empty();
        let aggregates = asked.fields().iter().any(|field| part(field).is_some());
        for (index, field) in saved.fields().iter().enumerate() {
            if change.sources.contains(&Some(index)) || field.name() == EXPIRY_COLUMN {
                continue;
            }
            if aggregates || part(field).is_some() {
                change.dropped_aggregates.push(field.name().clone());
            } else {
                change.removed.push(field.name().clone());
            }
        }
        if let (Some(removed), Some(added)) = (change.removed.first(), change.added.first()) {
            let reason = format!(
                "it is not in the state, and the state's column {removed} is not asked for any more: whether it is the same \
                 column under another name cannot be told"
            );
            return Err(refused(added, reason));
        }
        Ok(change)
    }

    /// The same, if the columns that come from the state hold what those of their names hold now. `saved` and `now` tell by the names of the columns that
    /// the operator read, and reads; where nothing is told names are trusted. Tables of aggregates name their columns after what they hold.
    pub(super) fn holding(
        self,
        asked: &Schema,
        saved: Option<&ColumnTexts>,
        now: &ColumnTexts,
    ) -> Result<Self, Incompatible> {
        if asked.fields().iter().any(|field| part(field).is_some()) {
            return Ok(self);
        }
        let from_state = asked.fields().iter().zip(&self.sources);
        for (field, _) in from_state.filter(|(_, source)| source.is_some()) {
            let texts = |columns: &ColumnTexts| columns.get(field.name()).cloned();
            let (Some(before), Some(after)) = (saved.and_then(texts), texts(now)) else {
                continue;
            };
            if let Some(text) = after.difference(&before).next() {
                let before: Vec<&str> = before.iter().map(String::as_str).collect();
                return Err(Incompatible {
                    table: self.table,
                    column: field.name().clone(),
                    reason: format!("it is {} in the state and {text} now", before.join(" or ")),
                });
            }
        }
        Ok(self)
    }

    /// Whether nothing changes.
    pub fn is_none(&self) -> bool {
        let changes = [
            &self.added,
            &self.removed,
            &self.new_aggregates,
            &self.dropped_aggregates,
        ];
        self.widened.is_empty() && changes.iter().all(|changes| changes.is_empty())
    }

    fn convert(&self, field: &Field, from: &DataType) -> Result<Inside, String> {
        let mut inside = Inside {
            lenient: part(field).is_some(),
            ..Inside::default()
        };
        inside.compare(from, field.data_type(), "")?;
        Ok(inside)
    }

    fn note(&mut self, field: &Field, from: &DataType, inside: Inside) {
        let of_field = |path: &String| format!("{}{path}", field.name());
        let (added, removed) = match inside.lenient {
            true => (&mut self.new_aggregates, &mut self.dropped_aggregates),
            false => (&mut self.added, &mut self.removed),
        };
        added.extend(inside.added.iter().map(of_field));
        removed.extend(inside.removed.iter().map(of_field));
        if inside.widens {
            let (from, to) = (from.to_string(), field.data_type().to_string());
            self.widened.push((field.name().clone(), from, to));
        }
    }

    fn fill(&mut self, field: &Field) -> Result<(), String> {
        match part(field) {
            Some(ROWS_PART) => Err("the state was written without the number of rows of each group, which rows that are \
                                    taken back need"
                .to_string()),
            Some(_) => {
                self.new_aggregates.push(field.name().clone());
                Ok(())
            }
            None if field.name() == EXPIRY_COLUMN => Ok(()),
            None if field.is_nullable() => {
                self.added.push(field.name().clone());
                Ok(())
            }
            None => Err(format!(
                "it is not in the state and cannot be NULL ({})",
                field.data_type()
            )),
        }
    }
}

fn part(field: &Field) -> Option<&str> {
    match field.metadata().get(STATE_PART).map(String::as_str) {
        Some(AGGREGATE_PART) => Some(AGGREGATE_PART),
        Some(ROWS_PART) => Some(ROWS_PART),
        _ => None,
    }
}

/// The column of `others` with the same name; where several have it, the one at the same place among them.
pub(super) fn same_column(own: &Fields, index: usize, others: &Fields) -> Option<usize> {
    let name = own[index].name();
    let before = own[..index]
        .iter()
        .filter(|field| field.name() == name)
        .count();
    let equal = others
        .iter()
        .enumerate()
        .filter(|(_, field)| field.name() == name);
    equal.map(|(index, _)| index).nth(before)
}

/// What changes inside of a column's type.
#[derive(Default)]
struct Inside {
    /// Parts of aggregates: fields may come and go.
    lenient: bool,
    widens: bool,
    added: Vec<String>,
    removed: Vec<String>,
}

impl Inside {
    fn compare(&mut self, from: &DataType, to: &DataType, path: &str) -> Result<(), String> {
        match (from, to) {
            (DataType::Struct(from), DataType::Struct(to)) => self.compare_fields(from, to, path),
            (DataType::List(from), DataType::List(to)) => {
                self.compare(from.data_type(), to.data_type(), path)
            }
            (DataType::Map(from, _), DataType::Map(to, _)) => {
                let (DataType::Struct(from), DataType::Struct(to)) =
                    (from.data_type(), to.data_type())
                else {
                    return Err("a map without entries".to_string());
                };
                for (from, to) in from.iter().zip(to) {
                    self.compare(from.data_type(), to.data_type(), path)?;
                }
                Ok(())
            }
            (from, to) if from == to => Ok(()),
            (from, to) if is_wider(from, to) => {
                self.widens = true;
                Ok(())
            }
            (from, to) => Err(format!("it is {from} in the state and {to} now")),
        }
    }

    fn compare_fields(&mut self, from: &Fields, to: &Fields, path: &str) -> Result<(), String> {
        let (mut added, mut kept) = (Vec::new(), Vec::new());
        for (index, field) in to.iter().enumerate() {
            let inner = format!("{path}.{}", field.name());
            match same_column(to, index, from) {
                Some(source) => {
                    kept.push(source);
                    self.compare(from[source].data_type(), field.data_type(), &inner)?;
                }
                None if self.lenient || field.is_nullable() => added.push(inner),
                None => {
                    return Err(format!(
                        "its field {inner} is not in the state and cannot be NULL"
                    ));
                }
            }
        }
        let gone = (0..from.len()).filter(|index| !kept.contains(index));
        let removed: Vec<String> = gone
            .map(|index| format!("{path}.{}", from[index].name()))
            .collect();
        if !self.lenient && !added.is_empty() && !removed.is_empty() {
            return Err(format!(
                "its fields differ: {} in the state, {} now",
                removed.join(", "),
                added.join(", ")
            ));
        }
        self.added.extend(added);
        self.removed.extend(removed);
        Ok(())
    }
}

/// Whether every value of a type has an equal one of the other.
fn is_wider(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64};
    match (from, to) {
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (Float32, Float64) => true,
        (Decimal128(precision, scale), Decimal128(wider, finer)) => {
            finer >= scale && *wider as i16 - *finer as i16 >= *precision as i16 - *scale as i16
        }
        _ => false,
    }
}
