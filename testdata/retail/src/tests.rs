//! The counts that `README.md` promises, and the rules of the data that the job relies on.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn all(log: &TillLog) -> impl Iterator<Item = &BasketEvent> {
    log.partitions.iter().flatten()
}

fn seconds(text: &str) -> i64 {
    let time = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
    time.and_utc().timestamp()
}

/// The first upload of every basket.
fn firsts(log: &TillLog) -> BTreeMap<&str, &BasketEvent> {
    let mut firsts: BTreeMap<&str, &BasketEvent> = BTreeMap::new();
    for event in all(log) {
        let first = firsts.entry(&event.basket_id).or_insert(event);
        if event.uploaded_at < first.uploaded_at {
            *first = event;
        }
    }
    firsts
}

#[test]
fn the_counts_are_those_of_the_readme() {
    let log = TillLog::generate(Settings::default());
    let firsts = firsts(&log);
    assert_eq!(all(&log).count(), 22_276);
    assert_eq!(firsts.len(), 22_197);
    assert_eq!(log.prices.len(), 7_075);
    let delay = |event: &BasketEvent| seconds(&event.uploaded_at) - seconds(&event.event_ts);
    let late = firsts.values().filter(|event| delay(event) > 300);
    assert_eq!(late.count(), 586);
    assert!(
        firsts
            .values()
            .all(|event| delay(event) < 120 || delay(event) > 7_200)
    );
    // The middle of a basket's id is the business date.
    let store_days: BTreeSet<&str> = firsts.keys().map(|id| &id[..16]).collect();
    assert_eq!(store_days.len(), 775);
    let of_date = |date: &str| store_days.iter().filter(|id| id.ends_with(date)).count();
    assert_eq!(
        [
            of_date("20260814"),
            of_date("20260815"),
            of_date("20260816")
        ],
        [55, 600, 120]
    );
    let lines: usize = firsts.values().map(|event| event.lines.len()).sum();
    assert!((57_000..60_000).contains(&lines), "{lines} lines");
}

#[test]
fn a_partition_holds_its_tills_in_upload_order_and_all_uploads_are_of_one_day() {
    let log = TillLog::generate(Settings::default());
    let mut partition_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, events) in log.partitions.iter().enumerate() {
        assert!(events.is_sorted_by(|a, b| a.uploaded_at <= b.uploaded_at));
        for event in events {
            assert_eq!(
                *partition_of.entry(&event.till_id).or_insert(number),
                number
            );
            assert!(event.uploaded_at.starts_with("2026-08-15 "), "{event:?}");
        }
    }
}

#[test]
fn tills_charge_the_price_in_force_at_the_sale() {
    let log = TillLog::generate(Settings {
        overtaken_baskets: 5,
        ..Settings::default()
    });
    assert!(
        log.prices
            .is_sorted_by(|a, b| a.effective_from <= b.effective_from)
    );
    let mut versions: BTreeMap<(&str, &str), Vec<&PriceVersion>> = BTreeMap::new();
    for version in &log.prices {
        versions
            .entry((&version.sku, version.country))
            .or_default()
            .push(version);
    }
    for event in all(&log) {
        for line in &event.lines {
            let mine = &versions[&(line.sku.as_str(), &event.store_id[..2])];
            let in_force = mine
                .iter()
                .rfind(|version| version.effective_from <= event.event_ts);
            assert_eq!(
                in_force.unwrap().price_minor,
                line.unit_price_minor,
                "{event:?}"
            );
        }
    }
    let inside = log
        .prices
        .iter()
        .filter(|version| version.effective_from.starts_with("2026-08-15 "));
    assert_eq!(inside.count(), 180);
}

#[test]
fn late_lines_are_overtaken_by_a_price_change_only_where_that_is_asked_for() {
    let overtaken = |log: &TillLog| {
        let changes = |event: &BasketEvent, line: &BasketLine| {
            log.prices.iter().any(|version| {
                version.sku == line.sku
                    && event.store_id.starts_with(version.country)
                    && version.effective_from > event.event_ts
                    && version.effective_from <= event.uploaded_at
            })
        };
        let late = firsts(log)
            .into_values()
            .filter(|event| seconds(&event.uploaded_at) - seconds(&event.event_ts) > 300);
        late.filter(|event| event.lines.iter().any(|line| changes(event, line)))
            .count()
    };
    assert_eq!(overtaken(&TillLog::generate(Settings::default())), 0);
    let some = Settings {
        overtaken_baskets: 12,
        ..Settings::default()
    };
    assert_eq!(overtaken(&TillLog::generate(some)), 12);
}

/// FNV-1a over the lines of some rows.
fn digest<'a>(rows: impl Iterator<Item = &'a (impl Serialize + 'a)>) -> u64 {
    let bytes = rows.flat_map(|row| serde_json::to_vec(row).unwrap());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The files are not in the repository, but figures about them are, in `docs/retail.md`: whoever changes a row measures those
/// again.
#[test]
fn the_files_are_always_the_same() {
    let log = TillLog::generate(Settings::default());
    assert_eq!(digest(all(&log)), 6_879_254_962_653_552_017);
    assert_eq!(digest(log.prices.iter()), 5_617_035_973_501_593_411);
    let other = Settings {
        seed: 1,
        ..Settings::default()
    };
    assert_ne!(log, TillLog::generate(other));
}
