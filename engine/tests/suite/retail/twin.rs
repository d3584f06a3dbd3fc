//! The batch computation: reads the same files whole and works out with plain maps what the job must have written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Bound;
use std::path::Path;

use chrono::{Duration, NaiveDateTime};
use serde_json::Value;

/// A row of the lines table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SoldLine {
    pub(super) event_id: String,
    pub(super) basket_id: String,
    pub(super) line_no: i64,
    pub(super) store_id: String,
    pub(super) business_date: String,
    pub(super) currency: String,
    pub(super) event_ts: String,
    pub(super) sku: String,
    pub(super) qty: i64,
    pub(super) unit_price_minor: i64,
    pub(super) net_minor: i64,
    pub(super) list_price_minor: Option<i64>,
    pub(super) price_from: Option<String>,
}

/// A line with what is to be known about it.
pub(super) struct TwinLine {
    pub(super) sold: SoldLine,
    /// Its basket came more than five minutes behind the sale.
    pub(super) is_late: bool,
    /// It is late and its price changed between the sale and the upload: the version of the sale is gone by then.
    pub(super) is_overtaken: bool,
    latest_price_minor: i64,
}

/// A store and business date.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StoreDay {
    pub(super) currency: String,
    pub(super) baskets: i64,
    pub(super) units: i64,
    pub(super) sales_minor: i64,
}

/// A store and hour.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hour {
    currency: String,
    baskets: i64,
    lines: i64,
    units: i64,
    sales_minor: i64,
}

/// The versions of a price by time.
type Versions = BTreeMap<String, i64>;

pub(super) struct Twin {
    lines: Vec<TwinLine>,
}

impl Twin {
    /// Reads the directory that the generator wrote.
    pub(super) fn read(input: &Path) -> Self {
        let prices = read_prices(&input.join("prices/prices.jsonl"));
        let mut lines = Vec::new();
        for partition in 0..6 {
            // Copies follow the first upload in the same partition.
            let mut seen = BTreeSet::new();
            for event in rows(&input.join(format!("pos/part-{partition}.jsonl"))) {
                if seen.insert(text(&event, "basket_id")) {
                    let sold = event["lines"].as_array().unwrap().iter();
                    lines.extend(sold.map(|line| twin_line(&event, line, &prices)));
                }
            }
        }
        Twin { lines }
    }

    pub(super) fn lines(&self) -> &[TwinLine] {
        &self.lines
    }

    pub(super) fn late_lines(&self) -> impl Iterator<Item = &TwinLine> {
        self.lines.iter().filter(|line| line.is_late)
    }

    pub(super) fn late_baskets(&self) -> usize {
        let ids: BTreeSet<&str> = self
            .late_lines()
            .map(|line| &*line.sold.basket_id)
            .collect();
        ids.len()
    }

    /// The total of every store and business date.
    pub(super) fn store_days(&self) -> BTreeMap<(String, String), StoreDay> {
        let mut days: BTreeMap<_, StoreDay> = BTreeMap::new();
        for TwinLine { sold, .. } in &self.lines {
            let day = days
                .entry((sold.store_id.clone(), sold.business_date.clone()))
                .or_default();
            day.currency.clone_from(&sold.currency);
            day.baskets += i64::from(sold.line_no == 1);
            day.units += sold.qty;
            day.sales_minor += sold.net_minor;
        }
        days
    }

    /// Every store and hour, by store and beginning, without the late baskets.
    pub(super) fn hours(&self) -> BTreeMap<(String, String), Hour> {
        let mut hours: BTreeMap<_, Hour> = BTreeMap::new();
        for TwinLine { sold, .. } in self.lines.iter().filter(|line| !line.is_late) {
            let start = format!("{}:00:00", &sold.event_ts[..13]);
            let hour = hours.entry((sold.store_id.clone(), start)).or_default();
            hour.currency.clone_from(&sold.currency);
            hour.baskets += i64::from(sold.line_no == 1);
            hour.lines += 1;
            hour.units += sold.qty;
            hour.sales_minor += sold.net_minor;
        }
        hours
    }
}

impl TwinLine {
    /// Whether a join to each article's latest price gives another one than the till charged.
    pub(super) fn is_wrong_at_the_latest_price(&self) -> bool {
        self.latest_price_minor != self.sold.unit_price_minor
    }
}

impl SoldLine {
    /// As the job wrote it.
    pub(super) fn of_json(row: &Value) -> Self {
        SoldLine {
            event_id: text(row, "event_id"),
            basket_id: text(row, "basket_id"),
            line_no: number(row, "line_no"),
            store_id: text(row, "store_id"),
            business_date: text(row, "business_date"),
            currency: text(row, "currency"),
            event_ts: text(row, "event_ts"),
            sku: text(row, "sku"),
            qty: number(row, "qty"),
            unit_price_minor: number(row, "unit_price_minor"),
            net_minor: number(row, "net_minor"),
            list_price_minor: row["list_price_minor"].as_i64(),
            price_from: row["price_from"].as_str().map(str::to_string),
        }
    }
}

impl Hour {
    /// As the job wrote it.
    pub(super) fn of_json(row: &Value) -> Self {
        Hour {
            currency: text(row, "currency"),
            baskets: number(row, "basket_count"),
            lines: number(row, "line_count"),
            units: number(row, "units_out"),
            sales_minor: number(row, "sales_minor"),
        }
    }
}

/// A store with another column.
pub(super) fn key(row: &Value, column: &str) -> (String, String) {
    (text(row, "store_id"), text(row, column))
}

fn twin_line(
    event: &Value,
    line: &Value,
    prices: &BTreeMap<(String, String), Versions>,
) -> TwinLine {
    let (store_id, event_ts) = (text(event, "store_id"), text(event, "event_ts"));
    let (sold, uploaded) = (time(&event_ts), time(&text(event, "uploaded_at")));
    let versions = &prices[&(text(line, "sku"), store_id[..2].to_string())];
    // All times are of one length, so that they are ordered as texts are.
    let in_force = versions.range(..=event_ts.clone()).next_back();
    let meanwhile = (
        Bound::Excluded(event_ts.clone()),
        Bound::Included(text(event, "uploaded_at")),
    );
    let is_late = uploaded - sold > Duration::minutes(5);
    TwinLine {
        is_late,
        is_overtaken: is_late && versions.range(meanwhile).next().is_some(),
        latest_price_minor: *versions.values().next_back().unwrap(),
        sold: SoldLine {
            event_id: text(event, "event_id"),
            basket_id: text(event, "basket_id"),
            line_no: number(line, "line_no"),
            business_date: business_date(&store_id, sold),
            store_id,
            currency: text(event, "currency"),
            sku: text(line, "sku"),
            qty: number(line, "qty"),
            unit_price_minor: number(line, "unit_price_minor"),
            net_minor: number(line, "qty") * number(line, "unit_price_minor")
                - number(line, "discount_minor"),
            list_price_minor: in_force.map(|(_, price)| *price),
            price_from: in_force.map(|(from, _)| from.clone()),
            event_ts,
        },
    }
}

/// The date on the wall of the store.
fn business_date(store_id: &str, sold: NaiveDateTime) -> String {
    let zone: chrono_tz::Tz = match &store_id[..2] {
        "GB" => chrono_tz::Europe::London,
        "IN" => chrono_tz::Asia::Kolkata,
        _ => chrono_tz::Asia::Singapore,
    };
    sold.and_utc().with_timezone(&zone).date_naive().to_string()
}

fn read_prices(path: &Path) -> BTreeMap<(String, String), Versions> {
    let mut prices: BTreeMap<_, Versions> = BTreeMap::new();
    for row in rows(path) {
        let versions = prices
            .entry((text(&row, "sku"), text(&row, "country")))
            .or_default();
        versions.insert(text(&row, "effective_from"), number(&row, "price_minor"));
    }
    prices
}

fn rows(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn time(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap()
}

fn text(row: &Value, field: &str) -> String {
    row[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {row}"))
        .to_string()
}

fn number(row: &Value, field: &str) -> i64 {
    row[field]
        .as_i64()
        .unwrap_or_else(|| panic!("no {field} in {row}"))
}
