//! Uploads: the baskets with their numbers, dealt to partitions in the order in which they came, some of them twice.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::PARTITIONS;
use crate::random::Random;
use crate::sales::{BasketLine, Sale};
use crate::stores::Store;
use crate::time::{self, DAY, HOUR, MINUTE, Seconds, UPLOAD_DAY};

/// Baskets that are sent twice, and how many of them were late.
const SENT_AGAIN: usize = 79;
const LATE_AND_SENT_AGAIN: usize = 9;

/// An upload of a till: a line of `pos/part-N.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BasketEvent {
    /// The upload: a copy has another one.
    pub event_id: String,
    /// The basket: store, business date, number. A copy has the same.
    pub basket_id: String,
    /// Country and number: `SG-0042`.
    pub store_id: String,
    /// The till, by which uploads are dealt to partitions.
    pub till_id: String,
    /// The currency of all amounts.
    pub currency: &'static str,
    /// When the till sold it, UTC.
    pub event_ts: String,
    /// When it came, UTC.
    pub uploaded_at: String,
    /// What was sold.
    pub lines: Vec<BasketLine>,
}

/// The uploads of the day by partition, in their order.
pub(crate) fn draw(random: &mut Random, stores: &[Store], sales: &[Sale]) -> Vec<Vec<BasketEvent>> {
    let copies = sent_again(random, sales);
    let firsts = sales
        .iter()
        .enumerate()
        .map(|(index, sale)| (sale.visit.uploaded, index));
    let mut uploads: Vec<(Seconds, usize)> = firsts.chain(copies).collect();
    uploads.sort_unstable();
    let ids = basket_ids(stores, sales);
    let mut partitions = vec![Vec::new(); PARTITIONS];
    for (number, (uploaded, index)) in (1..).zip(uploads) {
        let (sale, store) = (&sales[index], &stores[sales[index].visit.store]);
        let (till_id, partition) = store.tills[sale.till].clone();
        partitions[partition].push(BasketEvent {
            event_id: format!("EV-{number:06}"),
            basket_id: ids[index].clone(),
            store_id: store.id.clone(),
            till_id,
            currency: store.country().currency,
            event_ts: time::text(sale.visit.sold),
            uploaded_at: time::text(uploaded),
            lines: sale.lines.clone(),
        });
    }
    partitions
}

/// When which sales are sent again: half a minute to three hours behind the first upload.
fn sent_again(random: &mut Random, sales: &[Sale]) -> Vec<(Seconds, usize)> {
    let end = UPLOAD_DAY + 24 * HOUR - 1;
    let mut order: Vec<usize> = (0..sales.len()).collect();
    random.shuffle(&mut order);
    let (late, on_time): (Vec<usize>, Vec<usize>) = order
        .into_iter()
        .partition(|sale| sales[*sale].visit.is_late());
    let on_time = on_time
        .into_iter()
        .filter(|sale| sales[*sale].visit.uploaded + MINUTE < end);
    let copied = on_time
        .take(SENT_AGAIN - LATE_AND_SENT_AGAIN)
        .chain(late.into_iter().take(LATE_AND_SENT_AGAIN));
    let mut again = |sale: usize| {
        let uploaded = sales[sale].visit.uploaded + random.between(30, 3 * HOUR);
        (uploaded.min(end), sale)
    };
    copied.map(&mut again).collect()
}

/// `GB-0044-20260814-00045`: the baskets of a store and business date are numbered in the order of their sales.
fn basket_ids(stores: &[Store], sales: &[Sale]) -> Vec<String> {
    let mut order: Vec<usize> = (0..sales.len()).collect();
    order.sort_by_key(|index| (sales[*index].visit.sold, *index));
    let mut ids = vec![String::new(); sales.len()];
    let mut numbers: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    for index in order {
        let visit = &sales[index].visit;
        let store = &stores[visit.store];
        let day = store.business_day(visit.sold);
        let number = numbers.entry((visit.store, day)).or_default();
        *number += 1;
        let date = time::compact_date(day * DAY);
        ids[index] = format!("{}-{date}-{number:05}", store.id);
    }
    ids
}
