//! The values of a group in order of arrival, where rows can be taken back: FIRST_VALUE, LAST_VALUE, LISTAGG; and ARRAY_AGG.
//!
//! A row that is taken back takes the earliest equal value with it, as in Flink. One that was not there (a local phase sees only
//! its own rows) is remembered as missing, and cancels against the next equal value.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use hashbrown::HashMap;

use super::accumulator::{Accumulator, AggregateRows, clear};
use super::codec::{Codec, RowCodec};
use crate::error::Result;
use crate::state::{Groups, keep_at};

/// What of the values is the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The earliest.
    First,
    /// The latest.
    Last,
    /// All, as an ARRAY.
    Array,
    /// All, as texts joined by the separator.
    Text,
}

type Key = Arc<[u8]>;

/// The values of one group.
#[derive(Default)]
struct Arrivals {
    next: u64,
    values: BTreeMap<u64, Key>,
    /// Where each value stands.
    places: HashMap<Key, VecDeque<u64>>,
    /// How often values were taken back that had not come.
    missing: BTreeMap<Key, i64>,
    /// The separator of LISTAGG, a literal of the query, as it was seen last.
    separator: Option<Box<str>>,
}

impl Arrivals {
    /// `values` counts those of all groups.
    fn change(&mut self, key: Key, weight: i64, values: &mut usize) {
        *values -= self.values.len();
        if weight > 0 {
            self.add(key);
        } else {
            self.remove(key);
        }
        *values += self.values.len();
    }

    fn add(&mut self, key: Key) {
        if let Some(missing) = self.missing.get_mut(&key) {
            *missing -= 1;
            if *missing == 0 {
                self.missing.remove(&key);
            }
            return;
        }
        self.values.insert(self.next, key.clone());
        self.places.entry(key).or_default().push_back(self.next);
        self.next += 1;
    }

    fn remove(&mut self, key: Key) {
        let Some(places) = self.places.get_mut(&key) else {
            *self.missing.entry(key).or_default() += 1;
            return;
        };
        if let Some(place) = places.pop_front() {
            self.values.remove(&place);
        }
        if places.is_empty() {
            self.places.remove(&key);
        }
    }
}

/// See the file.
pub(super) struct ArrivalsAccumulator {
    finish: Finish,
    codec: RowCodec,
    groups: Vec<Arrivals>,
    /// How many values all groups have.
    values: usize,
}

/// Results of some groups, before they are columns.
enum Chosen {
    One(Option<Key>),
    List(Vec<Key>),
    Text(Option<String>),
}

impl ArrivalsAccumulator {
    pub(super) fn new(data_type: &DataType, finish: Finish) -> Result<Self> {
        Ok(ArrivalsAccumulator {
            finish,
            codec: RowCodec::new(data_type)?,
            groups: Vec::new(),
            values: 0,
        })
    }

    fn keys(&self, values: &ArrayRef) -> Result<Vec<Key>> {
        let keys = self.codec.encode(values)?;
        Ok(keys.into_iter().map(Key::from).collect())
    }

    fn choose(&self, group: &Arrivals) -> Result<Chosen> {
        let values = &group.values;
        Ok(match self.finish {
            Finish::First => Chosen::One(values.first_key_value().map(|(_, key)| key.clone())),
            Finish::Last => Chosen::One(values.last_key_value().map(|(_, key)| key.clone())),
            Finish::Array => Chosen::List(values.values().cloned().collect()),
            Finish::Text => Chosen::Text(self.joined(group)?),
        })
    }

    fn joined(&self, group: &Arrivals) -> Result<Option<String>> {
        if group.values.is_empty() {
            return Ok(None);
        }
        let keys = group.values.values();
        let texts = self.codec.decode_bytes(keys.map(|key| &key[..]))?;
        let texts: Vec<&str> = texts.as_string::<i32>().iter().flatten().collect();
        let separator = group.separator.as_deref().unwrap_or(",");
        Ok(Some(texts.join(separator)))
    }

    fn results(&self, chosen: Vec<Chosen>) -> Result<ArrayRef> {
        match self.finish {
            Finish::First | Finish::Last => {
                let keys: Vec<Option<Box<[u8]>>> = chosen
                    .into_iter()
                    .map(|chosen| match chosen {
                        Chosen::One(key) => key.map(|key| Box::from(&key[..])),
                        _ => None,
                    })
                    .collect();
                let keys: Vec<_> = keys.iter().map(Option::as_ref).collect();
                self.codec.decode_options(&keys)
            }
            Finish::Array => {
                let lists = chosen.into_iter().map(|chosen| match chosen {
                    Chosen::List(list) => list,
                    _ => Vec::new(),
                });
                self.lists(&lists.collect::<Vec<_>>(), true)
            }
            Finish::Text => {
                let texts = chosen.into_iter().map(|chosen| match chosen {
                    Chosen::Text(text) => text,
                    _ => None,
                });
                Ok(Arc::new(texts.collect::<StringArray>()))
            }
        }
    }

    /// Lists of values; where told so an empty one is NULL.
    fn lists(&self, lists: &[Vec<Key>], empty_is_null: bool) -> Result<ArrayRef> {
        let keys = lists.iter().flatten();
        let values = self.codec.decode_bytes(keys.map(|key| &key[..]))?;
        let field = Arc::new(Field::new("item", self.codec.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
        let nulls = (empty_is_null && lists.iter().any(Vec::is_empty))
            .then(|| NullBuffer::from_iter(lists.iter().map(|list| !list.is_empty())));
        Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls)?))
    }

    /// Folds rows, calling `behind` for the group of each.
    fn fold(
        &mut self,
        rows: &AggregateRows,
        mut behind: impl FnMut(&Self, usize) -> Result<()>,
    ) -> Result<()> {
        let mut keys: Vec<Option<Key>> = self
            .keys(&rows.arguments[0])?
            .into_iter()
            .map(Some)
            .collect();
        let separators = rows
            .arguments
            .get(1)
            .filter(|_| self.finish == Finish::Text);
        let separators = separators.map(|column| column.as_string::<i32>());
        for (row, group) in rows.ids.iter().enumerate() {
            let group = *group as usize;
            if rows.mask.is_none_or(|mask| mask.value(row)) {
                let weight = rows.weights.map_or(1, |weights| weights[row] as i64);
                let key = keys[row].take().expect("each row comes once");
                let arrivals = &mut self.groups[group];
                arrivals.change(key, weight, &mut self.values);
                if let Some(separators) = separators
                    && arrivals.separator.as_deref() != Some(separators.value(row))
                {
                    arrivals.separator = Some(separators.value(row).into());
                }
            }
            behind(self, group)?;
        }
        Ok(())
    }

    fn change_all(&mut self, group: usize, list: &ArrayRef, weight: i64) -> Result<()> {
        for key in self.keys(list)? {
            self.groups[group].change(key, weight, &mut self.values);
        }
        Ok(())
    }
}

impl Accumulator for ArrivalsAccumulator {
    fn grow(&mut self, groups: usize) {
        self.groups.resize_with(groups, Arrivals::default);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        self.fold(rows, |_, _| Ok(()))
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let mut chosen = Vec::with_capacity(rows.ids.len());
        self.fold(rows, |all, group| {
            chosen.push(all.choose(&all.groups[group])?);
            Ok(())
        })?;
        self.results(chosen)
    }

    fn reset(&mut self, groups: &[u32]) {
        let gone = groups
            .iter()
            .map(|group| self.groups[*group as usize].values.len());
        self.values -= gone.sum::<usize>();
        clear(&mut self.groups, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.groups, groups);
        self.values = self.groups.iter().map(|group| group.values.len()).sum();
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let (values, missing) = (partials[0].as_list::<i32>(), partials[1].as_list::<i32>());
        let separators = partials.get(2).map(|column| column.as_string::<i32>());
        for (row, id) in ids.iter().enumerate() {
            let group = *id as usize;
            self.change_all(group, &missing.value(row), -1)?;
            self.change_all(group, &values.value(row), 1)?;
            if let Some(separators) = separators.filter(|column| column.is_valid(row)) {
                self.groups[group].separator = Some(separators.value(row).into());
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let values = groups.map(|group| self.groups[group].values.values().cloned().collect());
        let missing = groups.map(|group| {
            let missing = self.groups[group].missing.iter();
            missing
                .flat_map(|(key, count)| vec![key.clone(); *count as usize])
                .collect()
        });
        let mut columns = vec![self.lists(&values, false)?, self.lists(&missing, false)?];
        if self.finish == Finish::Text {
            let separators = groups.map(|group| self.groups[group].separator.as_deref());
            columns.push(Arc::new(StringArray::from(separators)));
        }
        Ok(columns)
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let chosen: Result<Vec<Chosen>> = groups
            .map(|group| self.choose(&self.groups[group]))
            .into_iter()
            .collect();
        self.results(chosen?)
    }

    fn size_bytes(&self) -> usize {
        self.values * 96 + self.groups.capacity() * size_of::<Arrivals>()
    }
}
