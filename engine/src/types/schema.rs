//! The columns of a table or of an edge of a plan.

use std::sync::Arc;

use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::LogicalType;

/// Why a column is more than a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeAttribute {
    /// Event time: the watermark speaks about this column.
    Rowtime,
    /// Processing time: the value is the clock's when it is read.
    Proctime,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Its name, case-sensitive.
    pub name: String,
    /// Its type.
    pub logical_type: LogicalType,
    /// Whether it is a time attribute.
    pub time_attribute: Option<TimeAttribute>,
}

impl Field {
    /// A column that is no time attribute.
    pub fn new(name: impl Into<String>, logical_type: LogicalType) -> Self {
        Field {
            name: name.into(),
            logical_type,
            time_attribute: None,
        }
    }

    /// The same column as a time attribute.
    pub fn with_time_attribute(mut self, time_attribute: Option<TimeAttribute>) -> Self {
        self.time_attribute = time_attribute;
        self
    }
}

/// The columns of a row, in order. Names may repeat between a query's inputs, as in SQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Schema {
    /// The columns.
    pub fields: Vec<Field>,
}

impl Schema {
    /// A schema of the given columns.
    pub fn new(fields: Vec<Field>) -> Self {
        Schema { fields }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The position of the first column of this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    /// The columns at `indices`, in that order.
    pub fn project(&self, indices: &[usize]) -> Schema {
        Schema {
            fields: indices
                .iter()
                .map(|index| self.fields[*index].clone())
                .collect(),
        }
    }

    /// The columns of both, one after the other.
    pub fn join(&self, other: &Schema) -> Schema {
        Schema {
            fields: self.fields.iter().chain(&other.fields).cloned().collect(),
        }
    }

    /// The position of the event-time attribute.
    pub fn rowtime(&self) -> Option<usize> {
        self.fields
            .iter()
            .position(|field| field.time_attribute == Some(TimeAttribute::Rowtime))
    }

    /// The Arrow schema. All fields are declared nullable: a NOT NULL of SQL is a promise of the planner, and kernels may
    /// produce NULL buffers on the way.
    pub fn to_arrow(&self) -> SchemaRef {
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|field| {
                field
                    .logical_type
                    .with_nullable(true)
                    .to_arrow_field(&field.name)
            })
            .collect();
        Arc::new(ArrowSchema::new(fields))
    }
}
