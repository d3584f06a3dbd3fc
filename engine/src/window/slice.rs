//! Slices: the pieces of time that windows share, so that a row is folded once however many windows it belongs to.
//!
//! A slice is named by its end. TUMBLE has one slice a window; HOP is cut by the greatest common divisor of size and slide,
//! CUMULATE by its step. A window is the union of whole slices, and the windows of a slice are known from its end alone. All
//! times are in the window's own clock, see [`super::WindowClock`].

use super::clock::bounds;
use super::divisor::Divisor;
use super::{WindowKind, WindowSpec};
use crate::error::{Error, Result};

/// Beyond this distance from 1970 times are taken as if they were at it: so far away nobody counts milliseconds.
const FAR_MS: i64 = 1 << 61;

/// Cuts time into slices and knows the windows made of them.
#[derive(Debug, Clone, Copy)]
pub struct SliceAssigner {
    slice: Divisor,
    /// Distance of window starts: the slide, or the maximum size of CUMULATE.
    stride: Divisor,
    /// Length of a window, the longest of CUMULATE.
    size: i64,
    offset: i64,
    cumulative: bool,
}

/// The slices of the rows of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slices {
    /// All rows lie in the slice with this end.
    One(i64),
    /// The slice end of each row.
    Each(Vec<i64>),
}

impl SliceAssigner {
    /// The slices of TUMBLE, HOP or CUMULATE. SESSION has none and fails, as do lengths that are not positive.
    pub fn new(spec: &WindowSpec) -> Result<Self> {
        let (slice, stride, size, cumulative) = match spec.kind {
            WindowKind::Tumble { size_ms } => (size_ms, size_ms, size_ms, false),
            WindowKind::Hop { slide_ms, size_ms } => (
                greatest_common_divisor(slide_ms, size_ms),
                slide_ms,
                size_ms,
                false,
            ),
            WindowKind::Cumulate {
                step_ms,
                max_size_ms,
            } => (step_ms, max_size_ms, max_size_ms, true),
            WindowKind::Session { .. } => {
                return Err(Error::internal("a session is not made of slices"));
            }
        };
        let lengths = [slice, stride, size];
        if lengths.iter().any(|length| *length <= 0) || size % slice != 0 {
            return Err(Error::user(format!("{} is no window", spec.kind)).hint(
                "lengths must be positive; a size must be an integral multiple of the step",
            ));
        }
        Ok(SliceAssigner {
            slice: Divisor::new(slice),
            stride: Divisor::new(stride),
            size,
            offset: spec.offset_ms.rem_euclid(stride),
            cumulative,
        })
    }

    /// Length of a slice.
    pub fn slice_ms(&self) -> i64 {
        self.slice.value()
    }

    /// Distance of window starts.
    pub fn stride_ms(&self) -> i64 {
        self.stride.value()
    }

    /// How many slices a (longest) window has.
    pub fn slices_per_window(&self) -> usize {
        (self.size / self.slice_ms()) as usize
    }

    /// Whether windows grow by steps from a common start.
    pub fn is_cumulative(&self) -> bool {
        self.cumulative
    }

    /// Whether a window is one slice.
    pub fn is_tumbling(&self) -> bool {
        self.size == self.slice_ms() && self.stride.value() == self.size
    }

    /// The end of the slice of a time.
    #[inline]
    pub fn slice_end(&self, time: i64) -> i64 {
        let time = time.clamp(-FAR_MS, FAR_MS);
        self.slice.floor(time - self.offset) + self.offset + self.slice_ms()
    }

    /// The slices of all rows of a batch. Where the first and the last time share one, nothing is computed by row.
    pub fn assign(&self, times: &[i64]) -> Slices {
        let Some((first, last)) = bounds(times) else {
            return Slices::Each(Vec::new());
        };
        let end = self.slice_end(first);
        if end == self.slice_end(last) {
            return Slices::One(end);
        }
        Slices::Each(times.iter().map(|time| self.slice_end(*time)).collect())
    }

    /// Whether the slice belongs to any window; where the slide is longer than the size there are gaps.
    pub fn is_in_window(&self, slice_end: i64) -> bool {
        self.cumulative || self.last_window_end(slice_end) >= slice_end
    }

    /// The end of the first window that the slice belongs to.
    pub fn first_window_end(&self, slice_end: i64) -> i64 {
        if self.cumulative {
            return slice_end;
        }
        // The smallest window start that is not before slice end - size.
        let least = slice_end - self.size;
        let floor = self.stride.floor(least - self.offset) + self.offset;
        let start = if floor < least {
            floor + self.stride.value()
        } else {
            floor
        };
        start + self.size
    }

    /// The end of the last window that the slice belongs to: when it has fired, rows for the slice are late.
    pub fn last_window_end(&self, slice_end: i64) -> i64 {
        let slice_start = slice_end - self.slice_ms();
        self.stride.floor(slice_start - self.offset) + self.offset + self.size
    }

    /// Of the windows that the slice belongs to, the end of the one after the window that ends at `window_end`; `None` after
    /// the last.
    pub fn next_window_end(&self, slice_end: i64, window_end: i64) -> Option<i64> {
        let step = if self.cumulative {
            self.slice_ms()
        } else {
            self.stride.value()
        };
        let next = window_end + step;
        (next <= self.last_window_end(slice_end)).then_some(next)
    }

    /// The start of the window that ends at `window_end`.
    pub fn window_start(&self, window_end: i64) -> i64 {
        if self.cumulative {
            self.stride.floor(window_end - 1 - self.offset) + self.offset
        } else {
            window_end - self.size
        }
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::WindowTime;

    fn assigner(kind: WindowKind, offset_ms: i64) -> SliceAssigner {
        SliceAssigner::new(&WindowSpec {
            kind,
            offset_ms,
            time: WindowTime::EventTimestamp,
        })
        .unwrap()
    }

    fn windows_of(assigner: &SliceAssigner, time: i64) -> Vec<(i64, i64)> {
        let slice = assigner.slice_end(time);
        if !assigner.is_in_window(slice) {
            return Vec::new();
        }
        let mut windows = Vec::new();
        let mut end = Some(assigner.first_window_end(slice));
        while let Some(window_end) = end {
            windows.push((assigner.window_start(window_end), window_end));
            end = assigner.next_window_end(slice, window_end);
        }
        windows
    }

    /// All windows by trying every start.
    fn slow_windows_of(kind: WindowKind, offset: i64, time: i64) -> Vec<(i64, i64)> {
        let aligned = |unit: i64| {
            (time - 100..=time).filter(move |start| (start - offset).rem_euclid(unit) == 0)
        };
        match kind {
            WindowKind::Tumble { size_ms } => aligned(size_ms)
                .map(|start| (start, start + size_ms))
                .filter(|(_, end)| time < *end)
                .collect(),
            WindowKind::Hop { slide_ms, size_ms } => aligned(slide_ms)
                .map(|start| (start, start + size_ms))
                .filter(|(_, end)| time < *end)
                .collect(),
            WindowKind::Cumulate {
                step_ms,
                max_size_ms,
            } => aligned(max_size_ms)
                .filter(|start| time < start + max_size_ms)
                .flat_map(|start| {
                    (1..=max_size_ms / step_ms).map(move |n| (start, start + n * step_ms))
                })
                .filter(|(_, end)| time < *end)
                .collect(),
            WindowKind::Session { .. } => Vec::new(),
        }
    }

    #[test]
    fn every_time_gets_the_windows_it_lies_in() {
        let kinds = [
            WindowKind::Tumble { size_ms: 10 },
            WindowKind::Hop {
                slide_ms: 5,
                size_ms: 20,
            },
            WindowKind::Hop {
                slide_ms: 4,
                size_ms: 10,
            },
            WindowKind::Hop {
                slide_ms: 10,
                size_ms: 5,
            },
            WindowKind::Hop {
                slide_ms: 10,
                size_ms: 10,
            },
            WindowKind::Cumulate {
                step_ms: 2,
                max_size_ms: 6,
            },
        ];
        for kind in kinds {
            for offset in [0, 3, -3, 17] {
                let assigner = assigner(kind, offset);
                for time in -40..40 {
                    let expected = slow_windows_of(kind, offset, time);
                    assert_eq!(
                        windows_of(&assigner, time),
                        expected,
                        "{kind} + {offset} at {time}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_batch_within_a_slice_is_recognised() {
        let tumble = assigner(WindowKind::Tumble { size_ms: 10 }, 0);
        assert_eq!(tumble.assign(&[-1, -10, -5]), Slices::One(0));
        assert_eq!(tumble.assign(&[-1, 0]), Slices::Each(vec![0, 10]));
        assert_eq!(tumble.assign(&[]), Slices::Each(vec![]));
        assert!(tumble.slice_end(i64::MIN) < tumble.slice_end(i64::MAX));
    }
}
