//! What happens to rows: one operator a file, under Flink's name for it.
//!
//! Doors: `operators` use `types`, `stream`, `expr`, `functions`, `window`, `watermark` and `state`; only `source.rs`,
//! `values.rs`, `lookup_join.rs` and `sink.rs` touch `connectors`, through their traits. Deliberately absent: `sql`, `plan` and `runtime`, and any clock.

mod bundle;
mod calc;
mod changelog_normalize;
mod context;
mod correlate;
mod deduplicate;
mod drop_update_before;
mod expand;
mod expiry;
mod group_aggregate;
mod interval_join;
mod join;
mod key_hash;
mod keyed_rows;
mod keyed_state;
mod late_rows;
mod local_window_aggregate;
mod lookup_join;
mod match_recognize;
mod mini_batch_assigner;
mod multi_join;
mod null_times;
mod operator;
mod output;
mod over_aggregate;
mod partition_table;
mod rank;
mod row_bundle;
mod row_changes;
mod row_equality;
mod row_timers;
mod session_window;
mod sink;
mod sink_upsert_materializer;
mod source;
mod temporal_join;
mod temporal_sort;
#[cfg(test)]
pub(crate) mod test_bench;
mod tiered;
mod timed_side;
mod union;
mod values;
mod waiting_rows;
mod watermark_queue;
mod window_aggregate;
mod window_buffer;
mod window_deduplicate;
mod window_join;
mod window_rank;
mod window_reduce;
mod window_table_function;

pub use bundle::{Bundle, BundlePart};
pub use calc::{CalcOperator, CalcSpec};
pub use changelog_normalize::{ChangelogNormalizeOperator, ChangelogNormalizeSpec};
pub use context::{Context, LatestTimes, OperatorMetrics, Subtask};
pub use correlate::{CorrelateOperator, CorrelateSpec};
pub use deduplicate::{
    DeduplicateChangelog, DeduplicateChangingRowOperator, DeduplicateEarliestRowOperator,
    DeduplicateFirstRowOperator, DeduplicateSpec,
};
pub use drop_update_before::DropUpdateBeforeOperator;
pub use expand::ExpandOperator;
pub use group_aggregate::{
    GroupAggregateOperator, GroupAggregateSpec, LocalGroupAggregateOperator,
};
pub use interval_join::{IntervalBounds, IntervalJoinOperator, IntervalJoinSpec};
pub use join::{JoinOperator, JoinSide, JoinSpec, RowIdentity};
pub use key_hash::{key_hashes, with_key_hashes};
pub use keyed_state::{DueTime, EXPIRY_COLUMN, KeySet, KeyedState, nohash};
pub use late_rows::{late_rows_batch, late_rows_schema};
pub use local_window_aggregate::LocalWindowAggregateOperator;
pub use lookup_join::{
    AsyncLookupSpec, LookupAsking, LookupJoinOperator, LookupJoinSpec, LookupKeyValue,
    LookupRetrySpec, QueuedLookupJoinOperator, lookup_state_schema,
};
pub use match_recognize::{MatchOperator, MatchSpec};
pub use mini_batch_assigner::MiniBatchAssignerOperator;
pub use multi_join::{MultiJoinLevel, MultiJoinOperator, MultiJoinSpec};
pub(crate) use operator::RESTORE_PIECES;
pub use operator::{Flow, InputIndex, Operator};
pub use output::{LateRows, Output};
pub use over_aggregate::{OverAggregateOperator, OverAggregateSpec, OverFrame};
pub use rank::{
    FirstRowsOperator, RankChangelog, RankEnd, RankOperator, RankSpec, RankStrategy, Ties,
    rank_operator,
};
pub use session_window::{SessionWindowAggregateOperator, SessionWindowTableFunctionOperator};
pub(crate) use sink::{COMMITTABLES, COMMITTED_SINCE};
pub use sink::{NotNullEnforcer, SinkOperator, SinkSpec, TypeLengthEnforcer};
pub use sink_upsert_materializer::{
    OnConflict, SinkUpsertMaterializerOperator, SinkUpsertMaterializerSpec,
};
pub use source::{SourceOperator, SourceStatus, WatermarkAssignerSpec};
pub use temporal_join::{TemporalJoinOperator, TemporalJoinSpec};
pub use temporal_sort::{SortTime, TemporalSortOperator, TemporalSortSpec};
pub use tiered::{MOST_CHANGES, TierOptions, tiered};
pub use timed_side::TimedSide;
pub use union::UnionOperator;
pub use values::ValuesSource;
pub use waiting_rows::WaitingRows;
pub use window_aggregate::{AggregatePhase, WindowAggregateOperator, local_output_schema};
pub use window_deduplicate::{
    KeepRow, WindowDeduplicate, WindowDeduplicateOperator, WindowDeduplicateSpec,
};
pub use window_join::{JoinCondition, WindowJoinOperator, WindowJoinSide, WindowJoinSpec};
pub use window_rank::{WindowRank, WindowRankOperator, WindowRankSpec};
pub use window_reduce::{ReduceWindow, WindowReduceOperator};
pub use window_table_function::WindowTableFunctionOperator;
