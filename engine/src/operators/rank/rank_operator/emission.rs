//! Which ranks, or which rows of the result, an arriving row changes.

use super::super::rank_changes::NONE;
use super::super::ranked_rows::RankedRows;
use super::super::sort_order::RankKey;
use super::RankOperator;

impl<K: RankKey> RankOperator<K> {
    /// Changes go out by rank, not as a set of rows.
    fn is_numbered(&self) -> bool {
        self.spec.output_rank || (self.spec.start > 1 && self.spec.changelog.update_before)
    }

    /// The changes that a row makes which is now at `position`.
    pub(super) fn emit_insert(&mut self, partition: u32, position: usize, cause: u32) {
        if self.is_numbered() {
            return self.emit_insert_by_rank(partition, position, cause);
        }
        let start = usize::try_from(self.spec.start).unwrap_or(usize::MAX);
        let (rows, end) = self.rows_and_end(partition);
        let rank = position + 1;
        if rank > end || start > end {
            return;
        }
        let leaving = (rows.len() > end).then(|| rows.row(end));
        let entering = if rank >= start {
            Some(rows.row(position))
        } else {
            (rows.len() >= start).then(|| rows.row(start - 1))
        };
        if let (Some(old), Some(new)) = (leaving, entering)
            && self.spec.changelog.replaces_only_row
        {
            return self.changes.replace(old, new, cause);
        }
        self.emit_both(leaving, entering, cause);
    }

    fn emit_insert_by_rank(&mut self, partition: u32, position: usize, cause: u32) {
        let mut shifted = std::mem::take(&mut self.shifted);
        let start = usize::try_from(self.spec.start).unwrap_or(usize::MAX);
        let (rows, end) = self.rows_and_end(partition);
        let (first, before) = (start.max(position + 1), rows.len() - 1);
        let ranks = first..=before.min(end);
        shifted.extend(ranks.map(|rank| (rank as u64, rows.row(rank), rows.row(rank - 1))));
        if before < end && first <= rows.len() {
            shifted.push((rows.len() as u64, NONE, rows.row(before)));
        }
        self.emit_shifted(partition, shifted, cause);
    }

    fn emit_shifted(&mut self, partition: u32, mut shifted: Vec<(u64, u32, u32)>, cause: u32) {
        for (rank, old, new) in shifted.drain(..) {
            self.changes.rank(partition, rank, old, new, cause);
        }
        self.shifted = shifted;
    }

    fn emit_both(&mut self, leaving: Option<u32>, entering: Option<u32>, cause: u32) {
        leaving
            .into_iter()
            .for_each(|row| self.changes.leave(row, cause));
        entering
            .into_iter()
            .for_each(|row| self.changes.enter(row, cause));
    }

    fn rows_and_end(&self, partition: u32) -> (&RankedRows<K>, usize) {
        let top = &self.tops[partition as usize];
        (&top.rows, top.end)
    }

    /// The changes that a row makes which was at `position`.
    pub(super) fn emit_remove(
        &mut self,
        partition: u32,
        position: usize,
        removed: u32,
        cause: u32,
    ) {
        let mut shifted = std::mem::take(&mut self.shifted);
        let start = usize::try_from(self.spec.start).unwrap_or(usize::MAX);
        let (rows, end) = self.rows_and_end(partition);
        let (rank, before) = (position + 1, rows.len() + 1);
        let row_before = |at: usize| {
            if at == rank {
                removed
            } else {
                rows.row(at - 2)
            }
        };
        let first = start.max(rank);
        if self.is_numbered() {
            let ranks = first..=rows.len().min(end);
            shifted.extend(ranks.map(|at| (at as u64, row_before(at), rows.row(at - 1))));
            if (first..=end).contains(&before) {
                shifted.push((before as u64, row_before(before), NONE));
            }
        } else if rank <= end && start <= end {
            let leaving = (before >= first).then(|| row_before(first));
            let entering = (before > end).then(|| rows.row(end - 1));
            self.emit_both(leaving, entering, cause);
        }
        self.emit_shifted(partition, shifted, cause);
    }

    /// The changes that a row makes which went from one position to another.
    pub(super) fn emit_update(
        &mut self,
        partition: u32,
        from: usize,
        to: usize,
        (old, new): (u32, u32),
        cause: u32,
    ) {
        let numbered = self.is_numbered();
        let start = usize::try_from(self.spec.start).unwrap_or(usize::MAX);
        let (rows, _) = self.rows_and_end(partition);
        let (from, to) = (from + 1, to + 1);
        let old_of = |rank: usize| match rank {
            rank if rank == from => old,
            rank if to <= from => rows.row(rank),
            rank => rows.row(rank - 2),
        };
        if numbered {
            let shifted: Vec<(u64, u32, u32)> = (from.min(to)..=from.max(to))
                .map(|rank| (rank as u64, old_of(rank), rows.row(rank - 1)))
                .collect();
            if to <= from {
                let start = self.spec.start;
                self.changes.moves_up(partition, &shifted, start, cause);
                return;
            }
            for (rank, old, new) in shifted {
                if rank >= self.spec.start {
                    self.changes.rank(partition, rank, old, new, cause);
                }
            }
            return;
        }
        let (leaving, entering) = match (from >= start, to >= start) {
            (true, true) => return self.changes.replace(old, new, cause),
            (false, false) => return,
            (true, false) => (old, rows.row(start - 1)),
            (false, true) => (old_of(start), new),
        };
        self.changes.leave(leaving, cause);
        self.changes.enter(entering, cause);
    }
}
