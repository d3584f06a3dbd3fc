//! Leaves out the rows before updates.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope};

/// Lets everything pass but `-U`. Output: all input columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DropUpdateBeforeNode {}

impl DropUpdateBeforeNode {
    pub(crate) fn attributes(&self, _: &Scope) -> Attributes {
        vec![]
    }
}
