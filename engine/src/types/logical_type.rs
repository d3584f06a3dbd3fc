//! The types of Flink SQL and how each is laid out in Arrow.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Fields, IntervalUnit, TimeUnit};
use serde::{Deserialize, Serialize};

/// A SQL type with its nullability.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogicalType {
    /// The type itself.
    pub root: TypeRoot,
    /// Whether NULL is a value of it.
    pub nullable: bool,
}

/// A SQL type without its nullability. The variants' docs give the Arrow layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TypeRoot {
    /// The type of a bare NULL literal. Arrow `Null`.
    Null,
    /// Arrow `Boolean`.
    Boolean,
    /// Arrow `Int8`.
    TinyInt,
    /// Arrow `Int16`.
    SmallInt,
    /// Arrow `Int32`.
    Int,
    /// Arrow `Int64`.
    BigInt,
    /// Arrow `Float32`.
    Float,
    /// Arrow `Float64`.
    Double,
    /// Arrow `Decimal128(precision, scale)`; precision 1 to 38, scale 0 to precision.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// CHAR(n), n in code points. Arrow `Utf8`.
    Char(u32),
    /// VARCHAR(n), n in code points; STRING is VARCHAR(2147483647). Arrow `Utf8`.
    Varchar(u32),
    /// BINARY(n). Arrow `Binary`.
    Binary(u32),
    /// VARBINARY(n); BYTES is VARBINARY(2147483647). Arrow `Binary`.
    Varbinary(u32),
    /// Days since 1970-01-01. Arrow `Date32`.
    Date,
    /// TIME(p), 0 ≤ p ≤ 9; milliseconds of the day, as in Flink's runtime whatever p. Arrow `Time32(Millisecond)`.
    Time(u8),
    /// TIMESTAMP(p), 0 ≤ p ≤ 9: wall clock without a zone. Arrow `Timestamp` of the unit [`TypeRoot::time_unit`]: ms to
    /// p = 3, µs to 6, ns above (then years 1677 to 2262; other values are an error, never wrapped).
    Timestamp(u8),
    /// TIMESTAMP_LTZ(p): an instant. As `Timestamp`, with Arrow's time zone `UTC`.
    TimestampLtz(u8),
    /// INTERVAL of days to seconds, in milliseconds. Arrow `Duration(Millisecond)`.
    IntervalDayTime,
    /// INTERVAL of years and months, in months. Arrow `Interval(YearMonth)`.
    IntervalYearMonth,
    /// Arrow `List` with a field named `item`.
    Array(Box<LogicalType>),
    /// Arrow `Map` with entries `key`, `value`.
    Map(Box<LogicalType>, Box<LogicalType>),
    /// Elements with their counts. Arrow `Map` from the element to `Int32`.
    Multiset(Box<LogicalType>),
    /// Arrow `Struct`.
    Row(Vec<RowField>),
}

/// One field of a ROW type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowField {
    /// Its name, case-sensitive.
    pub name: String,
    /// Its type.
    pub logical_type: LogicalType,
}

/// The time zone that Arrow timestamps of TIMESTAMP_LTZ carry.
pub(crate) const LTZ_ZONE: &str = "UTC";

impl LogicalType {
    /// A type which allows NULL.
    pub const fn nullable(root: TypeRoot) -> Self {
        LogicalType {
            root,
            nullable: true,
        }
    }

    /// A type without NULL.
    pub const fn not_null(root: TypeRoot) -> Self {
        LogicalType {
            root,
            nullable: false,
        }
    }

    /// STRING, nullable.
    pub const STRING: LogicalType = LogicalType::nullable(TypeRoot::STRING);
    /// BOOLEAN, nullable.
    pub const BOOLEAN: LogicalType = LogicalType::nullable(TypeRoot::Boolean);
    /// INT, nullable.
    pub const INT: LogicalType = LogicalType::nullable(TypeRoot::Int);
    /// BIGINT, nullable.
    pub const BIGINT: LogicalType = LogicalType::nullable(TypeRoot::BigInt);
    /// DOUBLE, nullable.
    pub const DOUBLE: LogicalType = LogicalType::nullable(TypeRoot::Double);

    /// The same type with the given nullability.
    pub fn with_nullable(&self, nullable: bool) -> Self {
        LogicalType {
            root: self.root.clone(),
            nullable,
        }
    }

    /// The Arrow type of a column of it.
    pub fn to_arrow(&self) -> DataType {
        self.root.to_arrow()
    }

    /// An Arrow field of this type.
    pub fn to_arrow_field(&self, name: &str) -> ArrowField {
        ArrowField::new(name, self.to_arrow(), self.nullable)
    }
}

impl TypeRoot {
    /// STRING.
    pub const STRING: TypeRoot = TypeRoot::Varchar(i32::MAX as u32);
    /// BYTES.
    pub const BYTES: TypeRoot = TypeRoot::Varbinary(i32::MAX as u32);

    /// The Arrow type of a column of it.
    pub fn to_arrow(&self) -> DataType {
        match self {
            TypeRoot::Null => DataType::Null,
            TypeRoot::Boolean => DataType::Boolean,
            TypeRoot::TinyInt => DataType::Int8,
            TypeRoot::SmallInt => DataType::Int16,
            TypeRoot::Int => DataType::Int32,
            TypeRoot::BigInt => DataType::Int64,
            TypeRoot::Float => DataType::Float32,
            TypeRoot::Double => DataType::Float64,
            TypeRoot::Decimal { precision, scale } => {
                DataType::Decimal128(*precision, *scale as i8)
            }
            TypeRoot::Char(_) | TypeRoot::Varchar(_) => DataType::Utf8,
            TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => DataType::Binary,
            TypeRoot::Date => DataType::Date32,
            TypeRoot::Time(_) => DataType::Time32(TimeUnit::Millisecond),
            TypeRoot::Timestamp(p) => DataType::Timestamp(Self::time_unit(*p), None),
            TypeRoot::TimestampLtz(p) => {
                DataType::Timestamp(Self::time_unit(*p), Some(LTZ_ZONE.into()))
            }
            TypeRoot::IntervalDayTime => DataType::Duration(TimeUnit::Millisecond),
            TypeRoot::IntervalYearMonth => DataType::Interval(IntervalUnit::YearMonth),
            TypeRoot::Array(element) => DataType::List(Arc::new(element.to_arrow_field("item"))),
            TypeRoot::Map(key, value) => map_type(key, &value.to_arrow_field("value")),
            TypeRoot::Multiset(element) => {
                map_type(element, &ArrowField::new("value", DataType::Int32, false))
            }
            TypeRoot::Row(fields) => DataType::Struct(
                fields
                    .iter()
                    .map(|f| f.logical_type.to_arrow_field(&f.name))
                    .collect(),
            ),
        }
    }

    /// The unit in which a timestamp of precision `p` is held: ms to 3, µs to 6, ns above.
    pub fn time_unit(p: u8) -> TimeUnit {
        match p {
            0..=3 => TimeUnit::Millisecond,
            4..=6 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        }
    }

    /// TINYINT, SMALLINT, INT or BIGINT.
    pub fn is_integer(&self) -> bool {
        matches!(
            self,
            TypeRoot::TinyInt | TypeRoot::SmallInt | TypeRoot::Int | TypeRoot::BigInt
        )
    }

    /// An integer, DECIMAL, FLOAT or DOUBLE.
    pub fn is_numeric(&self) -> bool {
        self.is_integer() || self.is_approximate() || matches!(self, TypeRoot::Decimal { .. })
    }

    /// FLOAT or DOUBLE.
    pub fn is_approximate(&self) -> bool {
        matches!(self, TypeRoot::Float | TypeRoot::Double)
    }

    /// CHAR, VARCHAR or STRING.
    pub fn is_string(&self) -> bool {
        matches!(self, TypeRoot::Char(_) | TypeRoot::Varchar(_))
    }

    /// BINARY, VARBINARY or BYTES.
    pub fn is_binary(&self) -> bool {
        matches!(self, TypeRoot::Binary(_) | TypeRoot::Varbinary(_))
    }

    /// TIMESTAMP or TIMESTAMP_LTZ.
    pub fn is_timestamp(&self) -> bool {
        matches!(self, TypeRoot::Timestamp(_) | TypeRoot::TimestampLtz(_))
    }

    /// The DECIMAL that holds every value of an exact numeric type: TINYINT (3,0), SMALLINT (5,0), INT (10,0),
    /// BIGINT (19,0), DECIMAL itself. `None` for other types.
    pub fn as_decimal(&self) -> Option<(u8, u8)> {
        match self {
            TypeRoot::TinyInt => Some((3, 0)),
            TypeRoot::SmallInt => Some((5, 0)),
            TypeRoot::Int => Some((10, 0)),
            TypeRoot::BigInt => Some((19, 0)),
            TypeRoot::Decimal { precision, scale } => Some((*precision, *scale)),
            _ => None,
        }
    }
}

fn map_type(key: &LogicalType, value: &ArrowField) -> DataType {
    let entries = DataType::Struct(Fields::from(vec![
        key.with_nullable(false).to_arrow_field("key"),
        value.clone(),
    ]));
    DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false)
}

impl fmt::Display for TypeRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: u32 = i32::MAX as u32;
        match self {
            TypeRoot::Null => write!(f, "NULL"),
            TypeRoot::Boolean => write!(f, "BOOLEAN"),
            TypeRoot::TinyInt => write!(f, "TINYINT"),
            TypeRoot::SmallInt => write!(f, "SMALLINT"),
            TypeRoot::Int => write!(f, "INT"),
            TypeRoot::BigInt => write!(f, "BIGINT"),
            TypeRoot::Float => write!(f, "FLOAT"),
            TypeRoot::Double => write!(f, "DOUBLE"),
            TypeRoot::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            TypeRoot::Char(n) => write!(f, "CHAR({n})"),
            TypeRoot::Varchar(MAX) => write!(f, "STRING"),
            TypeRoot::Varchar(n) => write!(f, "VARCHAR({n})"),
            TypeRoot::Binary(n) => write!(f, "BINARY({n})"),
            TypeRoot::Varbinary(MAX) => write!(f, "BYTES"),
            TypeRoot::Varbinary(n) => write!(f, "VARBINARY({n})"),
            TypeRoot::Date => write!(f, "DATE"),
            TypeRoot::Time(p) => write!(f, "TIME({p})"),
            TypeRoot::Timestamp(p) => write!(f, "TIMESTAMP({p})"),
            TypeRoot::TimestampLtz(p) => write!(f, "TIMESTAMP_LTZ({p})"),
            TypeRoot::IntervalDayTime => write!(f, "INTERVAL DAY TO SECOND"),
            TypeRoot::IntervalYearMonth => write!(f, "INTERVAL YEAR TO MONTH"),
            TypeRoot::Array(element) => write!(f, "ARRAY<{element}>"),
            TypeRoot::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
            TypeRoot::Multiset(element) => write!(f, "MULTISET<{element}>"),
            TypeRoot::Row(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|field| format!("`{}` {}", field.name, field.logical_type))
                    .collect();
                write!(f, "ROW<{}>", fields.join(", "))
            }
        }
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            self.root,
            if self.nullable { "" } else { " NOT NULL" }
        )
    }
}
