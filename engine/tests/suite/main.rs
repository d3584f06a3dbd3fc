//! The engine from outside: the cases of `testdata/cases` in every way, random windows and random queries against slow
//! twins, the doors between the rooms, the state that earlier versions wrote, and the generated pages of `docs`.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod cases;
mod docs;
mod doors;
mod explain;
mod file_sinks;
mod jobs;
mod random_queries;
mod random_windows;
mod recovery;
mod retail;
mod simulation;
mod stored_state;
mod upgrade;
