//! Savepoints of every type of state, damaged ones, and large ones.
