//! The state of one side of a join: its rows by join key, and how a row is found again when it changes or goes.

use arrow::datatypes::DataType;

use super::links::{Links, NONE};
use super::row_index::RowIndex;
use crate::error::Result;
use crate::state::{GroupTable, Groups, RowSlab, TimeToLive};
use crate::stream::hash_columns;
use crate::types::{ProcessingTime, Schema};

/// One input of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinSide {
    /// Its columns.
    pub schema: Schema,
    /// The columns that equal those of the other side, in the same order: the key by which rows were dealt.
    pub keys: Vec<usize>,
    /// What tells its rows apart.
    pub identity: RowIdentity,
    /// Whether updates come without the row before (`+U` alone): a row replaces the one of its unique key.
    pub updates_by_key: bool,
    /// How long a row is remembered.
    pub time_to_live: TimeToLive,
}

/// What tells the rows of one join key apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowIdentity {
    /// Nothing has to: rows are inserted only, and never forgotten.
    None,
    /// There is one row for each join key at most.
    JoinKey,
    /// These columns.
    UniqueKey(Vec<usize>),
    /// All columns: equal rows are counted.
    WholeRow,
}

/// See the module.
pub(in crate::operators) struct Side {
    pub(in crate::operators) spec: JoinSide,
    pub(in crate::operators) slab: RowSlab,
    pub(in crate::operators) links: Links,
    pub(in crate::operators) finder: Finder,
    /// How many rows of the other side each row has found, by id; only where somebody asks.
    pub(in crate::operators) associations: Option<Vec<u32>>,
    /// When each row is forgotten, by id; empty where that never happens.
    pub(in crate::operators) expiries: Vec<i64>,
    /// Whether batches are folded bundles: a delete by key may be of a row that was never here.
    pub(in crate::operators) folded: bool,
    /// Whether changes tell if their join keys have other rows.
    pub(in crate::operators) notes_others: bool,
}

/// How a row is found again.
pub(in crate::operators) enum Finder {
    /// It is not. With `first_only`, the first row of a join key stands for all that follow.
    None { first_only: bool },
    /// It is the only one of its join key.
    JoinKey,
    /// By its unique key.
    UniqueKey(UniqueKeys),
    /// By its content. A row is stored once; the column counts its copies, by id.
    WholeRow { index: RowIndex, copies: Vec<u32> },
}

/// The row of each unique key.
pub(in crate::operators) struct UniqueKeys {
    pub(in crate::operators) columns: Vec<usize>,
    types: Vec<DataType>,
    pub(in crate::operators) table: GroupTable,
    /// The id of the row, by number of the key.
    pub(in crate::operators) current: Vec<u32>,
    rebuild_at: usize,
}

/// Tables of fewer keys are not rebuilt to lose those that are gone.
const REBUILD_KEYS: usize = 4096;

impl Side {
    /// An empty side. `counts`: whether it counts the associations of its rows. `first_only`: whether one row of a join key is as
    /// good as many.
    pub(in crate::operators) fn new(
        spec: JoinSide,
        counts: bool,
        first_only: bool,
    ) -> Result<Self> {
        let finder = match &spec.identity {
            RowIdentity::None => Finder::None { first_only },
            RowIdentity::JoinKey => Finder::JoinKey,
            RowIdentity::UniqueKey(columns) => {
                let columns = within_join_key(columns, &spec.keys);
                Finder::UniqueKey(UniqueKeys::new(columns, &spec.schema)?)
            }
            RowIdentity::WholeRow => Finder::WholeRow {
                index: RowIndex::default(),
                copies: Vec::new(),
            },
        };
        Ok(Side {
            slab: RowSlab::new(spec.schema.to_arrow()),
            links: Links::default(),
            finder,
            associations: counts.then(Vec::new),
            expiries: Vec::new(),
            folded: false,
            notes_others: false,
            spec,
        })
    }

    /// Makes the columns by id as long as the slab's ids, and the lists as many as the groups.
    pub(in crate::operators) fn reserve(&mut self, groups: usize) {
        let ids = self.slab.capacity();
        self.links.reserve(ids, groups);
        if let Some(associations) = &mut self.associations {
            associations.resize(ids, 0);
        }
        if self.spec.time_to_live.is_enabled() {
            self.expiries.resize(ids, i64::MAX);
        }
        if let Finder::WholeRow { copies, .. } = &mut self.finder {
            copies.resize(ids, 0);
        }
    }

    /// How often a row counts.
    #[inline]
    pub(in crate::operators) fn copies(&self, id: u32) -> u32 {
        match &self.finder {
            Finder::WholeRow { copies, .. } => copies[id as usize],
            _ => 1,
        }
    }

    /// Whether rows may count more than once.
    pub(in crate::operators) fn has_copies(&self) -> bool {
        matches!(self.finder, Finder::WholeRow { .. })
    }

    /// Whether a row is still remembered.
    #[inline]
    pub(in crate::operators) fn is_alive(&self, id: u32, now: ProcessingTime) -> bool {
        match self.expiries.get(id as usize) {
            Some(expiry) => !TimeToLive::is_expired(*expiry, now),
            None => true,
        }
    }

    /// A row was written: it is remembered anew.
    #[inline]
    pub(in crate::operators) fn refresh(&mut self, id: u32, now: ProcessingTime) {
        if let Some(expiry) = self.expiries.get_mut(id as usize) {
            *expiry = self.spec.time_to_live.expiry(now);
        }
    }

    /// How many partners a row has found.
    #[inline]
    pub(in crate::operators) fn association(&self, id: u32) -> u32 {
        let counts = self.associations.as_ref();
        counts.map_or(0, |counts| counts[id as usize])
    }

    /// Notes how many partners a row has found; `NONE` is no row.
    #[inline]
    pub(in crate::operators) fn set_association(&mut self, id: u32, count: u32) {
        if let Some(counts) = &mut self.associations
            && id != NONE
        {
            counts[id as usize] = count;
        }
    }

    /// Forgets what is too old.
    pub(in crate::operators) fn sweep(&mut self, now: ProcessingTime) -> Result<()> {
        if self.expiries.is_empty() {
            return Ok(());
        }
        let mut gone = self.slab.ids();
        gone.retain(|id| !self.is_alive(*id, now));
        self.forget(&gone)
    }

    /// Forgets rows.
    pub(super) fn forget(&mut self, gone: &[u32]) -> Result<()> {
        gone.iter().for_each(|id| self.links.unlink(*id));
        match &mut self.finder {
            Finder::UniqueKey(keys) => keys.forget(&self.slab, gone)?,
            Finder::WholeRow { index, copies } => gone.iter().for_each(|id| {
                index.remove(*id);
                copies[*id as usize] = 0;
            }),
            Finder::None { .. } | Finder::JoinKey => {}
        }
        self.slab.remove(gone)
    }

    /// Forgets all rows, and gives the memory back.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.slab = RowSlab::new(self.slab.schema().clone());
        self.links = Links::default();
        self.associations = self.associations.is_some().then(Vec::new);
        self.expiries = Vec::new();
        match &mut self.finder {
            Finder::UniqueKey(keys) => keys.clear()?,
            Finder::WholeRow { index, copies } => {
                (*index, *copies) = (RowIndex::default(), Vec::new());
            }
            Finder::None { .. } | Finder::JoinKey => {}
        }
        Ok(())
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let finder = match &self.finder {
            Finder::UniqueKey(keys) => keys.table.size_bytes() + keys.current.capacity() * 4,
            Finder::WholeRow { index, copies } => index.size_bytes() + copies.capacity() * 4,
            Finder::None { .. } | Finder::JoinKey => 0,
        };
        let associations = self.associations.as_ref().map_or(0, Vec::capacity) * 4;
        let by_row = associations + self.expiries.capacity() * 8;
        self.slab.size_bytes() + self.links.size_bytes() + finder + by_row
    }
}

/// The columns of a unique key with those of the join key, within which it is unique: a row that comes with another join key is
/// another row, whichever of its changes comes first.
fn within_join_key(unique: &[usize], join: &[usize]) -> Vec<usize> {
    let others = join.iter().filter(|column| !unique.contains(column));
    unique.iter().chain(others).copied().collect()
}

impl UniqueKeys {
    fn new(columns: Vec<usize>, schema: &Schema) -> Result<Self> {
        let of = |column: &usize| schema.fields[*column].logical_type.to_arrow();
        let types: Vec<DataType> = columns.iter().map(of).collect();
        Ok(UniqueKeys {
            table: GroupTable::new(&types)?,
            columns,
            types,
            current: Vec::new(),
            rebuild_at: REBUILD_KEYS,
        })
    }

    /// Forgets the keys of rows that are still in the slab.
    fn forget(&mut self, slab: &RowSlab, gone: &[u32]) -> Result<()> {
        let columns = slab.gather_columns(&self.columns, gone)?;
        let hashes = hash_columns(&columns, gone.len())?;
        let mut numbers = Vec::new();
        self.table.resolve(&columns, &hashes, &mut numbers)?;
        self.current.resize(self.table.len(), NONE);
        for (number, id) in numbers.into_iter().zip(gone) {
            let current = &mut self.current[number as usize];
            if current == id {
                *current = NONE;
            }
        }
        if (slab.len() - gone.len()) * 2 < self.table.len() {
            self.rebuild()?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.table = GroupTable::new(&self.types)?;
        (self.current, self.rebuild_at) = (Vec::new(), REBUILD_KEYS);
        Ok(())
    }

    /// Loses the keys without a row where they are the most.
    pub(in crate::operators) fn compact(&mut self) -> Result<()> {
        if self.table.len() < self.rebuild_at {
            return Ok(());
        }
        self.rebuild()
    }

    fn rebuild(&mut self) -> Result<()> {
        let live: Vec<u32> = (0..self.table.len() as u32)
            .filter(|key| self.current[*key as usize] != NONE)
            .collect();
        if let Some(table) = rebuilt(&self.table, &self.types, &live)? {
            self.table = table;
            self.current = live.iter().map(|key| self.current[*key as usize]).collect();
        }
        self.rebuild_at = REBUILD_KEYS.max(self.table.len() * 2);
        Ok(())
    }
}

/// A table of the `live` groups only, in their order, where they are less than half of all.
pub(in crate::operators) fn rebuilt(
    table: &GroupTable,
    types: &[DataType],
    live: &[u32],
) -> Result<Option<GroupTable>> {
    if live.len() * 2 > table.len() {
        return Ok(None);
    }
    let hashes: Vec<u64> = live.iter().map(|id| table.hashes()[*id as usize]).collect();
    let mut result = GroupTable::with_capacity(types, live.len())?;
    result.resolve(&table.keys(&Groups::Ids(live))?, &hashes, &mut Vec::new())?;
    Ok(Some(result))
}
