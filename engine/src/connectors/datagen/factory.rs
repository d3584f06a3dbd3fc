//! The options of a `datagen` table: one generator a column from `fields.NAME.*`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::draw::ColumnDraws;
use super::super::options::TableOptions;
use super::source::DatagenSource;
use super::values::{CellGenerator, Maker};
use crate::config::{OptionSpec, OptionType, parse_duration};
use crate::connectors::{ConnectorFactory, Source, TableDescriptor};
use crate::error::{Error, Result};
use crate::types::{LogicalType, TimeZone, TypeRoot};

/// `'connector' = 'datagen'`.
pub struct DatagenFactory;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "`datagen`."),
    OptionSpec::new(
        "rows-per-second",
        OptionType::Integer,
        Some("10000"),
        "Rows a second of the clock; at most -1: as many as are taken (Volley only).",
    ),
    OptionSpec::new(
        "number-of-rows",
        OptionType::Integer,
        None,
        "How many rows there are. Without it the table ends with its shortest sequence, or never.",
    ),
    OptionSpec::new(
        "fields.*",
        OptionType::Text,
        None,
        "`fields.NAME.kind` = `random` (default) or `sequence`; `start` and `end` of a sequence; `min` and `max` of random numbers; `length` of texts, bytes and arrays; `var-len` = `true` for lengths up to `length`; `max-past` of timestamps; `null-rate` from 0 to 1. Inside an array NAME is `NAME.element`, inside a row `NAME.FIELD`.",
    ),
    OptionSpec::new(
        "volley.seed",
        OptionType::Integer,
        Some("1"),
        "Tables of equal seed and options have equal random values.",
    ),
];

impl ConnectorFactory for DatagenFactory {
    fn identifier(&self) -> &'static str {
        "datagen"
    }

    fn options(&self, _descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let options = TableOptions::new(descriptor, OPTIONS);
        let mut fields = FieldOptions {
            table: descriptor,
            seed: options.integer("volley.seed") as u64,
            known: BTreeSet::new(),
            salt: 0,
            shortest: u64::MAX,
        };
        let generators = descriptor
            .physical
            .fields
            .iter()
            .map(|field| fields.generator(&format!("fields.{}", field.name), &field.logical_type))
            .collect::<Result<Vec<_>>>()?;
        fields.refuse_unknown()?;
        let rows = if options.is_set("number-of-rows") {
            options.at_least("number-of-rows", 0)?
        } else {
            u64::MAX
        };
        let rate = match options.integer("rows-per-second") {
            rate if rate < 0 => None,
            _ => Some(options.at_least("rows-per-second", 1)?),
        };
        Ok(Arc::new(DatagenSource {
            end: rows.min(fields.shortest),
            rate_per_second: rate,
            generators: descriptor
                .projection
                .iter()
                .map(|column| generators[*column].clone())
                .collect(),
            schema: descriptor.projected().to_arrow(),
            time_zone: TimeZone::parse(&descriptor.time_zone)?,
        }))
    }
}

/// Reads `fields.*` and remembers which keys there could be.
struct FieldOptions<'a> {
    table: &'a TableDescriptor,
    seed: u64,
    known: BTreeSet<String>,
    /// Counts the generators, so that each has draws of its own.
    salt: u64,
    /// Rows of the shortest sequence.
    shortest: u64,
}

impl FieldOptions<'_> {
    fn generator(&mut self, path: &str, logical_type: &LogicalType) -> Result<CellGenerator> {
        self.salt += 2;
        let (values, nulls) = (
            ColumnDraws::new(self.seed, self.salt),
            ColumnDraws::new(self.seed, self.salt + 1),
        );
        let null_rate: f64 = self.number(path, "null-rate", 0.0)?;
        if !(0.0..=1.0).contains(&null_rate) {
            return Err(self.wrong(&format!("{path}.null-rate"), "it must be from 0 to 1"));
        }
        let maker = match self.get(path, "kind").unwrap_or("random") {
            "random" => self.random(path, &logical_type.root)?,
            "sequence" => self.sequence(path, &logical_type.root)?,
            _ => return Err(self.wrong(&format!("{path}.kind"), "it must be random or sequence")),
        };
        Ok(CellGenerator {
            logical_type: logical_type.clone(),
            maker,
            null_rate,
            values,
            nulls,
        })
    }

    fn sequence(&mut self, path: &str, root: &TypeRoot) -> Result<Maker> {
        if !(root.is_numeric() || root.is_string()) {
            return Err(Error::unsupported(format!(
                "table \"{}\": a sequence of {root} ('{path}.kind')",
                self.table.name
            )));
        }
        let mut bound = |property| {
            let value = self.get(path, property).map(str::to_string);
            let key = format!("{path}.{property}");
            match value {
                None => Err(Error::user(format!(
                    "table \"{}\": a sequence needs the option '{key}'",
                    self.table.name
                ))),
                Some(text) => text
                    .trim()
                    .parse::<i64>()
                    .map_err(|_| self.wrong(&key, "it must be a whole number")),
            }
        };
        let (start, end) = (bound("start")?, bound("end")?);
        if end < start {
            return Err(self.wrong(&format!("{path}.end"), "it must not be below the start"));
        }
        let rows = (end as i128 - start as i128 + 1).min(u64::MAX as i128) as u64;
        self.shortest = self.shortest.min(rows);
        Ok(Maker::Sequence { start })
    }

    fn random(&mut self, path: &str, root: &TypeRoot) -> Result<Maker> {
        let integer = |min: i64, max: i64| (min, max);
        Ok(match root {
            TypeRoot::Boolean => Maker::Boolean,
            TypeRoot::TinyInt => self.integers(path, integer(i8::MIN as i64, i8::MAX as i64))?,
            TypeRoot::SmallInt => self.integers(path, integer(i16::MIN as i64, i16::MAX as i64))?,
            TypeRoot::Int | TypeRoot::IntervalYearMonth => {
                self.integers(path, integer(i32::MIN as i64, i32::MAX as i64))?
            }
            TypeRoot::BigInt | TypeRoot::IntervalDayTime => {
                self.integers(path, integer(i64::MIN, i64::MAX))?
            }
            TypeRoot::Float => self.reals(path, f32::MIN_POSITIVE as f64, f32::MAX as f64)?,
            TypeRoot::Double => self.reals(path, f64::MIN_POSITIVE, f64::MAX)?,
            TypeRoot::Decimal { precision, scale } => self.decimals(path, *precision, *scale)?,
            TypeRoot::Char(n) | TypeRoot::Binary(n) => Maker::Text {
                length: *n as usize,
                variable: false,
            },
            TypeRoot::Varchar(n) | TypeRoot::Varbinary(n) => {
                let default = if *n == i32::MAX as u32 {
                    100
                } else {
                    *n as usize
                };
                Maker::Text {
                    length: self.length(path, default, *n as usize)?,
                    variable: self.flag(path, "var-len")?,
                }
            }
            TypeRoot::Date => Maker::Date,
            TypeRoot::Time(_) => Maker::Time,
            TypeRoot::Timestamp(_) | TypeRoot::TimestampLtz(_) => Maker::Timestamp {
                max_past_ms: self.max_past_ms(path)?,
            },
            TypeRoot::Array(element) => {
                let length = self.length(path, 3, 1 << 20)?;
                let element = self.generator(&format!("{path}.element"), element)?;
                Maker::Array {
                    length,
                    element: Box::new(element),
                }
            }
            TypeRoot::Row(fields) => {
                let fields = fields
                    .iter()
                    .map(|field| {
                        self.generator(&format!("{path}.{}", field.name), &field.logical_type)
                    })
                    .collect::<Result<_>>()?;
                Maker::Row(fields)
            }
            TypeRoot::Null | TypeRoot::Map(..) | TypeRoot::Multiset(_) => {
                return Err(Error::unsupported(format!(
                    "table \"{}\": a column of type {root} in connector 'datagen'",
                    self.table.name
                )));
            }
        })
    }

    fn integers(&mut self, path: &str, (least, most): (i64, i64)) -> Result<Maker> {
        let min: i64 = self.number(path, "min", least)?;
        let max: i64 = self.number(path, "max", most)?;
        if min < least || max > most || min > max {
            return Err(self.empty_range(path, least, most));
        }
        Ok(Maker::Integer {
            min,
            span: (max as i128 - min as i128) as u64,
        })
    }

    fn reals(&mut self, path: &str, least: f64, most: f64) -> Result<Maker> {
        let min: f64 = self.number(path, "min", least)?;
        let max: f64 = self.number(path, "max", most)?;
        if !(min.is_finite() && max.is_finite() && min <= max && max <= most) {
            return Err(self.empty_range(path, -most, most));
        }
        Ok(Maker::Real { min, max })
    }

    fn decimals(&mut self, path: &str, precision: u8, scale: u8) -> Result<Maker> {
        let unit = 10f64.powi(scale as i32);
        let most = (10f64.powi(precision as i32) - 1.0) / unit;
        let min: f64 = self.number(path, "min", -most)?;
        let max: f64 = self.number(path, "max", most)?;
        if !(-most <= min && min <= max && max <= most) {
            return Err(self.empty_range(path, -most, most));
        }
        let limit = 10i128.pow(precision as u32) - 1;
        let min = ((min * unit).round() as i128).max(-limit);
        let max = ((max * unit).round() as i128).min(limit);
        Ok(Maker::Decimal {
            min,
            max: max.max(min),
        })
    }

    fn max_past_ms(&mut self, path: &str) -> Result<u64> {
        let Some(text) = self.get(path, "max-past") else {
            return Ok(0);
        };
        let past = parse_duration(text).map(|past| past.as_millis() as u64);
        past.ok_or_else(|| {
            self.wrong(
                &format!("{path}.max-past"),
                "it must be a duration such as '5 s'",
            )
        })
    }

    fn length(&mut self, path: &str, default: usize, most: usize) -> Result<usize> {
        let length: usize = self.number(path, "length", default)?;
        if length > most {
            return Err(self.wrong(
                &format!("{path}.length"),
                &format!("the type holds at most {most}"),
            ));
        }
        Ok(length)
    }

    fn flag(&mut self, path: &str, property: &str) -> Result<bool> {
        match self.get(path, property) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(self.wrong(&format!("{path}.{property}"), "it must be true or false")),
        }
    }

    fn number<T: std::str::FromStr>(
        &mut self,
        path: &str,
        property: &str,
        default: T,
    ) -> Result<T> {
        match self.get(path, property) {
            None => Ok(default),
            Some(text) => text.trim().parse().map_err(|_| {
                self.wrong(
                    &format!("{path}.{property}"),
                    "it must be a number of the column's type",
                )
            }),
        }
    }

    fn get(&mut self, path: &str, property: &str) -> Option<&str> {
        let key = format!("{path}.{property}");
        let value = self.table.option(&key);
        self.known.insert(key);
        value
    }

    fn empty_range(
        &self,
        path: &str,
        least: impl std::fmt::Display,
        most: impl std::fmt::Display,
    ) -> Error {
        Error::user(format!(
            "table \"{}\": '{path}.min' and '{path}.max' leave no value between {least} and {most}",
            self.table.name
        ))
    }

    fn wrong(&self, key: &str, why: &str) -> Error {
        Error::user(format!(
            "'{}' is no value for the option '{key}' of table \"{}\": {why}",
            self.table.option(key).unwrap_or_default(),
            self.table.name
        ))
    }

    fn refuse_unknown(&self) -> Result<()> {
        let unknown = self
            .table
            .options
            .keys()
            .find(|key| key.starts_with("fields.") && !self.known.contains(*key));
        match unknown {
            None => Ok(()),
            Some(key) => {
                let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
                Err(Error::user(format!(
                    "table \"{}\" has no use for the option '{key}'",
                    self.table.name
                ))
                .hint(format!("options of its fields: {}", known.join(", "))))
            }
        }
    }
}
