//! EXPLAIN STATE: what each stateful operator keeps, per what key, until when, and about how much a million keys weigh.
//!
//! The estimate is made of the widths of what is kept (texts count as 20 bytes, collections as 100) and of what finding it again
//! costs, twice, as columns and tables grow by doubling; benches/state_memory.py measures. Warnings name state that nothing ever bounds and sinks whose primary key is not the query's key.

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan};
use super::explain::describe;
use super::logical::OverFrame;
use super::nodes::*;
use crate::config::SessionConfig;
use crate::functions::AggregateCall;
use crate::types::{RowKind, Schema, TypeRoot};

/// A hash slot and the hash of a key.
const KEY_BYTES: usize = 28;
/// The place, the id and the index entry of a row in a slab.
const ROW_BYTES: usize = 40;
/// A node of an ordered map.
const ORDERED_BYTES: usize = 48;
/// How much more is held than used.
const GROWTH: usize = 2;

/// One thing that an operator keeps.
struct Kept {
    what: String,
    per: String,
    until: Until,
    bytes: usize,
}

/// When state goes.
enum Until {
    /// With time, as the words say.
    Time(String),
    /// With its time to live, in milliseconds; 0: never.
    TimeToLive(u64),
    /// Never, which is meant: it follows the number of keys.
    Deleted(String),
}

/// The text of EXPLAIN STATE behind the plan.
pub(super) fn explain_state(plan: &ExecPlan, config: &SessionConfig) -> String {
    let mut text = String::from("\n== State ==\n");
    let explainer = StateExplainer {
        plan,
        ttl_ms: config.duration("table.exec.state.ttl").as_millis() as u64,
    };
    let mut any = false;
    for node in &plan.nodes {
        let kept = explainer.kept(node);
        let warnings = explainer.warnings(node, &kept);
        if kept.is_empty() && warnings.is_empty() {
            continue;
        }
        any = true;
        text.push_str(&format!("{}\n", describe(plan, node)));
        for kept in &kept {
            text.push_str(&kept.line());
        }
        for warning in warnings {
            text.push_str(&format!("  warning: {warning}\n"));
        }
    }
    if !any {
        text.push_str("No operator keeps anything but positions and watermarks.\n");
    }
    text
}

impl Kept {
    fn new(what: impl Into<String>, per: impl Into<String>, until: Until, bytes: usize) -> Self {
        Kept {
            what: what.into(),
            per: per.into(),
            until,
            bytes,
        }
    }

    fn line(&self) -> String {
        let until = match &self.until {
            Until::Time(words) => format!("until {words}"),
            Until::Deleted(words) => words.clone(),
            Until::TimeToLive(0) => "for ever".to_string(),
            Until::TimeToLive(ttl) => format!("until {} without a write", duration(*ttl)),
        };
        let per = match self.per.as_str() {
            "row" => String::new(),
            per => format!(" per {per}"),
        };
        format!(
            "  keeps {}{per}, {until}; about {} MB per million\n",
            self.what,
            self.bytes.saturating_mul(GROWTH)
        )
    }

    fn is_unbounded(&self) -> bool {
        matches!(self.until, Until::TimeToLive(0))
    }
}

struct StateExplainer<'a> {
    plan: &'a ExecPlan,
    ttl_ms: u64,
}

impl StateExplainer<'_> {
    fn kept(&self, node: &ExecNode) -> Vec<Kept> {
        let inputs = self.plan.inputs(node);
        let Some(first) = inputs.first() else {
            return vec![];
        };
        let input = &first.schema;
        let insert_only = first.changelog_mode.is_insert_only();
        let ttl = Until::TimeToLive(self.ttl_ms);
        match &node.kind {
            ExecNodeKind::GroupAggregate(aggregate) => {
                vec![self.groups(&aggregate.spec, input, insert_only)]
            }
            ExecNodeKind::GlobalGroupAggregate(aggregate) => {
                vec![self.groups(&aggregate.spec, &aggregate.local_input, insert_only)]
            }
            ExecNodeKind::Deduplicate(deduplicate) => {
                vec![deduplicated(deduplicate, input, ttl)]
            }
            ExecNodeKind::Rank(rank) => vec![ranked(rank, input, ttl)],
            ExecNodeKind::ChangelogNormalize(normalize) => vec![Kept::new(
                "the last row",
                key_names(input, &normalize.key),
                self.until_deleted(),
                KEY_BYTES + ROW_BYTES + width(input),
            )],
            ExecNodeKind::SinkUpsertMaterializer(materializer) => vec![Kept::new(
                "all rows, in order of arrival,",
                format!(
                    "primary key of the sink ({})",
                    names(input, &materializer.primary_key)
                ),
                self.until_deleted(),
                2 * KEY_BYTES + 2 * ROW_BYTES + width(input),
            )],
            ExecNodeKind::OverAggregate(over) => over_kept(over, input),
            ExecNodeKind::Join(join) => self.joined(join, &inputs),
            ExecNodeKind::MultiJoin(join) => self.multi_joined(join, &inputs),
            ExecNodeKind::IntervalJoin(join) => interval_kept(join, &inputs),
            ExecNodeKind::TemporalJoin(join) => temporal_kept(join, &inputs),
            ExecNodeKind::Match(node) => vec![Kept::new(
                "the rows of open matches",
                "row",
                match node.pattern.within_ms {
                    Some(within) => Until::Time(format!(
                        "no open match needs it, {} at most",
                        duration(within as u64)
                    )),
                    None => Until::Deleted("until no open match needs it".to_string()),
                },
                ROW_BYTES + width(input),
            )],
            ExecNodeKind::TemporalSort(_) => vec![Kept::new(
                "each row",
                "row",
                Until::Time("the watermark passes its time".to_string()),
                ROW_BYTES + width(input),
            )],
            ExecNodeKind::WindowAggregate(WindowAggregateNode { spec })
            | ExecNodeKind::GroupWindowAggregate(GroupWindowAggregateNode { spec }) => {
                vec![window_groups(&spec.keys, &spec.aggregates, input)]
            }
            ExecNodeKind::GlobalWindowAggregate(GlobalWindowAggregateNode {
                spec,
                local_input,
            }) => {
                vec![window_groups(&spec.keys, &spec.aggregates, local_input)]
            }
            ExecNodeKind::WindowRank(_)
            | ExecNodeKind::WindowDeduplicate(_)
            | ExecNodeKind::WindowJoin(_) => inputs
                .iter()
                .map(|input| {
                    let until = Until::Time("the watermark passes its window's end".to_string());
                    Kept::new("each row", "row", until, 16 + width(&input.schema))
                })
                .collect(),
            _ => vec![],
        }
    }

    fn until_deleted(&self) -> Until {
        match self.ttl_ms {
            0 => Until::Deleted("until it is deleted".to_string()),
            ttl => Until::TimeToLive(ttl),
        }
    }

    fn groups(&self, spec: &GroupAggregateSpec, input: &Schema, insert_only: bool) -> Kept {
        let key = if spec.grouping.is_empty() {
            "job (one group)".to_string()
        } else {
            format!("group ({})", names(input, &spec.grouping))
        };
        let accumulators: usize = spec
            .aggregates
            .iter()
            .map(|call| accumulator_bytes(call, insert_only))
            .sum();
        let results: usize = spec
            .aggregates
            .iter()
            .map(|call| width_of(&call.logical_type.root))
            .sum();
        let keys = width(&input.project(&spec.grouping));
        let ttl = spec.state_ttl_ms.unwrap_or(self.ttl_ms);
        let until = if spec.grouping.is_empty() {
            Until::Deleted("for ever".to_string())
        } else {
            Until::TimeToLive(ttl)
        };
        let mut what = "accumulators".to_string();
        let holds_values =
            |call: &&AggregateCall| call.distinct || (!insert_only && holds_values(call));
        let with_values: Vec<&str> = spec
            .aggregates
            .iter()
            .filter(holds_values)
            .map(|call| call.name.as_str())
            .collect();
        if !with_values.is_empty() {
            what.push_str(&format!(
                " and every value of {} with its count",
                with_values.join(", ")
            ));
        }
        Kept::new(what, key, until, KEY_BYTES + keys + accumulators + results)
    }

    fn joined(&self, join: &JoinNode, inputs: &[&ExecNode]) -> Vec<Kept> {
        let sides = [
            ("left", join.state_ttl_ms[0]),
            ("right", join.state_ttl_ms[1]),
        ];
        let kept = inputs.iter().zip(sides).map(|(input, (side, ttl))| {
            let until = Until::TimeToLive(ttl.unwrap_or(self.ttl_ms));
            let what = match input.upsert_key() {
                Some(_) => format!("each {side} row"),
                None => format!("each different {side} row with its count"),
            };
            let bytes = KEY_BYTES + ROW_BYTES + width(&input.schema);
            Kept::new(what, "row", until, bytes)
        });
        kept.collect()
    }

    fn multi_joined(&self, join: &MultiJoinNode, inputs: &[&ExecNode]) -> Vec<Kept> {
        let sides = inputs.iter().zip(&join.inputs).zip(1..);
        let kept = sides.map(|((input, side), number)| {
            let until = Until::TimeToLive(side.state_ttl_ms.unwrap_or(self.ttl_ms));
            let what = match input.upsert_key() {
                Some(_) => format!("each row of input {number}"),
                None => format!("each different row of input {number} with its count"),
            };
            let bytes = KEY_BYTES + ROW_BYTES + width(&input.schema);
            Kept::new(what, "row", until, bytes)
        });
        kept.collect()
    }

    fn warnings(&self, node: &ExecNode, kept: &[Kept]) -> Vec<String> {
        let mut warnings = Vec::new();
        if kept.iter().any(Kept::is_unbounded) {
            let hint = match &node.kind {
                ExecNodeKind::Join(_)
                | ExecNodeKind::MultiJoin(_)
                | ExecNodeKind::GroupAggregate(_) => ", or the hint STATE_TTL",
                _ => "",
            };
            warnings.push(format!(
                "nothing ever bounds this state; if keys come and go, SET 'table.exec.state.ttl' = '…'{hint}"
            ));
        }
        warnings.extend(self.key_warning(node));
        warnings
    }

    /// What gives the rows of a sink, behind what is remembered for it.
    fn query_of<'b>(&'b self, sink: &'b ExecNode) -> &'b ExecNode {
        let input = self.plan.node(sink.inputs[0]);
        match input.kind {
            ExecNodeKind::Exchange(_) | ExecNodeKind::SinkUpsertMaterializer(_) => {
                self.query_of(input)
            }
            _ => input,
        }
    }

    fn key_warning(&self, node: &ExecNode) -> Option<String> {
        let ExecNodeKind::Sink(sink) = &node.kind else {
            return None;
        };
        let SinkTarget::Table(table) = &sink.target else {
            return None;
        };
        let input = self.query_of(node);
        if table.primary_key.is_empty()
            || sink.changelog_mode.contains(RowKind::UpdateBefore)
            || input.changelog_mode.is_insert_only()
        {
            return None;
        }
        let mut wanted = table.primary_key.clone();
        wanted.sort_unstable();
        if input.upsert_keys.contains(&wanted) {
            return None;
        }
        let own = match input.upsert_key() {
            Some([]) => "one row for all".to_string(),
            Some(key) => names(&input.schema, key),
            None => "none".to_string(),
        };
        Some(format!(
            "the sink's primary key ({}) is not the query's key ({own}): the history of each primary key must be kept to \
             know which row is the last; group by exactly the sink's key to save that",
            names(&input.schema, &table.primary_key)
        ))
    }
}

fn deduplicated(deduplicate: &DeduplicateNode, input: &Schema, ttl: Until) -> Kept {
    let per = key_names(input, &deduplicate.unique_key);
    let key = KEY_BYTES + width(&input.project(&deduplicate.unique_key));
    match (deduplicate.keep, deduplicate.order_column) {
        (KeepRow::First, None) => Kept::new("that it has come", per, ttl, key),
        (KeepRow::First, Some(_)) => Kept::new(
            "the earliest row until the watermark passes it, then that it has come",
            per,
            ttl,
            key,
        ),
        (KeepRow::Last, _) => Kept::new("the last row", per, ttl, key + ROW_BYTES + width(input)),
    }
}

fn ranked(rank: &RankNode, input: &Schema, ttl: Until) -> Kept {
    let row = ROW_BYTES + ORDERED_BYTES + width(input);
    let per = if rank.partition_by.is_empty() {
        "job (one partition)".to_string()
    } else {
        format!("partition ({})", names(input, &rank.partition_by))
    };
    match (&rank.strategy, rank.range) {
        (RankStrategy::Retract, _) => Kept::new("every row", per, ttl, KEY_BYTES + row),
        (_, RankRange::Constant { end, .. }) if end != u64::MAX => {
            let rows = usize::try_from(end).unwrap_or(usize::MAX).min(1 << 20);
            let until = match rank.partition_by.is_empty() {
                true => Until::Deleted("for ever".to_string()),
                false => ttl,
            };
            Kept::new(
                format!("the first {end} rows"),
                per,
                until,
                KEY_BYTES.saturating_add(rows.saturating_mul(row)),
            )
        }
        _ => Kept::new("the rows of the range", per, ttl, KEY_BYTES + row),
    }
}

fn over_kept(over: &OverAggregateNode, input: &Schema) -> Vec<Kept> {
    let row = ROW_BYTES + width(input);
    let rows = |words: String| Kept::new("each row", "row", Until::Time(words), row);
    match over.frame {
        OverFrame::Range(Some(millis)) => vec![rows(format!(
            "the watermark is {} past its time",
            duration(millis as u64)
        ))],
        OverFrame::Rows(Some(count)) => vec![
            rows("the watermark passes its time".to_string()),
            Kept::new(
                format!("the last {count} rows"),
                key_names(input, &over.partition_by),
                Until::TimeToLive(0),
                row.saturating_mul(count as usize),
            ),
        ],
        _ => vec![
            rows("the watermark passes its time".to_string()),
            Kept::new(
                "accumulators",
                key_names(input, &over.partition_by),
                Until::TimeToLive(0),
                KEY_BYTES
                    + over
                        .calls
                        .iter()
                        .map(|call| accumulator_bytes(call, true))
                        .sum::<usize>(),
            ),
        ],
    }
}

fn interval_kept(join: &IntervalJoinNode, inputs: &[&ExecNode]) -> Vec<Kept> {
    let times = [-join.lower_bound_ms, join.upper_bound_ms];
    inputs
        .iter()
        .zip(times)
        .map(|(input, millis)| {
            let words = format!(
                "the other side's time is {} past its own",
                duration(millis.max(0) as u64)
            );
            let bytes = ROW_BYTES + ORDERED_BYTES + width(&input.schema);
            Kept::new("each row", "row", Until::Time(words), bytes)
        })
        .collect()
}

fn temporal_kept(join: &TemporalJoinNode, inputs: &[&ExecNode]) -> Vec<Kept> {
    let probe = Kept::new(
        "each left row",
        "row",
        Until::Time("the watermarks of both sides pass its time".to_string()),
        ROW_BYTES + width(&inputs[0].schema),
    );
    let versions = Kept::new(
        "the newest version at or before the watermark, and all later ones,",
        key_names(&inputs[1].schema, &join.right_key),
        Until::Deleted("until it is deleted".to_string()),
        KEY_BYTES + ROW_BYTES + ORDERED_BYTES + width(&inputs[1].schema),
    );
    vec![probe, versions]
}

fn window_groups(keys: &[usize], aggregates: &[AggregateCall], input: &Schema) -> Kept {
    let accumulators: usize = aggregates
        .iter()
        .map(|call| accumulator_bytes(call, true))
        .sum();
    Kept::new(
        "accumulators",
        match keys {
            [] => "slice of the window".to_string(),
            keys => format!("key ({}) and slice of the window", names(input, keys)),
        },
        Until::Time("the watermark passes the last window of the slice".to_string()),
        KEY_BYTES + width(&input.project(keys)) + accumulators,
    )
}

/// Functions that need all values to take one back.
fn holds_values(call: &AggregateCall) -> bool {
    !matches!(
        call.function.as_str(),
        "COUNT"
            | "SUM"
            | "AVG"
            | "VAR_POP"
            | "VAR_SAMP"
            | "STDDEV_POP"
            | "STDDEV_SAMP"
            | "VARIANCE"
    )
}

fn accumulator_bytes(call: &AggregateCall, insert_only: bool) -> usize {
    let argument = call
        .argument_types
        .first()
        .map_or(0, |argument| width_of(&argument.root));
    if call.distinct {
        return 2 * KEY_BYTES + argument + 16;
    }
    match call.function.as_str() {
        "COUNT" => 8,
        "MIN" | "MAX" | "FIRST_VALUE" | "LAST_VALUE" if insert_only => argument + 1,
        _ if holds_values(call) => ORDERED_BYTES + argument,
        _ => 24,
    }
}

fn key_names(schema: &Schema, key: &[usize]) -> String {
    match key {
        [] => "job (one key)".to_string(),
        key => format!("key ({})", names(schema, key)),
    }
}

fn names(schema: &Schema, columns: &[usize]) -> String {
    let names: Vec<&str> = columns
        .iter()
        .map(|column| schema.fields[*column].name.as_str())
        .collect();
    names.join(", ")
}

fn width(schema: &Schema) -> usize {
    let fields = schema.fields.iter();
    fields.map(|field| width_of(&field.logical_type.root)).sum()
}

/// About how many bytes a value takes in a column.
fn width_of(root: &TypeRoot) -> usize {
    match root {
        TypeRoot::Boolean | TypeRoot::TinyInt => 1,
        TypeRoot::SmallInt => 2,
        TypeRoot::Int | TypeRoot::Float | TypeRoot::Date | TypeRoot::Time(_) => 4,
        TypeRoot::Decimal { .. } => 16,
        TypeRoot::Row(fields) => fields
            .iter()
            .map(|field| width_of(&field.logical_type.root))
            .sum(),
        TypeRoot::Array(_) | TypeRoot::Map(..) | TypeRoot::Multiset(_) => 100,
        root if root.is_string() || root.is_binary() => 24,
        _ => 8,
    }
}

/// `1 h`, `10 s`: the largest unit that fits.
fn duration(millis: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1000, "s"),
    ];
    for (size, unit) in units {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{} {unit}", millis / size);
        }
    }
    format!("{millis} ms")
}
