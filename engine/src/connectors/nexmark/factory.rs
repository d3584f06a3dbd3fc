//! The options of a `nexmark` table, and the match of its declared columns to the fields of events.

use std::sync::Arc;

use super::super::options::TableOptions;
use super::events::{EventKind, Proportions};
use super::generator::{Column, EventField, Generator, GeneratorOptions};
use super::source::{NexmarkSource, SourceOptions};
use crate::config::{OptionSpec, OptionType};
use crate::connectors::{ConnectorFactory, Source, TableDescriptor};
use crate::error::{Error, Result};
use crate::types::{Field, LogicalType, TypeRoot};

/// `'connector' = 'nexmark'`.
pub struct NexmarkFactory;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "`nexmark`."),
    OptionSpec::new(
        "table",
        OptionType::Enum(&["events", "person", "auction", "bid"]),
        Some("events"),
        "Which table: all events in the benchmark's wide form, or the events of one kind with their fields as columns.",
    ),
    OptionSpec::new(
        "events.num",
        OptionType::Integer,
        Some("0"),
        "Number of events of all kinds, also where `table` names one kind; 0: without end.",
    ),
    OptionSpec::new(
        "first-event.rate",
        OptionType::Integer,
        Some("10000"),
        "Events of one second of event time.",
    ),
    OptionSpec::new(
        "next-event.rate",
        OptionType::Integer,
        None,
        "Accepted where it equals `first-event.rate`; the rate does not change.",
    ),
    OptionSpec::new(
        "rate.limited",
        OptionType::Boolean,
        Some("false"),
        "Whether events come at `first-event.rate` by the clock; otherwise as fast as they are taken.",
    ),
    OptionSpec::new(
        "base-time",
        OptionType::Text,
        Some("2015-07-15 00:00:00"),
        "Event time of the first event, UTC: `yyyy-MM-dd HH:mm:ss` or milliseconds since 1970.",
    ),
    OptionSpec::new(
        "seed",
        OptionType::Integer,
        Some("1"),
        "Tables of equal seed and options are equal.",
    ),
    OptionSpec::new(
        "splits",
        OptionType::Integer,
        Some("1"),
        "Into how many shares the events are dealt (by epochs); set it to the parallelism of the job.",
    ),
    OptionSpec::new(
        "person.proportion",
        OptionType::Integer,
        Some("1"),
        "Persons of an epoch.",
    ),
    OptionSpec::new(
        "auction.proportion",
        OptionType::Integer,
        Some("3"),
        "Auctions of an epoch.",
    ),
    OptionSpec::new(
        "bid.proportion",
        OptionType::Integer,
        Some("46"),
        "Bids of an epoch.",
    ),
    OptionSpec::new(
        "person.avg-size",
        OptionType::MemorySize,
        Some("200b"),
        "Average bytes of a person, by the length of `extra`.",
    ),
    OptionSpec::new(
        "auction.avg-size",
        OptionType::MemorySize,
        Some("500b"),
        "Average bytes of an auction, by the length of `extra`.",
    ),
    OptionSpec::new(
        "bid.avg-size",
        OptionType::MemorySize,
        Some("100b"),
        "Average bytes of a bid, by the length of `extra`; channel and url are not counted.",
    ),
    OptionSpec::new(
        "bid.hot-ratio.auctions",
        OptionType::Integer,
        Some("2"),
        "One bid in so many is not for the hot auction.",
    ),
    OptionSpec::new(
        "bid.hot-ratio.bidders",
        OptionType::Integer,
        Some("4"),
        "One bid in so many is not by the hot bidder.",
    ),
    OptionSpec::new(
        "auction.hot-ratio.sellers",
        OptionType::Integer,
        Some("4"),
        "One auction in so many is not by the hot seller.",
    ),
];

impl ConnectorFactory for NexmarkFactory {
    fn identifier(&self) -> &'static str {
        "nexmark"
    }

    fn options(&self, _descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    /// Fields go by name.
    fn projects_fields(&self, _descriptor: &TableDescriptor) -> bool {
        true
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let options = TableOptions::new(descriptor, OPTIONS);
        let generator = generator_options(&options)?;
        let only = match options.text("table") {
            "person" => Some(EventKind::Person),
            "auction" => Some(EventKind::Auction),
            "bid" => Some(EventKind::Bid),
            _ => None,
        };
        // All declared columns are checked, also those that nobody reads.
        let columns = descriptor
            .physical
            .fields
            .iter()
            .map(|field| match only {
                Some(kind) => Ok(Column::Field(event_field(kind, field, descriptor)?)),
                None => wide_column(field, descriptor),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(NexmarkSource::new(
            SourceOptions {
                only,
                end: match options.at_least("events.num", 0)? {
                    0 => u64::MAX,
                    events => events,
                },
                splits: options.at_least("splits", 1)?,
                rate_per_second: options
                    .boolean("rate.limited")
                    .then_some(generator.events_per_second),
            },
            Arc::new(Generator::new(generator)),
            descriptor
                .projection
                .iter()
                .map(|column| columns[*column].clone())
                .collect(),
            descriptor.projected().to_arrow(),
        )))
    }
}

fn generator_options(options: &TableOptions) -> Result<GeneratorOptions> {
    let events_per_second = options.at_least("first-event.rate", 1)?;
    if options.is_set("next-event.rate")
        && options.at_least("next-event.rate", 1)? != events_per_second
    {
        return Err(options
            .error("'next-event.rate' other than 'first-event.rate'")
            .hint("leave 'next-event.rate' out"));
    }
    let proportions = Proportions {
        persons: options.at_least("person.proportion", 0)?,
        auctions: options.at_least("auction.proportion", 0)?,
        bids: options.at_least("bid.proportion", 0)?,
    };
    if !(1..=1_000_000).contains(&proportions.total()) {
        return Err(options.wrong(
            "bid.proportion",
            "the proportions must add up to 1 to 1,000,000",
        ));
    }
    Ok(GeneratorOptions {
        seed: options.integer("seed") as u64,
        proportions,
        base_time: options.time_millis("base-time")?,
        events_per_second,
        average_bytes: [
            options.memory_bytes("person.avg-size"),
            options.memory_bytes("auction.avg-size"),
            options.memory_bytes("bid.avg-size"),
        ],
        hot_auctions_ratio: options.at_least("bid.hot-ratio.auctions", 1)?,
        hot_bidders_ratio: options.at_least("bid.hot-ratio.bidders", 1)?,
        hot_sellers_ratio: options.at_least("auction.hot-ratio.sellers", 1)?,
    })
}

fn wide_column(field: &Field, table: &TableDescriptor) -> Result<Column> {
    let kind = match field.name.as_str() {
        "event_type" if field.logical_type.root == TypeRoot::Int => return Ok(Column::EventType),
        "person" => EventKind::Person,
        "auction" => EventKind::Auction,
        "bid" => EventKind::Bid,
        _ => {
            return Err(mismatch(field, table)
                .hint("the columns are event_type INT, person ROW<…>, auction ROW<…>, bid ROW<…>; or choose one kind with 'table' = 'bid'"));
        }
    };
    let TypeRoot::Row(declared) = &field.logical_type.root else {
        return Err(mismatch(field, table).hint(fields_of(kind)));
    };
    let fields = declared
        .iter()
        .map(|inner| {
            let inner = Field::new(inner.name.as_str(), inner.logical_type.clone());
            event_field(kind, &inner, table)
        })
        .collect::<Result<Vec<_>>>()?;
    let arrow::datatypes::DataType::Struct(names) = field.logical_type.to_arrow() else {
        unreachable!("a ROW is laid out as a Struct");
    };
    Ok(Column::Row(kind, names, fields))
}

const TIME: TypeRoot = TypeRoot::Timestamp(3);

/// Every field of every kind: name and type as in the benchmark.
const FIELDS: &[(EventField, &str, TypeRoot)] = &[
    (EventField::PersonId, "id", TypeRoot::BigInt),
    (EventField::PersonName, "name", TypeRoot::STRING),
    (
        EventField::PersonEmailAddress,
        "emailAddress",
        TypeRoot::STRING,
    ),
    (EventField::PersonCreditCard, "creditCard", TypeRoot::STRING),
    (EventField::PersonCity, "city", TypeRoot::STRING),
    (EventField::PersonState, "state", TypeRoot::STRING),
    (EventField::PersonDateTime, "dateTime", TIME),
    (EventField::PersonExtra, "extra", TypeRoot::STRING),
    (EventField::AuctionId, "id", TypeRoot::BigInt),
    (EventField::AuctionItemName, "itemName", TypeRoot::STRING),
    (
        EventField::AuctionDescription,
        "description",
        TypeRoot::STRING,
    ),
    (
        EventField::AuctionInitialBid,
        "initialBid",
        TypeRoot::BigInt,
    ),
    (EventField::AuctionReserve, "reserve", TypeRoot::BigInt),
    (EventField::AuctionDateTime, "dateTime", TIME),
    (EventField::AuctionExpires, "expires", TIME),
    (EventField::AuctionSeller, "seller", TypeRoot::BigInt),
    (EventField::AuctionCategory, "category", TypeRoot::BigInt),
    (EventField::AuctionExtra, "extra", TypeRoot::STRING),
    (EventField::BidAuction, "auction", TypeRoot::BigInt),
    (EventField::BidBidder, "bidder", TypeRoot::BigInt),
    (EventField::BidPrice, "price", TypeRoot::BigInt),
    (EventField::BidChannel, "channel", TypeRoot::STRING),
    (EventField::BidUrl, "url", TypeRoot::STRING),
    (EventField::BidDateTime, "dateTime", TIME),
    (EventField::BidExtra, "extra", TypeRoot::STRING),
];

fn event_field(kind: EventKind, declared: &Field, table: &TableDescriptor) -> Result<EventField> {
    FIELDS
        .iter()
        .find(|(field, name, root)| {
            field.kind() == kind && *name == declared.name && *root == declared.logical_type.root
        })
        .map(|(field, _, _)| *field)
        .ok_or_else(|| mismatch(declared, table).hint(fields_of(kind)))
}

fn mismatch(declared: &Field, table: &TableDescriptor) -> Error {
    Error::user(format!(
        "table \"{}\": connector 'nexmark' has no column {} {}",
        table.name,
        declared.name,
        declared.logical_type.with_nullable(true)
    ))
}

fn fields_of(kind: EventKind) -> String {
    let fields: Vec<String> = FIELDS
        .iter()
        .filter(|(field, _, _)| field.kind() == kind)
        .map(|(_, name, root)| format!("{name} {}", LogicalType::nullable(root.clone())))
        .collect();
    format!(
        "{kind:?} has {} (any of them, in any order)",
        fields.join(", ")
    )
}
