//! Legacy group windows: `GROUP BY TUMBLE(ts, size)` with `TUMBLE_START(ts, size)` and its kin in SELECT.

use sqlparser::ast::{Expr, Function, FunctionArguments};

use super::binder::Binder;
use super::expression::ExpressionBinder;
use super::function_call::Call;
use super::grouping::LegacyGroup;
use super::scope::Scope;
use super::window_function::Length;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::plan::logical::LegacyWindow;
use crate::types::SqlPosition;
use crate::window::{WindowKind, WindowSpec};

const WINDOWS: [&str; 3] = ["TUMBLE", "HOP", "SESSION"];
const PROPERTIES: [&str; 4] = ["START", "END", "ROWTIME", "PROCTIME"];

/// Whether a GROUP BY item is a group window.
pub(super) fn is_group_window(function: &Function) -> bool {
    let name = function.name.to_string().to_uppercase();
    WINDOWS.contains(&name.as_str())
}

/// Whether a function gives a property of a group window, such as TUMBLE_START.
pub(super) fn is_auxiliary(name: &str) -> bool {
    split(name).is_some()
}

/// TUMBLE and START out of TUMBLE_START.
fn split(name: &str) -> Option<(&str, &str)> {
    let (window, property) = name.split_once('_')?;
    (WINDOWS.contains(&window) && PROPERTIES.contains(&property)).then_some((window, property))
}

/// The group window of a GROUP BY item.
pub(super) fn bind_group_window(
    binder: &Binder,
    scope: &Scope,
    function: &Function,
) -> Result<LegacyGroup> {
    let mut expressions = ExpressionBinder::plain(binder, scope, "GROUP BY");
    let call = expressions.read_call(function)?;
    if function.over.is_some() || call.distinct || call.filter.is_some() {
        return Err(binder.unsupported(format!("this form of {}", call.name), function));
    }
    if matches!(function.args, FunctionArguments::None) {
        return Err(wrong_arguments(&call.name, call.place));
    }
    let name = call.name.clone();
    window_of(&mut expressions, &name, &call)
}

/// The window that the arguments of `TUMBLE(…)` or `TUMBLE_START(…)` describe.
fn window_of(binder: &mut ExpressionBinder, window: &str, call: &Call) -> Result<LegacyGroup> {
    let Some((time, lengths)) = call.arguments.split_first() else {
        return Err(wrong_arguments(window, call.place));
    };
    let time = binder.plain_argument(call, time)?;
    let (time_column, place) = (bind_time(binder, window, time)?, binder.place(time));
    let lengths = lengths
        .iter()
        .map(|length| {
            let expr = binder.plain_argument(call, length)?;
            let bound = binder.bind(expr)?;
            Length::of("size", window, &bound, binder.place(expr))
        })
        .collect::<Result<Vec<_>>>()?;
    let kind = match (window, &lengths[..]) {
        ("TUMBLE", [size]) => WindowKind::Tumble {
            size_ms: size.positive(window)?,
        },
        // Unlike the table function, this one may leave gaps and need not divide.
        ("HOP", [slide, size]) => WindowKind::Hop {
            slide_ms: slide.positive(window)?,
            size_ms: size.positive(window)?,
        },
        ("SESSION", [gap]) => WindowKind::Session {
            gap_ms: gap.positive(window)?,
        },
        _ => return Err(wrong_arguments(window, call.place)),
    };
    let field = binder.scope.columns[time_column].field.clone();
    let time = binder.binder.window_time(&field).ok_or_else(|| {
        let fields = binder.scope.columns.iter().map(|column| &column.field);
        binder
            .binder
            .not_a_time_attribute(window, &field, fields, place)
    })?;
    Ok(LegacyGroup {
        window: LegacyWindow {
            window: WindowSpec {
                kind,
                offset_ms: 0,
                time,
            },
            time_column,
        },
        time_field: field,
    })
}

fn bind_time(binder: &mut ExpressionBinder, window: &str, expr: &Expr) -> Result<usize> {
    let place = binder.place(expr);
    match binder.bind(expr)? {
        Expression::Column { index, .. } => Ok(index),
        other => Err(Error::user(format!(
            "{window} needs a time attribute, which {other} is not"
        ))
        .at(place)
        .hint("name the column of WATERMARK FOR, or one that is AS PROCTIME()")),
    }
}

fn wrong_arguments(window: &str, place: Option<SqlPosition>) -> Error {
    let usage = match window {
        "TUMBLE" => "TUMBLE(time column, size)",
        "HOP" => "HOP(time column, slide, size)",
        _ => "SESSION(time column, gap)",
    };
    Error::user(format!("wrong arguments for the group window {window}"))
        .at(place)
        .hint(usage)
}

/// `TUMBLE_START(ts, size)`: a column of the group window with the same arguments.
pub(super) fn bind_auxiliary(binder: &mut ExpressionBinder, call: &Call) -> Result<Expression> {
    let (window, property) = split(&call.name).expect("the caller has asked is_auxiliary");
    let Some(legacy) = binder
        .grouping
        .as_deref()
        .and_then(|grouping| grouping.legacy.clone())
    else {
        return Err(Error::user(format!(
            "{} is for a query with GROUP BY {window}(…)",
            call.name
        ))
        .at(call.place)
        .hint("behind a window function in FROM the columns are window_start, window_end and window_time"));
    };
    if call.distinct || call.filter.is_some() {
        return Err(Error::user(format!("{} is no aggregate function", call.name)).at(call.place));
    }
    let mut plain = ExpressionBinder::plain(binder.binder, binder.scope, binder.clause);
    if window_of(&mut plain, window, call)? != legacy {
        return Err(Error::user(format!(
            "the arguments of {} differ from those of the group window",
            call.name
        ))
        .at(call.place)
        .hint(format!("repeat the arguments of GROUP BY {window}(…)")));
    }
    let is_event_time = legacy.window.window.time.is_event_time();
    let column = match (property, is_event_time) {
        ("START", _) => 0,
        ("END", _) => 1,
        ("ROWTIME", true) | ("PROCTIME", false) => 2,
        _ => {
            let clock = if is_event_time { "event" } else { "processing" };
            return Err(Error::user(format!(
                "{} does not fit: the group window goes by {clock} time",
                call.name
            ))
            .at(call.place));
        }
    };
    let grouping = binder.grouping.as_deref().expect("has a group window");
    Ok(grouping.window_column(column).expect("has a group window"))
}
