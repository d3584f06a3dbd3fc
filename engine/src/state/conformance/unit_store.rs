//! What every lower tier must do: random calls, compared with a model that keeps all values in a map.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::state::{UnitStore, UnitWrite};
use crate::types::ProcessingTime;

type Make<'a> = &'a dyn Fn() -> Box<dyn UnitStore>;

/// Runs the suite over stores that are empty when made.
pub(super) fn conforms(make: Make) {
    a_new_store_holds_nothing(make);
    a_time_without_a_value_leaves_the_value(make);
    values_of_any_length_come_back(make);
    hashes_are_whole_numbers_without_a_sign(make);
    keys_that_are_due_come_by_time_and_in_steps(make);
    stores_do_not_share_keys(make);
    for seed in 0..4 {
        random_calls_do_as_the_model(make, seed);
    }
}

fn write(hash: u64, value: &[u8]) -> UnitWrite<'_> {
    UnitWrite {
        hash,
        value: Some(value),
        expiry: i64::MAX,
        due: i64::MAX,
    }
}

fn get(store: &mut dyn UnitStore, hashes: &[u64], now: i64) -> Vec<Option<Vec<u8>>> {
    let mut values = vec![Some(b"of the call before".to_vec())];
    store.get(hashes, ProcessingTime(now), &mut values).unwrap();
    values
}

fn all(store: &dyn UnitStore) -> BTreeMap<u64, Vec<u8>> {
    let mut values = BTreeMap::new();
    let mut call = |hash, value: &[u8]| {
        assert!(
            values.last_key_value().is_none_or(|(last, _)| *last < hash),
            "ascending"
        );
        values.insert(hash, value.to_vec());
        Ok(())
    };
    store.for_each(&mut call).unwrap();
    values
}

fn a_new_store_holds_nothing(make: Make) {
    let mut store = make();
    assert!(store.is_empty());
    assert_eq!(store.earliest_due(), None);
    assert_eq!(get(store.as_mut(), &[1, 2], 0), [None, None]);
    assert_eq!(get(store.as_mut(), &[], 0), [] as [Option<Vec<u8>>; 0]);
    store.write(&[]).unwrap();
    store.remove(&[7]).unwrap();
    store.forget_due(&[(7, 100)]).unwrap();
    assert!(store.take_due(i64::MAX, 10).unwrap().is_empty());
    assert!(store.is_empty() && all(store.as_ref()).is_empty());
}

fn a_time_without_a_value_leaves_the_value(make: Make) {
    let mut store = make();
    store.write(&[write(5, b"five")]).unwrap();
    let time = UnitWrite {
        hash: 5,
        value: None,
        expiry: i64::MAX,
        due: 30,
    };
    store.write(&[time]).unwrap();
    assert_eq!(get(store.as_mut(), &[5], 0), [Some(b"five".to_vec())]);
    assert_eq!(store.earliest_due(), Some(30));
}

fn values_of_any_length_come_back(make: Make) {
    let mut store = make();
    let long = vec![7; 3 << 20];
    store
        .write(&[write(1, b""), write(2, &long), write(3, b"x")])
        .unwrap();
    assert!(!store.is_empty());
    let values = get(store.as_mut(), &[1, 2, 3], 0);
    assert_eq!(values, [Some(Vec::new()), Some(long), Some(b"x".to_vec())]);
    store.remove(&[1, 2, 3]).unwrap();
    assert!(store.is_empty());
}

fn hashes_are_whole_numbers_without_a_sign(make: Make) {
    let mut store = make();
    let hashes = [0, 1, 255, 256, (1 << 63) - 1, 1 << 63, u64::MAX];
    let writes: Vec<UnitWrite> = hashes.iter().map(|hash| write(*hash, b"v")).collect();
    store.write(&writes).unwrap();
    assert_eq!(all(store.as_ref()).into_keys().collect::<Vec<_>>(), hashes);
    let mut some = Vec::new();
    let mut call = |hash, _: &[u8]| {
        some.push(hash);
        Ok(())
    };
    store.for_range(255..=1 << 63, &mut call).unwrap();
    assert_eq!(some, [255, 256, (1 << 63) - 1, 1 << 63]);
}

fn keys_that_are_due_come_by_time_and_in_steps(make: Make) {
    let mut store = make();
    let due = |hash, due| UnitWrite {
        due,
        ..write(hash, b"v")
    };
    let writes = [
        due(1, 50),
        due(2, -50),
        due(3, 50),
        due(4, i64::MAX),
        due(5, 10),
    ];
    store.write(&writes).unwrap();
    assert_eq!(store.earliest_due(), Some(-50));
    assert!(store.take_due(-51, 10).unwrap().is_empty());
    assert_eq!(store.take_due(50, 2).unwrap(), [2, 5]);
    assert_eq!(store.earliest_due(), Some(50));
    store.forget_due(&[(1, 50), (9, 50)]).unwrap();
    assert_eq!(store.take_due(50, 10).unwrap(), [3]);
    assert_eq!(store.earliest_due(), None);
    store.write(&[due(1, 7)]).unwrap();
    assert_eq!(store.earliest_due(), Some(7));
    store.forget_due(&[(1, 7)]).unwrap();
    assert_eq!(store.earliest_due(), None);
    assert_eq!(all(store.as_ref()).len(), 5);
}

fn stores_do_not_share_keys(make: Make) {
    let (mut first, second) = (make(), make());
    let mut second = second;
    first.write(&[write(1, b"first")]).unwrap();
    second.write(&[write(1, b"second")]).unwrap();
    assert_eq!(get(first.as_mut(), &[1], 0), [Some(b"first".to_vec())]);
    drop(first);
    assert_eq!(get(second.as_mut(), &[1], 0), [Some(b"second".to_vec())]);
    assert!(make().is_empty());
}

/// What a store must answer.
#[derive(Default)]
struct Model {
    values: BTreeMap<u64, (Vec<u8>, i64)>,
    due: BTreeSet<(i64, u64)>,
    now: i64,
}

impl Model {
    fn live(&self, hash: u64) -> Option<Vec<u8>> {
        let (value, expiry) = self.values.get(&hash)?;
        (*expiry > self.now).then(|| value.clone())
    }

    fn take_due(&mut self, time: i64, limit: usize) -> Vec<u64> {
        let ready: Vec<(i64, u64)> = self
            .due
            .range(..=(time, u64::MAX))
            .take(limit)
            .copied()
            .collect();
        self.due.retain(|entry| !ready.contains(entry));
        ready.into_iter().map(|(_, hash)| hash).collect()
    }
}

/// A few of 500 hashes, ascending and each once.
fn some_hashes(random: &mut SmallRng) -> Vec<u64> {
    let count = random.random_range(0..80);
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hashes: BTreeSet<u64> = (0..count)
        .map(|_| spread(random.random_range(0..500)))
        .collect();
    hashes.into_iter().collect()
}

fn random_calls_do_as_the_model(make: Make, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut store = make();
    // Time goes on from one store to the next: they may have one clock.
    let mut model = Model {
        now: seed as i64 * 1_000_000,
        ..Model::default()
    };
    for step in 0..400 {
        let hashes = some_hashes(&mut random);
        match random.random_range(0..10) {
            0..=3 => write_both(store.as_mut(), &mut model, &hashes, &mut random),
            4..=6 => {
                model.now += random.random_range(0..20);
                let expected: Vec<_> = hashes.iter().map(|hash| model.live(*hash)).collect();
                assert_eq!(
                    get(store.as_mut(), &hashes, model.now),
                    expected,
                    "seed {seed}, step {step}"
                );
            }
            7 => {
                store.remove(&hashes).unwrap();
                hashes
                    .iter()
                    .for_each(|hash| drop(model.values.remove(hash)));
            }
            8 => {
                let (time, limit) = (random.random_range(0..2000), random.random_range(1..50));
                let taken = store.take_due(time, limit).unwrap();
                assert_eq!(
                    taken,
                    model.take_due(time, limit),
                    "seed {seed}, step {step}"
                );
            }
            _ => forget_both(store.as_mut(), &mut model, &mut random),
        }
        let earliest = model.due.first().map(|(time, _)| *time);
        assert_eq!(store.earliest_due(), earliest, "seed {seed}, step {step}");
    }
    let live = model
        .values
        .keys()
        .filter_map(|hash| Some((*hash, model.live(*hash)?)));
    assert_eq!(all(store.as_ref()), live.collect());
    assert!(
        store
            .metrics()
            .writes
            .load(std::sync::atomic::Ordering::Relaxed)
            > 0
    );
}

fn write_both(store: &mut dyn UnitStore, model: &mut Model, hashes: &[u64], random: &mut SmallRng) {
    // Long enough that write buffers fill up.
    let values: Vec<Vec<u8>> = hashes
        .iter()
        .map(|_| vec![random.random(); random.random_range(0..600)])
        .collect();
    let writes: Vec<UnitWrite> = std::iter::zip(hashes, &values)
        .map(|(hash, value)| UnitWrite {
            hash: *hash,
            value: random.random_bool(0.9).then_some(value.as_slice()),
            expiry: match random.random_bool(0.5) {
                true => i64::MAX,
                false => model.now + random.random_range(-5..300),
            },
            due: match random.random_bool(0.5) {
                true => i64::MAX,
                false => random.random_range(0..2000),
            },
        })
        .collect();
    store.write(&writes).unwrap();
    for write in writes {
        if let Some(value) = write.value {
            model
                .values
                .insert(write.hash, (value.to_vec(), write.expiry));
        }
        if write.due != i64::MAX {
            model.due.insert((write.due, write.hash));
        }
    }
}

fn forget_both(store: &mut dyn UnitStore, model: &mut Model, random: &mut SmallRng) {
    let forgotten: Vec<(i64, u64)> = model
        .due
        .iter()
        .copied()
        .filter(|_| random.random_bool(0.2))
        .collect();
    let keys: Vec<(u64, i64)> = forgotten.iter().map(|(due, hash)| (*hash, *due)).collect();
    store.forget_due(&keys).unwrap();
    model.due.retain(|entry| !forgotten.contains(entry));
}
