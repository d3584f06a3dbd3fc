//! The price list: versions by article and country, each in force from its time on until the next.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::random::Random;
use crate::stores::COUNTRIES;
use crate::time::{self, DAY, HOUR, MINUTE, Seconds, UPLOAD_DAY};

/// Articles, all of them sold in every country.
const ARTICLES: usize = 2_200;
/// Price changes before the upload day, inside it, and after it (the pricing department plans ahead). With the first
/// version of every article and country they are 7,075 versions.
const CHANGES: [usize; 3] = [95, 180, 200];
/// The first list was in force from 5 July, local midnight.
const FIRST_LIST: Seconds = UPLOAD_DAY - 41 * DAY;
/// The changes that are planned go up to 3 October.
const LAST_CHANGE_DAY: i64 = 49;
/// An article whose Singapore price drops from 16.09 to 14.09 at 13:00 local time of the upload day.
const WATCHED: (usize, usize) = (676, 2);

/// A version of a price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PriceVersion {
    /// The article: `SKU-00676`.
    pub sku: String,
    /// `GB`, `IN` or `SG`.
    pub country: &'static str,
    /// The country's currency.
    pub currency: &'static str,
    /// The price in minor units (pence, paise, cents).
    pub price_minor: i64,
    /// From when on it is in force, UTC.
    pub effective_from: String,
}

/// All versions, by country and article.
pub(crate) struct PriceList {
    /// By country, then by article number less one: versions in the order of their times.
    versions: Vec<Vec<Vec<Version>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    from: Seconds,
    price_minor: i64,
}

impl PriceList {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut list = PriceList {
            versions: COUNTRIES.iter().map(|_| Vec::new()).collect(),
        };
        for article in 1..=ARTICLES {
            let cents = if article == WATCHED.0 {
                1_609
            } else {
                50 * random.between(2, 70) + 9
            };
            for (country, versions) in COUNTRIES.iter().zip(&mut list.versions) {
                versions.push(vec![Version {
                    from: FIRST_LIST - country.utc_offset,
                    price_minor: cents * country.price_level,
                }]);
            }
        }
        list.draw_changes(random);
        list
    }

    /// Changes at distinct times for each article and country, each from the price before it.
    fn draw_changes(&mut self, random: &mut Random) {
        let (article, country) = WATCHED;
        let mut planned = BTreeSet::from([(UPLOAD_DAY + 5 * HOUR, article, country)]);
        for (period, count) in CHANGES.into_iter().enumerate() {
            let wanted = planned.len() + count - usize::from(period == 1);
            while planned.len() < wanted {
                let (article, country) =
                    (1 + random.below(ARTICLES), random.below(COUNTRIES.len()));
                if (article, country) != WATCHED {
                    planned.insert((change_time(random, period, country), article, country));
                }
            }
        }
        for (from, article, country) in planned {
            let versions = &mut self.versions[country][article - 1];
            let before = versions.last().map_or(0, |version| version.price_minor);
            let price_minor = if (article, country) == WATCHED {
                1_409
            } else {
                changed(random, before)
            };
            versions.push(Version { from, price_minor });
        }
    }

    /// A random article by popularity: a few are sold often, many seldom.
    pub(crate) fn draw_article(&self, random: &mut Random) -> usize {
        let rank = random.below(ARTICLES) * random.below(ARTICLES) / ARTICLES;
        // Ranks are spread over the numbers; the watched article is the thirteenth.
        (((rank + ARTICLES - 12) * 1_291 + WATCHED.0 - 1) % ARTICLES) + 1
    }

    /// The price of an article in force at a time.
    pub(crate) fn price_at(&self, country: usize, article: usize, time: Seconds) -> i64 {
        let versions = &self.versions[country][article - 1];
        let in_force = versions.iter().rev().find(|version| version.from <= time);
        in_force.map_or(0, |version| version.price_minor)
    }

    /// Whether the price changes behind `after`, up to `until`.
    pub(crate) fn changes_between(
        &self,
        country: usize,
        article: usize,
        after: Seconds,
        until: Seconds,
    ) -> bool {
        let versions = &self.versions[country][article - 1];
        versions
            .iter()
            .any(|version| version.from > after && version.from <= until)
    }

    /// The articles whose price changes behind `after`, up to `until`.
    pub(crate) fn changing_between(
        &self,
        country: usize,
        after: Seconds,
        until: Seconds,
    ) -> Vec<usize> {
        (1..=ARTICLES)
            .filter(|article| self.changes_between(country, *article, after, until))
            .collect()
    }

    /// All versions in the order of their times; those of one time by country and article.
    pub(crate) fn into_versions(self) -> Vec<PriceVersion> {
        let mut all = Vec::new();
        for (country, articles) in self.versions.into_iter().enumerate() {
            for (article, versions) in articles.into_iter().enumerate() {
                all.extend(
                    versions
                        .into_iter()
                        .map(|version| (version.from, country, article + 1, version.price_minor)),
                );
            }
        }
        all.sort_unstable();
        let version =
            |(from, country, article, price_minor): (Seconds, usize, usize, i64)| PriceVersion {
                sku: sku(article),
                country: COUNTRIES[country].code,
                currency: COUNTRIES[country].currency,
                price_minor,
                effective_from: time::text(from),
            };
        all.into_iter().map(version).collect()
    }
}

/// `SKU-00676`.
pub(crate) fn sku(article: usize) -> String {
    format!("SKU-{article:05}")
}

/// Inside the upload day prices change at half hours, on other days at local midnight.
fn change_time(random: &mut Random, period: usize, country: usize) -> Seconds {
    let midnight = UPLOAD_DAY - COUNTRIES[country].utc_offset;
    match period {
        0 => midnight - random.between(1, 40) * DAY,
        1 => UPLOAD_DAY + random.between(3, 41) * 30 * MINUTE,
        _ => midnight + random.between(2, LAST_CHANGE_DAY) * DAY,
    }
}

/// Another price, 30 % down to 25 % up, rounded to whole tens less one.
fn changed(random: &mut Random, before: i64) -> i64 {
    loop {
        let percent = random.between(70, 125);
        let price = (before * percent / 1_000).max(1) * 10 - 1;
        if price != before {
            return price;
        }
    }
}
