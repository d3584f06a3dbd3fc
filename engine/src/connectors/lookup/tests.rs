use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};

use super::*;

/// Answers a key `k` with `k` rows, and counts how often it is asked for one.
struct Counting(Arc<AtomicUsize>);

impl LookupSource for Counting {
    fn function(&self) -> Result<Box<dyn LookupFunction>> {
        Ok(Box::new(Counting(self.0.clone())))
    }
}

impl LookupFunction for Counting {
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows> {
        let keys = request.keys[0].as_primitive::<Int64Type>();
        self.0.fetch_add(keys.len(), Ordering::Relaxed);
        let (mut of, mut values) = (Vec::new(), Vec::new());
        for (index, key) in keys.values().iter().enumerate() {
            for row in 0..*key {
                of.push(index as u32);
                values.push(key * 100 + row);
            }
        }
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        let rows = RecordBatch::try_from_iter([("v", values)])?;
        Ok(LookupRows { rows, of })
    }
}

fn cached(options: PartialCacheOptions) -> (Box<dyn LookupFunction>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let source = Arc::new(Counting(asked.clone()));
    let source = with_partial_cache(source, &[DataType::Int64], options).unwrap();
    (source.function().unwrap(), asked)
}

const UNBOUNDED: PartialCacheOptions = PartialCacheOptions {
    max_rows: None,
    expire_after_write: None,
    expire_after_access: None,
    cache_missing_key: true,
};

fn ask(function: &mut dyn LookupFunction, keys: &[i64], now: i64) -> (Vec<u32>, Vec<i64>) {
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    let found = function
        .lookup(&LookupRequest {
            keys: &[keys],
            now: ProcessingTime(now),
        })
        .unwrap();
    let values = found.rows.column(0).as_primitive::<Int64Type>();
    (found.of, values.values().to_vec())
}

#[test]
fn a_partial_cache_asks_once_for_each_key() {
    let (mut function, asked) = cached(UNBOUNDED);
    let answer = (vec![0, 1, 1, 3], vec![100, 200, 201, 100]);
    assert_eq!(ask(&mut *function, &[1, 2, 0, 1], 0), answer);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(ask(&mut *function, &[1, 2, 0, 1], 1), answer);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(ask(&mut *function, &[], 1), (vec![], vec![]));
}

#[test]
fn what_is_too_old_or_too_much_is_asked_for_again() {
    let (mut function, asked) = cached(PartialCacheOptions {
        max_rows: Some(4),
        expire_after_write: Some(Duration::from_millis(100)),
        cache_missing_key: false,
        ..UNBOUNDED
    });
    let mut count = |keys: &[i64], now: i64| {
        let before = asked.load(Ordering::Relaxed);
        ask(&mut *function, keys, now);
        asked.load(Ordering::Relaxed) - before
    };
    assert_eq!(count(&[1, 2], 0), 2);
    assert_eq!(count(&[1, 2], 99), 0);
    assert_eq!(count(&[1, 2], 100), 2, "expired");
    assert_eq!(count(&[0], 100) + count(&[0], 100), 2, "missing");
    assert_eq!(count(&[1], 101), 0);
    assert_eq!(count(&[3], 102), 1, "2 goes, which was not asked for since");
    assert_eq!(count(&[1, 3], 103), 0);
    assert_eq!(count(&[2], 103), 1);
}

#[test]
fn functions_that_block_answer_on_threads() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut function = on_threads(Arc::new(Counting(asked.clone())));
    let mut start = |key: i64| {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![key]));
        let request = LookupRequest {
            keys: &[keys],
            now: ProcessingTime(0),
        };
        function.start(&request).unwrap()
    };
    let handles: Vec<_> = (0..20).map(&mut start).collect();
    for (key, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait().unwrap().of.len(), key);
    }
    let mut handle = start(3);
    let found = loop {
        match handle.poll() {
            Some(found) => break found.unwrap(),
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(found.of, [0, 0, 0]);
    assert_eq!(asked.load(Ordering::Relaxed), 21);
}
