//! The state of all inputs of a join under one table of join keys.

use arrow::datatypes::DataType;

use super::changes::Changes;
use super::side::{Side, rebuilt};
use crate::error::Result;
use crate::operators::window_join::key_numbers;
use crate::operators::{Context, key_hashes};
use crate::state::GroupTable;
use crate::stream::ChangelogBatch;
use crate::types::ProcessingTime;

/// See the module.
pub(in crate::operators) struct KeyedSides {
    pub(in crate::operators) sides: Vec<Side>,
    /// What the state of each side is called in a snapshot.
    pub(super) names: Vec<String>,
    /// The join keys of all sides.
    pub(super) groups: GroupTable,
    pub(super) key_types: Vec<DataType>,
    /// For each key whether NULL equals NULL.
    pub(super) null_safe: Vec<bool>,
    rebuild_at: usize,
    /// How many join keys have been taken out since the table was built.
    taken_out: usize,
    next_sweep: Option<ProcessingTime>,
}

/// Tables of fewer keys are not rebuilt to lose those without rows.
const REBUILD_GROUPS: usize = 4096;

/// State that is never forgotten is not swept; other state is, after this part of its time to live.
const SWEEPS_A_LIFE: i64 = 2;

impl KeyedSides {
    /// Empty sides, whose keys have the same types.
    pub(in crate::operators) fn new(
        sides: Vec<Side>,
        names: Vec<String>,
        null_safe: Vec<bool>,
    ) -> Result<Self> {
        assert!(
            sides
                .iter()
                .all(|side| side.spec.keys.len() == null_safe.len()),
            "every key has a column of each side and a flag"
        );
        let first = &sides[0].spec;
        let of_key = |column: &usize| first.schema.fields[*column].logical_type.to_arrow();
        let key_types: Vec<DataType> = first.keys.iter().map(of_key).collect();
        Ok(KeyedSides {
            groups: GroupTable::new(&key_types)?,
            sides,
            names,
            key_types,
            null_safe,
            rebuild_at: REBUILD_GROUPS,
            taken_out: 0,
            next_sweep: None,
        })
    }

    /// How many join keys have numbers.
    pub(super) fn group_count(&self) -> usize {
        match self.key_types.is_empty() {
            true => 1,
            false => self.groups.len(),
        }
    }

    /// Loses the join keys without rows where they are the most.
    pub(in crate::operators) fn compact(&mut self) -> Result<()> {
        if self.groups.len() < self.rebuild_at {
            return Ok(());
        }
        self.rebuild()
    }

    fn rebuild(&mut self) -> Result<()> {
        let live = self.live_groups();
        if let Some(groups) = rebuilt(&self.groups, &self.key_types, &live)? {
            self.groups = groups;
            for side in &mut self.sides {
                side.links.renumber(&live);
            }
        }
        self.rebuild_at = REBUILD_GROUPS.max(self.groups.len() * 2);
        self.taken_out = 0;
        Ok(())
    }

    /// The join keys with rows.
    pub(super) fn live_groups(&self) -> Vec<u32> {
        let is_live = |group: &u32| self.sides.iter().any(|side| !side.links.is_empty(*group));
        let known = 0..self.group_count() as u32;
        known.filter(is_live).collect()
    }

    /// Forgets the rows of join keys.
    pub(super) fn forget(&mut self, groups: &[u32]) -> Result<()> {
        for side in &mut self.sides {
            let rows = groups.iter().flat_map(|group| side.links.rows(*group));
            let rows: Vec<u32> = rows.collect();
            side.forget(&rows)?;
        }
        self.taken_out += groups.len();
        if !self.key_types.is_empty() && self.taken_out * 2 > self.groups.len() {
            self.rebuild()?;
        }
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.sides.iter_mut().try_for_each(Side::clear)?;
        self.groups = GroupTable::new(&self.key_types)?;
        (self.rebuild_at, self.taken_out) = (REBUILD_GROUPS, 0);
        Ok(())
    }

    /// Forgets what is too old, a few times in the life of a row.
    pub(in crate::operators) fn sweep(&mut self, now: ProcessingTime) -> Result<()> {
        let lives = self.sides.iter().map(|side| side.spec.time_to_live);
        let Some(shortest) = lives
            .filter(|life| life.is_enabled())
            .map(|life| life.expiry(ProcessingTime(0)))
            .min()
        else {
            return Ok(());
        };
        match self.next_sweep {
            Some(due) if due > now => return Ok(()),
            Some(_) => self.sides.iter_mut().try_for_each(|side| side.sweep(now))?,
            None => {}
        }
        let pause = (shortest / SWEEPS_A_LIFE).max(1);
        self.next_sweep = Some(ProcessingTime(now.millis().saturating_add(pause)));
        Ok(())
    }

    /// When rows have to be swept next, if there are any.
    pub(in crate::operators) fn next_sweep(&self) -> Option<ProcessingTime> {
        let holds_rows = self.sides.iter().any(|side| !side.slab.is_empty());
        self.next_sweep.filter(|_| holds_rows)
    }

    /// Takes a batch into its side's state.
    pub(in crate::operators) fn apply(
        &mut self,
        ctx: &Context,
        input: usize,
        batch: &ChangelogBatch,
    ) -> Result<Changes> {
        let side = &mut self.sides[input];
        let hashes = key_hashes(batch, &side.spec.keys)?;
        let groups = key_numbers(
            &mut self.groups,
            &batch.rows,
            &side.spec.keys,
            &self.null_safe,
            hashes.values(),
        )?;
        let known = self.group_count();
        self.sides[input].apply(batch, &groups, known, ctx.processing_time())
    }
}
