//! The engine from outside: the cases of `testdata/cases` in every way, random windows against a slow twin, and the doors
//! between the rooms.

mod cases;
mod doors;
mod jobs;
mod random_windows;
