//! A random windowed query: as SQL, and as the twin computes it.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use volley::testing::cell::{Value, order_rows};
use volley::testing::twin::*;
use volley::types::TypeRoot;
use volley::window::WindowKind;

use super::scenario::{Role, Setting, interval};

/// What is asked of the windows.
#[derive(Debug, Clone)]
pub(super) enum Query {
    Aggregate(Aggregate),
    /// The best rows of each window and key, over the window function or over an aggregate.
    TopN(TopN),
    Deduplicate {
        key: Vec<usize>,
        keeps_last: bool,
    },
    Join {
        kind: Join,
        key: Vec<usize>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    pub(super) key: Vec<usize>,
    /// Positions in `key`; empty: all of them as one set.
    pub(super) sets: Vec<Vec<usize>>,
    pub(super) calls: Vec<TwinAggregate>,
    /// Only rows whose unique column is not divisible by this.
    pub(super) modulus: Option<i64>,
}

#[derive(Debug, Clone)]
pub(super) struct TopN {
    key: Vec<usize>,
    limit: usize,
    descending: bool,
    with_number: bool,
    over_counts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
}

impl Query {
    pub(super) fn random(random: &mut SmallRng, setting: &mut Setting) -> Self {
        let is_session = matches!(setting.spec.kind, WindowKind::Session { .. });
        let keys = setting.of_role(Role::Key);
        let key: Vec<usize> = keys
            .into_iter()
            .filter(|_| random.random_bool(0.7))
            .collect();
        if random.random_bool(0.15) {
            (setting.tables, setting.is_union) = (2, true);
        }
        match random.random_range(0..10) {
            // Only aggregates take changes.
            _ if setting.retracts => Query::Aggregate(aggregate(random, setting, key, is_session)),
            0 | 1 if !is_session => Query::TopN(TopN {
                key,
                limit: random.random_range(1..=4),
                descending: random.random_bool(0.5),
                with_number: random.random_bool(0.5),
                over_counts: random.random_bool(0.5),
            }),
            2 if !is_session => Query::Deduplicate {
                key,
                keeps_last: random.random_bool(0.5),
            },
            3 | 4 if !is_session && !setting.is_union => {
                setting.tables = 2;
                let kinds = [
                    Join::Inner,
                    Join::Left,
                    Join::Right,
                    Join::Full,
                    Join::Semi,
                    Join::Anti,
                ];
                Query::Join {
                    kind: *kinds.choose(random).unwrap(),
                    key,
                }
            }
            _ => Query::Aggregate(aggregate(random, setting, key, is_session)),
        }
    }

    /// Whether the query's WHERE keeps a row.
    pub(super) fn passes(&self, setting_cells: &[Value], unique: usize) -> bool {
        match self {
            Query::Aggregate(Aggregate {
                modulus: Some(modulus),
                ..
            }) => match setting_cells[unique] {
                Value::Integer(number) => number % modulus != 0,
                _ => false,
            },
            _ => true,
        }
    }
}

fn aggregate(
    random: &mut SmallRng,
    setting: &Setting,
    key: Vec<usize>,
    is_session: bool,
) -> Aggregate {
    let sets = match !is_session && key.len() > 1 && random.random_bool(0.3) {
        false => vec![],
        true => {
            let all = 1 << key.len();
            let mut sets: Vec<u32> = (0..all).filter(|_| random.random_bool(0.5)).collect();
            sets.extend([0, all - 1]);
            sets.sort_unstable();
            sets.dedup();
            let members = |set: u32| {
                (0..key.len())
                    .filter(|position| set >> position & 1 == 1)
                    .collect()
            };
            sets.into_iter().map(members).collect()
        }
    };
    Aggregate {
        calls: (0..random.random_range(1..=5))
            .map(|_| call(random, setting))
            .collect(),
        sets,
        key,
        // A filter behind SESSION needs the window function on its own, which takes no changes.
        modulus: (random.random_bool(0.2) && !(is_session && setting.retracts))
            .then(|| random.random_range(2..=3)),
    }
}

fn call(random: &mut SmallRng, setting: &Setting) -> TwinAggregate {
    let filter = random
        .random_bool(0.3)
        .then(|| setting.of_role(Role::Flag)[0]);
    let values = [setting.of_role(Role::Number), setting.of_role(Role::Key)].concat();
    let column = *values.choose(random).unwrap();
    let root = &setting.columns[column].logical_type.root;
    let bits = match root {
        TypeRoot::SmallInt => 16,
        TypeRoot::Int => 32,
        _ => 64,
    };
    let function = match random.random_range(0..6) {
        0 => {
            return TwinAggregate {
                function: TwinFunction::Count,
                column: None,
                distinct: false,
                filter,
            };
        }
        1 if root.is_numeric() => TwinFunction::Sum { bits },
        2 if root.is_numeric() => TwinFunction::Avg { scale: 6 },
        3 if *root != TypeRoot::Boolean => TwinFunction::Min,
        4 if *root != TypeRoot::Boolean => TwinFunction::Max,
        _ => TwinFunction::Count,
    };
    TwinAggregate {
        distinct: random.random_bool(0.3),
        function,
        column: Some(column),
        filter,
    }
}

impl Join {
    fn sql(self) -> &'static str {
        match self {
            Join::Inner => "JOIN",
            Join::Left => "LEFT JOIN",
            Join::Right => "RIGHT JOIN",
            Join::Full => "FULL JOIN",
            Join::Semi => "EXISTS",
            Join::Anti => "NOT EXISTS",
        }
    }
}

impl Query {
    pub(super) fn sql(&self, setting: &Setting) -> String {
        let window = |table: usize| window_function(setting, table, &[]);
        let names = |columns: &[usize]| -> String {
            columns
                .iter()
                .map(|column| format!(", `{}`", setting.columns[*column].name))
                .collect()
        };
        match self {
            Query::Aggregate(aggregate) => aggregate_sql(aggregate, setting),
            Query::TopN(top) => top_n_sql(top, setting),
            Query::Deduplicate { key, keeps_last } => format!(
                "SELECT window_start, window_end, `u` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end{} \
                 ORDER BY `ts` {}) AS rn FROM {}) WHERE rn = 1",
                names(key),
                if *keeps_last { "DESC" } else { "ASC" },
                window(0)
            ),
            Query::Join { kind, key } => {
                let equal: String = key
                    .iter()
                    .map(|column| {
                        let name = &setting.columns[*column].name;
                        format!(" AND l.`{name}` = r.`{name}`")
                    })
                    .collect();
                let on = format!(
                    "l.window_start = r.window_start AND l.window_end = r.window_end{equal}"
                );
                let (left, right) = (window(0), window(1));
                match kind {
                    Join::Semi | Join::Anti => format!(
                        "SELECT l.window_start, l.window_end, l.`u` FROM (SELECT * FROM {left}) l \
                         WHERE {} (SELECT * FROM (SELECT * FROM {right}) r WHERE {on})",
                        kind.sql()
                    ),
                    _ => format!(
                        "SELECT l.window_start, r.window_start, l.`u`, r.`u` FROM (SELECT * FROM {left}) l \
                         {} (SELECT * FROM {right}) r ON {on}",
                        kind.sql()
                    ),
                }
            }
        }
    }
}

/// `TABLE(TUMBLE(…))` and so on; sessions are partitioned by `key`.
fn window_function(setting: &Setting, table: usize, key: &[usize]) -> String {
    let offset = match setting.spec.offset_ms {
        0 => String::new(),
        offset => format!(", {}", interval(offset)),
    };
    let lengths = match setting.spec.kind {
        WindowKind::Tumble { size_ms } => format!("{}{offset}", interval(size_ms)),
        WindowKind::Hop { slide_ms, size_ms } => {
            format!("{}, {}{offset}", interval(slide_ms), interval(size_ms))
        }
        WindowKind::Cumulate {
            step_ms,
            max_size_ms,
        } => format!("{}, {}{offset}", interval(step_ms), interval(max_size_ms)),
        WindowKind::Session { gap_ms } => interval(gap_ms),
    };
    let name = match setting.spec.kind {
        WindowKind::Tumble { .. } => "TUMBLE",
        WindowKind::Hop { .. } => "HOP",
        WindowKind::Cumulate { .. } => "CUMULATE",
        WindowKind::Session { .. } => "SESSION",
    };
    let names: Vec<String> = key
        .iter()
        .map(|column| format!("`{}`", setting.columns[*column].name))
        .collect();
    let partition = match (name, key) {
        ("SESSION", [_]) => format!(" PARTITION BY {}", names[0]),
        ("SESSION", [_, ..]) => format!(" PARTITION BY ({})", names.join(", ")),
        _ => String::new(),
    };
    let table = match setting.is_union {
        true => "both_tables".to_string(),
        false => format!("t{table}"),
    };
    format!("TABLE({name}(TABLE {table}{partition}, DESCRIPTOR(`ts`), {lengths}))")
}

fn aggregate_sql(aggregate: &Aggregate, setting: &Setting) -> String {
    let name = |column: usize| format!("`{}`", setting.columns[column].name);
    let key: Vec<String> = aggregate.key.iter().map(|column| name(*column)).collect();
    let mut select = vec!["window_start".to_string(), "window_end".to_string()];
    let mut group = select.clone();
    select.extend(key.clone());
    for (position, call) in aggregate.calls.iter().enumerate() {
        select.push(format!("{} AS a{position}", call_sql(call, setting)));
    }
    match aggregate.sets.is_empty() {
        true => group.extend(key),
        false => {
            let set = |set: &Vec<usize>| {
                let members: Vec<&str> =
                    set.iter().map(|position| key[*position].as_str()).collect();
                format!("({})", members.join(", "))
            };
            let sets: Vec<String> = aggregate.sets.iter().map(set).collect();
            group.push(format!("GROUPING SETS ({})", sets.join(", ")));
        }
    }
    let filter = aggregate
        .modulus
        .map(|modulus| format!(" WHERE MOD(`u`, {modulus}) <> 0"));
    format!(
        "SELECT {} FROM {}{} GROUP BY {}",
        select.join(", "),
        window_function(setting, 0, &aggregate.key),
        filter.unwrap_or_default(),
        group.join(", ")
    )
}

fn call_sql(call: &TwinAggregate, setting: &Setting) -> String {
    let function = match call.function {
        TwinFunction::Count => "COUNT",
        TwinFunction::Sum { .. } => "SUM",
        TwinFunction::Avg { .. } => "AVG",
        TwinFunction::Min => "MIN",
        TwinFunction::Max => "MAX",
    };
    let argument = call.column.map_or("*".to_string(), |column| {
        format!("`{}`", setting.columns[column].name)
    });
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let filter = call
        .filter
        .map(|column| format!(" FILTER (WHERE `{}`)", setting.columns[column].name));
    format!(
        "{function}({distinct}{argument}){}",
        filter.unwrap_or_default()
    )
}

fn top_n_sql(top: &TopN, setting: &Setting) -> String {
    let key: String = top
        .key
        .iter()
        .map(|column| format!(", `{}`", setting.columns[*column].name))
        .collect();
    let direction = if top.descending { "DESC" } else { "ASC" };
    let number = if top.with_number { ", rn" } else { "" };
    let limit = top.limit;
    if !top.over_counts {
        return format!(
            "SELECT window_start, window_end, `u`{number} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, \
             window_end{key} ORDER BY `u` {direction}) AS rn FROM {}) WHERE rn <= {limit}",
            window_function(setting, 0, &[])
        );
    }
    // Ties of the counts go by the keys, which are unique in a window.
    let ties: String = top
        .key
        .iter()
        .map(|column| format!(", `{}` ASC", setting.columns[*column].name))
        .collect();
    format!(
        "SELECT window_start, window_end, n{key}{number} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, \
         window_end ORDER BY n {direction}{ties}) AS rn FROM (SELECT window_start, window_end{key}, COUNT(*) AS n FROM {} \
         GROUP BY window_start, window_end{key})) WHERE rn <= {limit}",
        window_function(setting, 0, &[])
    )
}

fn bound(time_ms: i64) -> Value {
    Value::timestamp_millis(time_ms)
}

/// The windows of a query's first operator with the rows that its WHERE keeps.
pub(super) fn frames(query: &Query, setting: &Setting, rows: &[TwinRow]) -> TwinFrames {
    let partitions = setting.partitions_of_tables();
    let mut frames = match (&setting.spec.kind, query) {
        (WindowKind::Session { .. }, Query::Aggregate(aggregate)) => {
            sessions(aggregate, setting, rows, &partitions)
        }
        _ => assign(&setting.spec, rows, &partitions, setting.delay_ms),
    };
    frames
        .frames
        .iter_mut()
        .for_each(|frame| frame.cancel(rows));
    frames
}

/// A filter behind SESSION does not change the sessions, which all rows make.
fn sessions(
    aggregate: &Aggregate,
    setting: &Setting,
    rows: &[TwinRow],
    partitions: &[usize],
) -> TwinFrames {
    let mut all = rows.to_vec();
    all.iter_mut().for_each(|row| row.passes = true);
    let (spec, key) = (&setting.spec, &aggregate.key);
    let mut frames = assign_sessions(spec, &all, key, partitions, setting.delay_ms);
    for frame in &mut frames.frames {
        frame.rows.retain(|row| rows[*row].passes);
    }
    frames.frames.retain(|frame| !frame.rows.is_empty());
    frames
}

impl Query {
    /// The rows that must come out, and how many late rows must be counted where each row is counted once.
    pub(super) fn expected(
        &self,
        setting: &Setting,
        rows: &[TwinRow],
    ) -> (Vec<Vec<Value>>, Option<u64>) {
        let frames = frames(self, setting, rows);
        let mut result = Vec::new();
        for frame in &frames.frames {
            let window = [bound(frame.window.start), bound(frame.window.end)];
            let members: Vec<&TwinRow> = frame.rows.iter().map(|row| &rows[*row]).collect();
            let cells: Vec<&[Value]> = members.iter().map(|row| row.cells.as_slice()).collect();
            let found = match self {
                Query::Aggregate(aggregate) => aggregate_rows(aggregate, &cells),
                Query::TopN(top) => top_n_rows(top, setting, &cells),
                Query::Deduplicate { key, keeps_last } => {
                    deduplicated(setting, &members, key, *keeps_last)
                }
                Query::Join { kind, key } => {
                    result.extend(joined(*kind, setting, &members, key, &window));
                    continue;
                }
            };
            result.extend(found.into_iter().map(|row| [window.to_vec(), row].concat()));
        }
        let is_session = matches!(setting.spec.kind, WindowKind::Session { .. });
        let once = matches!(self, Query::Aggregate(aggregate)
            if aggregate.sets.is_empty() && (aggregate.modulus.is_none() || !is_session));
        (result, once.then_some(frames.late.len() as u64))
    }
}

pub(super) fn aggregate_rows(aggregate: &Aggregate, rows: &[&[Value]]) -> Vec<Vec<Value>> {
    let all: Vec<usize> = (0..aggregate.key.len()).collect();
    let sets = match aggregate.sets.is_empty() {
        true => vec![all],
        false => aggregate.sets.clone(),
    };
    let mut result = Vec::new();
    for set in sets {
        let columns: Vec<usize> = set
            .iter()
            .map(|position| aggregate.key[*position])
            .collect();
        for (key, members) in group_by(rows, &columns) {
            let mut row = vec![Value::Null; aggregate.key.len()];
            std::iter::zip(&set, key).for_each(|(position, value)| row[*position] = value);
            row.extend(aggregate.calls.iter().map(|call| call.over(&members)));
            result.push(row);
        }
    }
    result
}

fn top_n_rows(top: &TopN, setting: &Setting, rows: &[&[Value]]) -> Vec<Vec<Value>> {
    let number = |position: usize| Value::Integer(position as i64 + 1);
    let mut result = Vec::new();
    let mut emit = |ranked: Vec<Vec<Value>>| {
        for (position, mut row) in ranked.into_iter().take(top.limit).enumerate() {
            row.extend(top.with_number.then(|| number(position)));
            result.push(row);
        }
    };
    if top.over_counts {
        let mut counts: Vec<Vec<Value>> = group_by(rows, &top.key)
            .into_iter()
            .map(|(key, members)| [vec![Value::Integer(members.len() as i64)], key].concat())
            .collect();
        counts.sort_by(|a, b| {
            let by_count = a[0].order(&b[0]);
            let by_count = if top.descending {
                by_count.reverse()
            } else {
                by_count
            };
            by_count.then(order_rows(&a[1..], &b[1..]))
        });
        emit(counts);
        return result;
    }
    for (_, members) in group_by(rows, &top.key) {
        let mut uniques: Vec<Vec<Value>> = members
            .iter()
            .map(|row| vec![row[setting.unique()].clone()])
            .collect();
        uniques.sort_by(|a, b| order_rows(a, b));
        if top.descending {
            uniques.reverse();
        }
        emit(uniques);
    }
    result
}

fn deduplicated(
    setting: &Setting,
    rows: &[&TwinRow],
    key: &[usize],
    keeps_last: bool,
) -> Vec<Vec<Value>> {
    let cells: Vec<&[Value]> = rows.iter().map(|row| row.cells.as_slice()).collect();
    let unique = setting.unique();
    let time_of = |cells: &[Value]| {
        let same = |row: &&&TwinRow| row.cells[unique] == cells[unique];
        rows.iter().find(same).expect("one of the rows").time_ms
    };
    group_by(&cells, key)
        .into_iter()
        .map(|(_, members)| {
            // Of equal elements `min_by_key` gives the first and `max_by_key` the last, as arrival decides here.
            let kept = match keeps_last {
                false => members.iter().min_by_key(|cells| time_of(cells)),
                true => members.iter().max_by_key(|cells| time_of(cells)),
            };
            vec![kept.expect("a group has rows")[unique].clone()]
        })
        .collect()
}

fn joined(
    kind: Join,
    setting: &Setting,
    rows: &[&TwinRow],
    key: &[usize],
    window: &[Value; 2],
) -> Vec<Vec<Value>> {
    let side = |table: usize| rows.iter().filter(move |row| row.table == table);
    let unique = |row: &TwinRow| row.cells[setting.unique()].clone();
    let meets = |left: &TwinRow, right: &TwinRow| {
        key.iter().all(|column| {
            left.cells[*column] != Value::Null
                && left.cells[*column].order(&right.cells[*column]).is_eq()
        })
    };
    let mut result = Vec::new();
    for left in side(0) {
        let partners: Vec<_> = side(1).filter(|right| meets(left, right)).collect();
        match kind {
            Join::Semi | Join::Anti => {
                if partners.is_empty() == (kind == Join::Anti) {
                    result.push([window.to_vec(), vec![unique(left)]].concat());
                }
                continue;
            }
            _ => {}
        }
        for right in &partners {
            result.push(vec![
                window[0].clone(),
                window[0].clone(),
                unique(left),
                unique(right),
            ]);
        }
        if partners.is_empty() && matches!(kind, Join::Left | Join::Full) {
            result.push(vec![
                window[0].clone(),
                Value::Null,
                unique(left),
                Value::Null,
            ]);
        }
    }
    if matches!(kind, Join::Right | Join::Full) {
        for right in side(1).filter(|right| side(0).all(|left| !meets(left, right))) {
            result.push(vec![
                Value::Null,
                window[0].clone(),
                Value::Null,
                unique(right),
            ]);
        }
    }
    result
}
