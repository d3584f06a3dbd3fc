//! The nodes of an execution plan, one a file: what each holds, and what EXPLAIN shows of it.

mod attributes;
mod calc;
mod correlate;
mod exchange;
mod expand;
mod group_window_aggregate;
mod late_rows_sink;
mod sink;
mod table_source_scan;
mod union;
mod values;
mod watermark_assigner;
mod window_aggregate;
mod window_deduplicate;
mod window_join;
mod window_rank;
mod window_table_function;

pub(crate) use attributes::{Attributes, Scope};

pub use calc::CalcNode;
pub use correlate::CorrelateNode;
pub use exchange::{Distribution, ExchangeNode};
pub use expand::ExpandNode;
pub use group_window_aggregate::GroupWindowAggregateNode;
pub use late_rows_sink::LateRowsSinkNode;
pub use sink::{NotNullEnforcer, SinkNode, SinkTarget};
pub use table_source_scan::TableSourceScanNode;
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
