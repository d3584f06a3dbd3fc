//! What the process does with memory that was freed.

use std::ffi::{c_int, c_long};

/// `mi_option_purge_delay` of mimalloc's `mi_option_t`, in milliseconds; -1: never.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
    fn mi_option_set(option: c_int, value: c_long);
}

/// Keeps it for what is allocated next. State lies in large blocks that are folded and rewritten all the time; giving each back to the
/// system and taking it again cleared cost more than half of a join's time. The environment variable MIMALLOC_PURGE_DELAY goes
/// before. Nothing else runs yet.
pub(crate) fn keep_freed_memory() {
    // SAFETY: a function of the allocator that is linked in, with its C signature; it may be called at any time, and no
    // other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, -1) }
    one_arena();
}

/// A smaller budget notices memory that is only half used.
const SMALL_BUDGET: usize = 256 << 20;

/// Gives it back soon: for jobs whose state has a budget of so many bytes, which others may need. A twentieth more time of such a job. With a small
/// budget at once: else what was freed just now, when keys are taken out or put back, is a fifth of it.
pub(crate) fn give_freed_memory_back(budget: usize) {
    const SOON: c_long = 10;
    const AT_ONCE: c_long = 0;
    let is_small = budget < SMALL_BUDGET;
    if is_small {
        small_pages();
    }
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: as above; the option is one word, which threads read whenever they free something.
        unsafe { mi_option_set(PURGE_DELAY, if is_small { AT_ONCE } else { SOON }) }
    }
}

/// No pages of 2 MB from now on, of which a small job uses part: 10 to 30 MB. They make a job whose state is in memory faster.
#[cfg(target_os = "linux")]
fn small_pages() {
    const SET_THP_DISABLE: c_int = 41;
    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
    }
    // SAFETY: a function of the C library with its signature; the option takes one word and three that are zero.
    unsafe {
        prctl(
            SET_THP_DISABLE,
            1 as c_long,
            0 as c_long,
            0 as c_long,
            0 as c_long,
        )
    };
}

#[cfg(not(target_os = "linux"))]
fn small_pages() {}

/// RocksDB allocates with the system's allocator, from few threads: one arena for all of them holds less that is free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn one_arena() {
    const ARENA_MAX: c_int = -8;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: a function of the C library with its signature, and no other thread runs yet.
    unsafe { mallopt(ARENA_MAX, 1) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn one_arena() {}
