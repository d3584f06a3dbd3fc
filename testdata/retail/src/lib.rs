//! Makes a day's till log of a retailer with 600 stores in three countries, and its price list: the same rows every time.
//!
//! A basket is sold, priced by the till with the price in force, and uploaded: mostly within two minutes, now and then hours
//! later, when a till is online again. An upload that the till believes lost is sent again. What a job must cope with is in
//! the data by count, see `README.md`: late baskets, copies, prices that change inside the day, and business dates that
//! are not the upload day.

mod prices;
mod random;
mod sales;
mod stores;
mod time;
mod uploads;

use std::fs::{self, File};
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use serde::Serialize;

pub use prices::PriceVersion;
pub use sales::BasketLine;
pub use uploads::BasketEvent;

use random::Random;

/// Into how many files the till log is dealt, by till: all uploads of a till are in one file, in their order.
pub const PARTITIONS: usize = 6;

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Equal seeds give equal rows.
    pub seed: u64,
    /// How many late baskets hold a line whose price changed between its sale and its upload. A join that has dropped the
    /// version by then finds none. Default 0: no late basket does.
    pub overtaken_baskets: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            seed: 28,
            overtaken_baskets: 0,
        }
    }
}

/// A till log and the price list that its tills had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TillLog {
    /// The uploads of each partition, in the order of `uploaded_at`.
    pub partitions: Vec<Vec<BasketEvent>>,
    /// All price versions in the order of `effective_from`.
    pub prices: Vec<PriceVersion>,
}

impl TillLog {
    /// Draws stores, prices, sales and uploads.
    pub fn generate(settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let stores = stores::open_stores();
        let prices = prices::PriceList::draw(&mut random);
        let sales = sales::draw(&mut random, &stores, &prices, settings.overtaken_baskets);
        let partitions = uploads::draw(&mut random, &stores, &sales);
        TillLog {
            partitions,
            prices: prices.into_versions(),
        }
    }

    /// Writes `pos/part-0.jsonl` to `part-5.jsonl` and `prices/prices.jsonl` into a directory, a JSON object a line.
    pub fn write(&self, directory: &Path) -> Result<()> {
        for (number, events) in self.partitions.iter().enumerate() {
            write_lines(&directory.join(format!("pos/part-{number}.jsonl")), events)?;
        }
        write_lines(&directory.join("prices/prices.jsonl"), &self.prices)
    }
}

fn write_lines(path: &Path, rows: &[impl Serialize]) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = BufWriter::new(File::create(path)?);
    for row in rows {
        serde_json::to_writer(&mut file, row)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

#[cfg(test)]
mod tests;
