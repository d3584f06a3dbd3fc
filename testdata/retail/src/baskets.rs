//! Sales and their uploads: when baskets are sold, what is in them, and when the till sends them, how often.

use serde::Serialize;

use crate::PARTITIONS;
use crate::prices::{PriceList, sku};
use crate::random::Random;
use crate::stores::Store;
use crate::time::{self, HOUR, MINUTE, Seconds, UPLOAD_DAY};

/// Baskets uploaded within two minutes of the sale.
const ON_TIME: usize = 22_197 - LATE;
/// Baskets uploaded more than two hours behind the sale.
const LATE: usize = 586;
/// Of those, baskets of the business date before the upload day, and of how many stores.
const LATE_OF_THE_DAY_BEFORE: usize = 80;
const STORES_OF_THE_DAY_BEFORE: usize = 55;
/// Baskets that are sent twice, and how many of them were late.
const SENT_AGAIN: usize = 79;
const LATE_AND_SENT_AGAIN: usize = 9;

/// Tills that were offline come back between 06:00 and 21:00 UTC.
const LATE_UPLOADS: (Seconds, Seconds) = (UPLOAD_DAY + 6 * HOUR, UPLOAD_DAY + 21 * HOUR);
/// The least time between a sale and a late upload.
const LEAST_DELAY: Seconds = 125 * MINUTE;

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

/// A basket before it has a number.
struct Sale {
    store: usize,
    till: usize,
    sold: Seconds,
    uploaded: Seconds,
    lines: Vec<BasketLine>,
}

impl Sale {
    fn is_late(&self) -> bool {
        self.uploaded - self.sold >= LEAST_DELAY
    }
}

/// The uploads of the day by partition, in their order.
pub(crate) fn draw(
    random: &mut Random,
    stores: &[Store],
    prices: &PriceList,
    overtaken: usize,
) -> Vec<Vec<BasketEvent>> {
    let mut times = on_time(random, stores);
    times.extend(late(random, stores));
    let mut overtaken = overtaken;
    let sales = times.into_iter().map(|(store, sold, uploaded)| {
        let country = stores[store].country;
        let mut lines = draw_lines(random, prices, country, sold, uploaded);
        if overtaken > 0 && overtake(random, prices, country, sold, uploaded, &mut lines) {
            overtaken -= 1;
        }
        let till = random.below(stores[store].tills.len());
        Sale {
            store,
            till,
            sold,
            uploaded,
            lines,
        }
    });
    let sales: Vec<Sale> = sales.collect();
    let copies = sent_again(random, &sales);
    events(stores, &sales, copies)
}

type Times = (usize, Seconds, Seconds);

/// Sales that are uploaded at once: every store has one of the upload day's business date, those that never close have one to
/// three of the date behind it.
fn on_time(random: &mut Random, stores: &[Store]) -> Vec<Times> {
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
    let upload = |(store, sold)| (store, sold, sold + random.between(2, 118));
    sold.into_iter().map(upload).collect()
}

/// A time of the upload day, UTC, that is of its business date at the store.
fn sale_of_the_day(random: &mut Random, store: &Store) -> Seconds {
    loop {
        let hour = random.weighted(store.hours()) as i64;
        let sold = store.midnight(0) + hour * HOUR + random.between(0, HOUR - 1);
        if sold >= UPLOAD_DAY + 10 && sold < UPLOAD_DAY + 24 * HOUR - 3 * MINUTE {
            return sold;
        }
    }
}

/// Sales of tills that were offline: some of the evening before, the others of the upload day.
fn late(random: &mut Random, stores: &[Store]) -> Vec<Times> {
    let mut order: Vec<usize> = (0..stores.len()).collect();
    random.shuffle(&mut order);
    let mut late: Vec<Times> = Vec::new();
    for number in 0..LATE_OF_THE_DAY_BEFORE {
        let store = order[number % STORES_OF_THE_DAY_BEFORE];
        let noon = stores[store].midnight(-1) + 12 * HOUR;
        let sold = random.between(noon, noon + 9 * HOUR);
        let first = LATE_UPLOADS.0 + random.between(0, 4 * HOUR);
        late.push((store, sold, first.max(sold + LEAST_DELAY)));
    }
    while late.len() < LATE {
        let store = random.below(stores.len());
        let sold = sale_of_the_day(random, &stores[store]);
        let hours = 1 + random.below(5) * random.below(5) / 4;
        let uploaded = sold + LEAST_DELAY + random.between(0, hours as i64 * HOUR);
        if uploaded >= LATE_UPLOADS.0 && uploaded <= LATE_UPLOADS.1 {
            late.push((store, sold, uploaded));
        }
    }
    late
}

/// One to seven lines of different articles at the prices of the sale. No price changes between the sale and the upload.
fn draw_lines(
    random: &mut Random,
    prices: &PriceList,
    country: usize,
    sold: Seconds,
    uploaded: Seconds,
) -> Vec<BasketLine> {
    let wanted = 1 + random.weighted(&[29, 27, 19, 11, 7, 4, 3]);
    let mut articles: Vec<usize> = Vec::new();
    while articles.len() < wanted {
        let article = prices.draw_article(random);
        if !articles.contains(&article) && !prices.changes_between(country, article, sold, uploaded)
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
                prices.price_at(country, article, sold),
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

/// Puts an article into the first line of a late basket whose price changes between the sale and the upload, long before it.
/// False where there is none.
fn overtake(
    random: &mut Random,
    prices: &PriceList,
    country: usize,
    sold: Seconds,
    uploaded: Seconds,
    lines: &mut [BasketLine],
) -> bool {
    if uploaded - sold < LEAST_DELAY {
        return false;
    }
    let mut changing = prices.changing_between(country, sold, uploaded - HOUR);
    changing.retain(|article| lines.iter().all(|line| line.sku != sku(*article)));
    if changing.is_empty() {
        return false;
    }
    let article = changing[random.below(changing.len())];
    lines[0] = draw_line(random, 1, article, prices.price_at(country, article, sold));
    true
}

/// Which sales are sent again, and when: half a minute to three hours behind the first upload.
fn sent_again(random: &mut Random, sales: &[Sale]) -> Vec<(usize, Seconds)> {
    let mut order: Vec<usize> = (0..sales.len()).collect();
    random.shuffle(&mut order);
    let (late, on_time): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|sale| sales[*sale].is_late());
    let end = UPLOAD_DAY + 24 * HOUR - 1;
    let copied = on_time
        .into_iter()
        .filter(|sale| sales[*sale].uploaded + MINUTE < end)
        .take(SENT_AGAIN - LATE_AND_SENT_AGAIN)
        .chain(late.into_iter().take(LATE_AND_SENT_AGAIN));
    copied
        .map(|sale| {
            (
                sale,
                (sales[sale].uploaded + random.between(30, 3 * HOUR)).min(end),
            )
        })
        .collect()
}

/// Numbers the baskets of each store and business date by their sales, and the uploads in their order.
fn events(
    stores: &[Store],
    sales: &[Sale],
    copies: Vec<(usize, Seconds)>,
) -> Vec<Vec<BasketEvent>> {
    let ids = basket_ids(stores, sales);
    let firsts = sales
        .iter()
        .enumerate()
        .map(|(sale, times)| (times.uploaded, sale));
    let mut uploads: Vec<(Seconds, usize)> = firsts
        .chain(copies.into_iter().map(|(sale, at)| (at, sale)))
        .collect();
    uploads.sort_unstable();
    let mut partitions = vec![Vec::new(); PARTITIONS];
    for (number, (uploaded, sale)) in (1..).zip(uploads) {
        let (basket_id, sale) = (ids[sale].clone(), &sales[sale]);
        let store = &stores[sale.store];
        let (till_id, partition) = store.tills[sale.till].clone();
        partitions[partition].push(BasketEvent {
            event_id: format!("EV-{number:06}"),
            basket_id,
            store_id: store.id.clone(),
            till_id,
            currency: store.country().currency,
            event_ts: time::text(sale.sold),
            uploaded_at: time::text(uploaded),
            lines: sale.lines.clone(),
        });
    }
    partitions
}

/// `GB-0044-20260814-00045`, by sale.
fn basket_ids(stores: &[Store], sales: &[Sale]) -> Vec<String> {
    let mut order: Vec<usize> = (0..sales.len()).collect();
    let day = |sale: &Sale| stores[sale.store].business_day(sale.sold);
    order.sort_by_key(|sale| (sales[*sale].store, sales[*sale].sold, *sale));
    let mut ids = vec![String::new(); sales.len()];
    let (mut current, mut number) = (None, 0);
    for sale in order {
        let (index, store_day) = (sale, (sales[sale].store, day(&sales[sale])));
        number = if current == Some(store_day) {
            number + 1
        } else {
            1
        };
        current = Some(store_day);
        let date = time::compact_date(day(&sales[sale]) * time::DAY);
        ids[index] = format!("{}-{date}-{number:05}", stores[sales[sale].store].id);
    }
    ids
}
