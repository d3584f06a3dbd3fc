//! Which changes of a table are taken up, and how.
