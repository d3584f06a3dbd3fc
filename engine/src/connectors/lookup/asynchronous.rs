//! Asking without waiting: a question is started, and its handle is looked at until the answer is there.

use super::{LookupRequest, LookupRows};
use crate::error::{Error, Result};

/// Whether a table can be asked without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncSupport {
    /// It cannot.
    None,
    /// It can, which is worth it only where the query says so: answers come from this machine.
    OnRequest,
    /// It can, and is better asked so: answers come from far away.
    Preferred,
}

impl AsyncSupport {
    /// Whether a join asks without waiting, given what its hint says.
    pub fn is_taken(self, wanted: Option<bool>) -> bool {
        match self {
            AsyncSupport::None => false,
            AsyncSupport::OnRequest => wanted.unwrap_or(false),
            AsyncSupport::Preferred => wanted.unwrap_or(true),
        }
    }
}

/// Answers one subtask without making it wait. Several questions may be open, and they may be answered in any order.
pub trait AsyncLookupFunction: Send {
    /// Begins to look for the rows of a batch of keys.
    fn start(&mut self, request: &LookupRequest) -> Result<Box<dyn LookupHandle>>;
}

/// A question that was started. Dropping it gives the answer up.
pub trait LookupHandle: Send {
    /// The answer, as soon as it is there; once. Does not wait.
    fn poll(&mut self) -> Option<Result<LookupRows>>;

    /// Waits for the answer, which [`LookupHandle::poll`] has not given.
    fn wait(self: Box<Self>) -> Result<LookupRows>;
}

/// A question whose answer is known at once.
pub fn answered(rows: LookupRows) -> Box<dyn LookupHandle> {
    Box::new(Answered(Some(rows)))
}

struct Answered(Option<LookupRows>);

impl LookupHandle for Answered {
    fn poll(&mut self) -> Option<Result<LookupRows>> {
        self.0.take().map(Ok)
    }

    fn wait(self: Box<Self>) -> Result<LookupRows> {
        let taken = || Error::internal("the answer of a lookup is taken once");
        self.0.ok_or_else(taken)
    }
}
