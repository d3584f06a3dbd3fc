//! Stores and their tills in three countries.

use crate::PARTITIONS;
use crate::time::{DAY, HOUR, MINUTE, Seconds, UPLOAD_DAY};

/// A country with its stores.
#[derive(Debug)]
pub(crate) struct Country {
    pub(crate) code: &'static str,
    pub(crate) currency: &'static str,
    /// Ahead of UTC; in Britain it is summer.
    pub(crate) utc_offset: Seconds,
    pub(crate) stores: usize,
    /// Minor units of its currency for a Singapore cent of the price.
    pub(crate) price_level: i64,
}

pub(crate) const COUNTRIES: [Country; 3] = [
    Country {
        code: "GB",
        currency: "GBP",
        utc_offset: HOUR,
        stores: 280,
        price_level: 1,
    },
    Country {
        code: "IN",
        currency: "INR",
        utc_offset: 5 * HOUR + 30 * MINUTE,
        stores: 200,
        price_level: 60,
    },
    Country {
        code: "SG",
        currency: "SGD",
        utc_offset: 8 * HOUR,
        stores: 120,
        price_level: 1,
    },
];

/// A store.
#[derive(Debug)]
pub(crate) struct Store {
    /// `SG-0042`.
    pub(crate) id: String,
    /// Index of its country.
    pub(crate) country: usize,
    /// Its tills: id and partition.
    pub(crate) tills: Vec<(String, usize)>,
    /// Every fifth store never closes.
    pub(crate) is_always_open: bool,
}

/// How many of a day's sales fall in each local hour of an ordinary store (08:00 to 22:00).
const HOURS: [usize; 24] = [
    0, 0, 0, 0, 0, 0, 0, 0, 4, 6, 7, 8, 10, 9, 7, 7, 8, 10, 10, 8, 5, 3, 0, 0,
];
/// The same of a store that never closes.
const ALL_HOURS: [usize; 24] = [
    1, 1, 1, 1, 1, 1, 2, 4, 6, 7, 8, 8, 9, 9, 8, 8, 9, 10, 10, 9, 7, 5, 3, 2,
];

impl Store {
    pub(crate) fn country(&self) -> &'static Country {
        &COUNTRIES[self.country]
    }

    /// How many of a day's sales fall in each local hour.
    pub(crate) fn hours(&self) -> &'static [usize; 24] {
        if self.is_always_open {
            &ALL_HOURS
        } else {
            &HOURS
        }
    }

    /// When the business date that is so many days behind the upload day begins at the store, in UTC.
    pub(crate) fn midnight(&self, days: i64) -> Seconds {
        UPLOAD_DAY + days * DAY - self.country().utc_offset
    }

    /// The number of the business date of a time.
    pub(crate) fn business_day(&self, time: Seconds) -> Seconds {
        (time + self.country().utc_offset).div_euclid(DAY)
    }
}

/// All stores.
pub(crate) fn open_stores() -> Vec<Store> {
    let mut stores = Vec::new();
    for (index, country) in COUNTRIES.iter().enumerate() {
        for number in 1..=country.stores {
            let id = format!("{}-{number:04}", country.code);
            let tills = (1..=1 + number % 3).map(|till| format!("{id}-T{till}"));
            stores.push(Store {
                tills: tills
                    .map(|till| {
                        let partition = partition_of(&till);
                        (till, partition)
                    })
                    .collect(),
                id,
                country: index,
                is_always_open: number % 5 == 0,
            });
        }
    }
    stores
}

/// The partition of a till, as a message broker finds it: by the hash of the key (here FNV-1a).
fn partition_of(till: &str) -> usize {
    let mixed = till.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    ((mixed >> 32) % PARTITIONS as u64) as usize
}
