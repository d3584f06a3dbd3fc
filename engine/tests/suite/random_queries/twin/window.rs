//! TUMBLE, HOP and CUMULATE in FROM: each row once a window that holds its time. No row of these tests is late.

use volley::plan::logical::WindowTableFunction;
use volley::testing::cell::Value;
use volley::testing::twin::windows_of;
use volley::window::WindowKind;

use super::{Row, Unclear};

pub(super) fn windows(node: &WindowTableFunction, rows: Vec<Row>) -> Result<Vec<Row>, Unclear> {
    if matches!(node.window.kind, WindowKind::Session { .. }) {
        return Err(Unclear::Unknown("SESSION"));
    }
    let mut result = Vec::new();
    for row in rows {
        let Value::Timestamp(nanos) = row[node.time_column] else {
            continue;
        };
        for window in windows_of(&node.window, nanos.div_euclid(1_000_000) as i64) {
            let bounds = [window.start, window.end, window.end - 1].map(Value::timestamp_millis);
            result.push([&row[..], &bounds].concat());
        }
    }
    Ok(result)
}
