//! What a node says about itself: a list of names and values, of which EXPLAIN makes `Calc(select=[a, b])`.

use crate::plan::exec_node::ExecNode;
use crate::types::{Schema, SortKey};
use crate::window::WindowSpec;

/// Names and values in the order of display.
pub(crate) type Attributes = Vec<(&'static str, String)>;

/// A node with its inputs, for describing it.
pub(crate) struct Scope<'a> {
    pub(crate) node: &'a ExecNode,
    pub(crate) inputs: Vec<&'a ExecNode>,
}

impl Scope<'_> {
    /// The columns of the only or the left input.
    pub(crate) fn input(&self) -> &Schema {
        &self.inputs[0].schema
    }

    /// The node's own columns.
    pub(crate) fn output(&self) -> &Schema {
        &self.node.schema
    }
}

/// `a, b, c`.
pub(crate) fn names(schema: &Schema) -> String {
    schema.names().collect::<Vec<_>>().join(", ")
}

/// The names of some columns: `a, c`.
pub(crate) fn columns(schema: &Schema, indices: &[usize]) -> String {
    names(&schema.project(indices))
}

/// `a ASC, b DESC`, with the place of NULLs where it is not the default.
pub(crate) fn order(schema: &Schema, keys: &[SortKey]) -> String {
    let keys = keys.iter().map(|key| {
        let nulls = match (key.descending, key.nulls_first) {
            (false, false) => " NULLS LAST",
            (true, true) => " NULLS FIRST",
            _ => "",
        };
        let direction = if key.descending { "DESC" } else { "ASC" };
        format!("{} {direction}{nulls}", schema.fields[key.column].name)
    });
    keys.collect::<Vec<_>>().join(", ")
}

/// `TUMBLE(time_col=[ts], size=[10 s])`: the window with a word on how rows come to it.
pub(crate) fn window(window: &WindowSpec, how: &str) -> String {
    let kind = window.kind.to_string();
    let (name, sizes) = kind
        .split_once('(')
        .expect("a window displays as NAME(sizes)");
    let sizes = sizes.strip_suffix(')').unwrap_or(sizes);
    let offset = match window.offset_ms {
        0 => String::new(),
        offset => format!(", offset=[{offset} ms]"),
    };
    format!("{name}({how}, {sizes}{offset})")
}
