//! The nodes of an execution plan, one a file: what each holds, and what EXPLAIN shows of it.

mod attributes;
mod calc;
mod changelog_normalize;
mod correlate;
mod deduplicate;
mod drop_update_before;
mod exchange;
mod expand;
mod group_aggregate;
mod group_window_aggregate;
mod interval_join;
mod join;
mod late_rows_sink;
mod lookup_join;
mod match_recognize;
mod mini_batch_assigner;
mod multi_join;
mod over_aggregate;
mod rank;
mod sink;
mod sink_upsert_materializer;
mod table_source_scan;
mod temporal_join;
mod union;
mod values;
mod watermark_assigner;
mod window_aggregate;
mod window_deduplicate;
mod window_join;
mod window_rank;
mod window_table_function;

pub(crate) use attributes::{Attributes, Scope, columns};

pub use calc::CalcNode;
pub use changelog_normalize::ChangelogNormalizeNode;
pub use correlate::CorrelateNode;
pub use deduplicate::{DeduplicateEmission, DeduplicateNode};
pub use drop_update_before::DropUpdateBeforeNode;
pub use exchange::{Distribution, ExchangeNode};
pub use expand::ExpandNode;
pub use group_aggregate::{
    GlobalGroupAggregateNode, GroupAggregateNode, GroupAggregateSpec, LocalGroupAggregateNode,
};
pub use group_window_aggregate::GroupWindowAggregateNode;
pub use interval_join::IntervalJoinNode;
pub use join::JoinNode;
pub use late_rows_sink::LateRowsSinkNode;
pub use lookup_join::{AsyncLookup, LookupJoinNode, LookupKey, LookupValue};
pub use match_recognize::MatchNode;
pub use mini_batch_assigner::MiniBatchAssignerNode;
pub use multi_join::{MultiJoinInput, MultiJoinLevel, MultiJoinNode};
pub use over_aggregate::OverAggregateNode;
pub use rank::{RankForm, RankNode, RankRange, RankStrategy, TemporalSortNode};
pub use sink::{NotNullEnforcer, SinkNode, SinkTarget, TypeLengthEnforcer};
pub use sink_upsert_materializer::SinkUpsertMaterializerNode;
pub use table_source_scan::TableSourceScanNode;
pub use temporal_join::TemporalJoinNode;
pub use union::UnionNode;
pub use values::ValuesNode;
pub use watermark_assigner::WatermarkAssignerNode;
pub use window_aggregate::{
    GlobalWindowAggregateNode, LocalWindowAggregateNode, WindowAggregateNode,
};
pub use window_deduplicate::{KeepRow, WindowDeduplicateNode};
pub use window_join::{JoinKey, WindowJoinNode};
pub use window_rank::WindowRankNode;
pub use window_table_function::WindowTableFunctionNode;
