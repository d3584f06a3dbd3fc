//! Sales: when baskets are sold and uploaded for the first time, and what is in them.

use serde::Serialize;

use crate::prices::{PriceList, sku};
use crate::random::Random;
use crate::stores::Store;
use crate::time::{HOUR, MINUTE, Seconds, UPLOAD_DAY};

/// Baskets uploaded within two minutes of the sale.
const ON_TIME: usize = 22_197 - LATE;
/// Baskets uploaded more than two hours behind the sale.
const LATE: usize = 586;
/// Of those, baskets of the business date before the upload day, and of how many stores.
const LATE_OF_THE_DAY_BEFORE: usize = 80;
const STORES_OF_THE_DAY_BEFORE: usize = 55;

/// Tills that were offline come back between 06:00 and 21:00 UTC.
const LATE_UPLOADS: (Seconds, Seconds) = (UPLOAD_DAY + 6 * HOUR, UPLOAD_DAY + 21 * HOUR);
/// The least time between a sale and a late upload.
const LEAST_DELAY: Seconds = 125 * MINUTE;

/// A line of a basket; amounts are in minor units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BasketLine {
    /// From 1 on.
    pub line_no: i32,
    /// The article.
    pub sku: String,
    /// How many.
    pub qty: i32,
    /// What the till charged for one.
    pub unit_price_minor: i64,
    /// What was taken off the line.
    pub discount_minor: i64,
    /// Why.
    pub promo_id: Option<String>,
}

/// Who sold when, and when it was known.
pub(crate) struct Visit {
    /// Index of the store.
    pub(crate) store: usize,
    pub(crate) sold: Seconds,
    /// For the first time.
    pub(crate) uploaded: Seconds,
}

/// A basket before it has a number.
pub(crate) struct Sale {
    pub(crate) visit: Visit,
    /// Index among the tills of its store.
    pub(crate) till: usize,
    pub(crate) lines: Vec<BasketLine>,
}

impl Visit {
    pub(crate) fn is_late(&self) -> bool {
        self.uploaded - self.sold >= LEAST_DELAY
    }
}

/// All sales of the day; `overtaken` of the late ones get a line whose price changes before the upload.
pub(crate) fn draw(
    random: &mut Random,
    stores: &[Store],
    prices: &PriceList,
    overtaken: usize,
) -> Vec<Sale> {
    let mut visits = on_time(random, stores);
    visits.extend(late(random, stores));
    let mut left = overtaken;
    let sale = |visit: Visit| {
        let country = stores[visit.store].country;
        let mut lines = draw_lines(random, prices, country, &visit);
        if left > 0 && visit.is_late() && overtake(random, prices, country, &visit, &mut lines) {
            left -= 1;
        }
        let till = random.below(stores[visit.store].tills.len());
        Sale { visit, till, lines }
    };
    visits.into_iter().map(sale).collect()
}

/// Sales that are uploaded at once: every store has one of the upload day's business date, those that never close have one to
/// three of the date behind it.
fn on_time(random: &mut Random, stores: &[Store]) -> Vec<Visit> {
    let mut sold: Vec<(usize, Seconds)> = Vec::new();
    for (index, store) in stores.iter().enumerate() {
        sold.push((index, sale_of_the_day(random, store)));
        if store.is_always_open {
            let from = store.midnight(1) + MINUTE;
            for _ in 0..random.between(1, 3) {
                sold.push((
                    index,
                    random.between(from, UPLOAD_DAY + 24 * HOUR - 3 * MINUTE),
                ));
            }
        }
    }
    while sold.len() < ON_TIME {
        let store = random.below(stores.len());
        sold.push((store, sale_of_the_day(random, &stores[store])));
    }
    let visit = |(store, sold)| Visit {
        store,
        sold,
        uploaded: sold + random.between(2, 118),
    };
    sold.into_iter().map(visit).collect()
}

/// A time of the upload day, UTC, that is of its business date at the store.
fn sale_of_the_day(random: &mut Random, store: &Store) -> Seconds {
    loop {
        let hour = random.weighted(store.hours()) as i64;
        let sold = store.midnight(0) + hour * HOUR + random.between(0, HOUR - 1);
        if (UPLOAD_DAY + 10..UPLOAD_DAY + 24 * HOUR - 3 * MINUTE).contains(&sold) {
            return sold;
        }
    }
}

/// Sales of tills that were offline: some of the evening before, the others of the upload day.
fn late(random: &mut Random, stores: &[Store]) -> Vec<Visit> {
    let mut order: Vec<usize> = (0..stores.len()).collect();
    random.shuffle(&mut order);
    let mut late: Vec<Visit> = Vec::new();
    for number in 0..LATE_OF_THE_DAY_BEFORE {
        let store = order[number % STORES_OF_THE_DAY_BEFORE];
        let noon = stores[store].midnight(-1) + 12 * HOUR;
        let sold = random.between(noon, noon + 9 * HOUR);
        let online = LATE_UPLOADS.0 + random.between(0, 4 * HOUR);
        let uploaded = online.max(sold + LEAST_DELAY);
        late.push(Visit {
            store,
            sold,
            uploaded,
        });
    }
    while late.len() < LATE {
        let store = random.below(stores.len());
        let sold = sale_of_the_day(random, &stores[store]);
        let hours = 1 + random.below(5) * random.below(5) / 4;
        let uploaded = sold + LEAST_DELAY + random.between(0, hours as i64 * HOUR);
        if (LATE_UPLOADS.0..=LATE_UPLOADS.1).contains(&uploaded) {
            late.push(Visit {
                store,
                sold,
                uploaded,
            });
        }
    }
    late
}

/// One to seven lines of different articles at the prices of the sale. No price changes between the sale and the upload.
fn draw_lines(
    random: &mut Random,
    prices: &PriceList,
    country: usize,
    visit: &Visit,
) -> Vec<BasketLine> {
    let wanted = 1 + random.weighted(&[29, 27, 19, 11, 7, 4, 3]);
    let mut articles: Vec<usize> = Vec::new();
    while articles.len() < wanted {
        let article = prices.draw_article(random);
        if !articles.contains(&article)
            && !prices.changes_between(country, article, visit.sold, visit.uploaded)
        {
            articles.push(article);
        }
    }
    let lines = (1..).zip(articles);
    lines
        .map(|(line_no, article)| {
            draw_line(
                random,
                line_no,
                article,
                prices.price_at(country, article, visit.sold),
            )
        })
        .collect()
}

fn draw_line(
    random: &mut Random,
    line_no: i32,
    article: usize,
    unit_price_minor: i64,
) -> BasketLine {
    let qty = 1 + random.weighted(&[80, 14, 4, 2]) as i32;
    let is_promoted = random.percent(12);
    let percent = 5 * random.between(1, 6);
    BasketLine {
        line_no,
        sku: sku(article),
        qty,
        unit_price_minor,
        discount_minor: if is_promoted {
            i64::from(qty) * unit_price_minor * percent / 100
        } else {
            0
        },
        promo_id: is_promoted.then(|| format!("PROMO-{percent:02}")),
    }
}

/// Puts into the first line an article whose price changes behind the sale and an hour before the upload at the latest.
/// False where there is none.
fn overtake(
    random: &mut Random,
    prices: &PriceList,
    country: usize,
    visit: &Visit,
    lines: &mut [BasketLine],
) -> bool {
    let mut changing = prices.changing_between(country, visit.sold, visit.uploaded - HOUR);
    changing.retain(|article| lines.iter().all(|line| line.sku != sku(*article)));
    if changing.is_empty() {
        return false;
    }
    let article = changing[random.below(changing.len())];
    lines[0] = draw_line(
        random,
        1,
        article,
        prices.price_at(country, article, visit.sold),
    );
    true
}
