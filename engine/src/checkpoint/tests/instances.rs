//! Several instances of an operator, each of which tells all its keys or what changed whenever it likes.

use super::*;

/// The rows of some keys, as told.
type KeyedRows = BTreeMap<u64, Vec<i64>>;

fn in_span(rows: &KeyedRows, span: KeySpan) -> Vec<(u64, i64)> {
    let mine = rows.iter().filter(|(key, _)| span.contains(**key));
    mine.flat_map(|(key, values)| values.iter().map(|value| (*key, *value)))
        .collect()
}

/// Changes some keys of an instance; gives all that it tells of them, or of all its keys.
fn tell(random: &mut SmallRng, rows: &mut KeyedRows, span: KeySpan, all: bool) -> StateSnapshot {
    let mut changed = KeyedRows::new();
    for _ in 0..random.random_range(0..12) {
        let key = random
            .random_range(0..300u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if !span.contains(key) {
            continue;
        }
        let values = (0..random.random_range(0..3)).map(|_| random.random_range(0..1_000_000));
        let mut values: Vec<i64> = values.collect();
        values.sort_unstable();
        rows.remove(&key);
        if !values.is_empty() {
            rows.insert(key, values.clone());
        }
        changed.insert(key, values);
    }
    match all {
        true => state(None, &in_span(rows, span), 0),
        false => state(
            Some(changed.keys().copied().collect()),
            &in_span(&changed, span),
            0,
        ),
    }
}

fn sums(state: &StateSnapshot) -> Vec<(u64, i64)> {
    rows_of(state).remove("sums").unwrap_or_default()
}

fn check(blobs: &Arc<dyn BlobStore>, rows: &KeyedRows, parallelism: usize) {
    let reader = latest(blobs).unwrap().unwrap();
    for index in 0..parallelism {
        let range = KeyGroupRange::of_subtask(index, parallelism, MAX);
        let mine = reader.read("sum", range, MAX).unwrap();
        assert_eq!(
            sums(&mine),
            in_span(rows, KeySpan::of_key_groups(range, MAX))
        );
    }
}

#[test]
fn instances_tell_all_or_what_changed_each_when_it_likes() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let parallelism = random.random_range(1..=4);
        let ranges = (0..parallelism).map(|of| KeyGroupRange::of_subtask(of, parallelism, MAX));
        let spans: Vec<KeySpan> = ranges
            .map(|range| KeySpan::of_key_groups(range, MAX))
            .collect();
        let blobs = memory_store();
        let mut storage = open(&*blobs, true, 2);
        let mut coordinator = CheckpointCoordinator::new(&spans, CheckpointId(0));
        let mut rows = KeyedRows::new();
        for _ in 0..40 {
            let id = coordinator.trigger().unwrap();
            let mut contents = None;
            for (task, span) in spans.iter().enumerate() {
                let all = random.random_range(0..5) == 0;
                let told = tell(&mut random, &mut rows, *span, all);
                let told = vec![("sum".to_string(), told)];
                contents = coordinator.acknowledge(task, id, told).or(contents);
            }
            let contents = contents.unwrap();
            if random.random_range(0..5) == 0 {
                coordinator.give_back(contents);
                continue;
            }
            let written = storage.write(&*blobs, &contents).unwrap();
            let other = random.random_range(1..=5);
            check(&blobs, &rows, other);
            let reader = latest(&blobs).unwrap().unwrap();
            let segments = &reader.manifest().operators["sum"].segments;
            assert!(segments.first().is_none_or(|oldest| oldest.is_base()));
            for (at, segment) in segments.iter().enumerate() {
                let later: Vec<KeySpan> = segments[at + 1..]
                    .iter()
                    .flat_map(|later| later.whole.clone())
                    .collect();
                let stands = |span: KeySpan| !later.iter().any(|later| later.covers(span));
                let mut buckets = segment.buckets.iter();
                assert!(buckets.all(|bucket| stands(bucket.span)), "{segments:?}");
            }
            assert!(written.full_bytes >= written.bytes);
            if random.random() {
                merge_all(&mut storage, &*blobs);
            }
        }
    }
}

#[test]
fn an_instance_that_has_no_key_left_stays_so_when_segments_are_merged() {
    let halves = [KeySpan::ALL.share(0, 2), KeySpan::ALL.share(1, 2)];
    let (mine, others): (Vec<u64>, Vec<u64>) = (1..20_000u64)
        .map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .partition(|key| halves[0].contains(*key));
    let mine = &mine[..2];
    let blobs = memory_store();
    // One bucket a segment, over the keys of both.
    let storage = CheckpointStorage::open(&*blobs, options(true, 1, "w"), StartedFrom::Nothing);
    let mut storage = storage.unwrap();
    let mut coordinator = CheckpointCoordinator::new(&halves, CheckpointId(0));
    let rows = |keys: &[u64]| keys.iter().map(|key| (*key, 1)).collect::<Vec<_>>();
    let mut step = |first: StateSnapshot, second: StateSnapshot| {
        let id = coordinator.trigger().unwrap();
        coordinator.acknowledge(0, id, vec![("sum".to_string(), first)]);
        let contents = coordinator.acknowledge(1, id, vec![("sum".to_string(), second)]);
        storage.write(&*blobs, &contents.unwrap()).unwrap();
        merge_all(&mut storage, &*blobs);
        let reader = latest(&blobs).unwrap().unwrap();
        reader.manifest().operators["sum"].segments.len()
    };
    let nothing = || state(Some(vec![]), &[], 0);
    step(state(None, &rows(mine), 0), state(None, &rows(&others), 0));
    for segments in 2..=16 {
        let changed = state(Some(mine.to_vec()), &rows(mine), 0);
        assert_eq!(step(changed, nothing()), segments);
    }
    step(state(None, &[], 0), nothing());
    let merged = step(nothing(), nothing());
    assert!(merged < 16, "{merged}");
    let kept: KeyedRows = others.iter().map(|key| (*key, vec![1])).collect();
    check(&blobs, &kept, 2);
}
