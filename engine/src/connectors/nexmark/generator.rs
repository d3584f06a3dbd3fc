//! Makes the columns of a run of events, one tight loop a column.
//!
//! Every field has draws of its own, so a column that nobody reads is never made and the others stay as they are. In the
//! wide table the rows of other kinds are NULL; their places are filled with zeros and empty strings.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::Fields;

use super::super::draw::{ColumnDraws, Draw};
use super::events::{Event, EventKind, Proportions};
use super::text::{self, Channels};
use crate::error::Result;

const FIRST_PERSON_ID: u64 = 1000;
const FIRST_AUCTION_ID: u64 = 1000;
const FIRST_CATEGORY_ID: u64 = 10;
const CATEGORIES: u64 = 5;
/// Ids that do not exist yet but may be referred to, as if events had been swapped on their way.
const ID_LEAD: u64 = 10;
/// Of how many auctions, sellers or bidders one is hot.
const HOT_GROUP: u64 = 100;
const AUCTIONS_IN_FLIGHT: u64 = 100;
const ACTIVE_PERSONS: u64 = 1000;

/// What the events look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GeneratorOptions {
    pub(super) seed: u64,
    pub(super) proportions: Proportions,
    /// Event time of event 0, milliseconds.
    pub(super) base_time: i64,
    /// Events of one second of event time.
    pub(super) events_per_second: u64,
    /// Average bytes of a person, an auction, a bid.
    pub(super) average_bytes: [u64; 3],
    /// One bid in so many is not for a hot auction.
    pub(super) hot_auctions_ratio: u64,
    /// One bid in so many is not by a hot bidder.
    pub(super) hot_bidders_ratio: u64,
    /// One auction in so many is not by a hot seller.
    pub(super) hot_sellers_ratio: u64,
}

/// A column that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// The number of the kind.
    EventType,
    /// A field of the events of one kind; other events have a zero or an empty string.
    Field(EventField),
    /// The named fields of one kind as a ROW; NULL for other events.
    Row(EventKind, Fields, Vec<EventField>),
}

/// A field of a person, an auction or a bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventField {
    PersonId,
    PersonName,
    PersonEmailAddress,
    PersonCreditCard,
    PersonCity,
    PersonState,
    PersonDateTime,
    PersonExtra,
    AuctionId,
    AuctionItemName,
    AuctionDescription,
    AuctionInitialBid,
    AuctionReserve,
    AuctionDateTime,
    AuctionExpires,
    AuctionSeller,
    AuctionCategory,
    AuctionExtra,
    BidAuction,
    BidBidder,
    BidPrice,
    BidChannel,
    BidUrl,
    BidDateTime,
    BidExtra,
}

use EventField::*;
use EventKind::{Auction, Bid, Person};

impl EventField {
    pub(super) fn kind(self) -> EventKind {
        match self {
            PersonId | PersonName | PersonEmailAddress | PersonCreditCard | PersonCity
            | PersonState | PersonDateTime | PersonExtra => Person,
            AuctionId | AuctionItemName | AuctionDescription | AuctionInitialBid
            | AuctionReserve | AuctionDateTime | AuctionExpires | AuctionSeller
            | AuctionCategory | AuctionExtra => Auction,
            BidAuction | BidBidder | BidPrice | BidChannel | BidUrl | BidDateTime | BidExtra => Bid,
        }
    }

    /// About how many bytes a value takes.
    pub(super) fn average_bytes(self, options: &GeneratorOptions) -> u64 {
        match self {
            PersonExtra => options.average_bytes[Person as usize] / 2 + 4,
            AuctionExtra => options.average_bytes[Auction as usize] * 3 / 4 + 4,
            BidExtra => options.average_bytes[Bid as usize] * 3 / 4 + 4,
            AuctionDescription => 56,
            BidUrl => 68,
            AuctionItemName | PersonName | PersonEmailAddress | PersonCreditCard | PersonCity => 20,
            BidChannel => 14,
            PersonState => 6,
            _ => 8,
        }
    }

    fn draws(self, seed: u64) -> ColumnDraws {
        // A bid's channel and url are drawn together.
        let salt = if self == BidUrl { BidChannel } else { self } as u64;
        ColumnDraws::new(seed, salt)
    }
}

/// Makes columns; immutable, shared by readers.
#[derive(Debug)]
pub(super) struct Generator {
    options: GeneratorOptions,
    channels: Channels,
}

impl Generator {
    pub(super) fn new(options: GeneratorOptions) -> Self {
        Generator {
            options,
            channels: Channels::new(options.seed),
        }
    }

    /// The order of the events.
    pub(super) fn proportions(&self) -> Proportions {
        self.options.proportions
    }

    /// About how many bytes a value of the column takes.
    pub(super) fn average_bytes(&self, column: &Column) -> u64 {
        let share = |kind: EventKind| {
            let Proportions {
                persons,
                auctions,
                bids,
            } = self.options.proportions;
            [persons, auctions, bids][kind as usize] as f64
                / self.options.proportions.total() as f64
        };
        match column {
            Column::EventType => 4,
            Column::Field(field) => field.average_bytes(&self.options),
            Column::Row(kind, _, fields) => {
                let full: u64 = fields
                    .iter()
                    .map(|field| field.average_bytes(&self.options))
                    .sum();
                (full as f64 * share(*kind)) as u64 + 8 * fields.len() as u64
            }
        }
    }

    /// One value an event.
    pub(super) fn column(&self, column: &Column, events: &[Event]) -> Result<ArrayRef> {
        Ok(match column {
            Column::EventType => Arc::new(Int32Array::from_iter_values(
                events.iter().map(|event| event.kind as i32),
            )),
            Column::Field(field) => self.field(*field, events)?,
            Column::Row(kind, names, fields) => {
                let present: NullBuffer = events.iter().map(|event| event.kind == *kind).collect();
                let children = fields
                    .iter()
                    .map(|field| self.field(*field, events))
                    .collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new(
                    names.clone(),
                    children,
                    Some(present),
                )?)
            }
        })
    }

    fn field(&self, field: EventField, events: &[Event]) -> Result<ArrayRef> {
        let column = field.draws(self.options.seed);
        let average = field.average_bytes(&self.options) as usize;
        let integers = |value: &dyn Fn(&Event, &mut Draw) -> u64| -> Result<ArrayRef> {
            Ok(integers(events, field.kind(), column, value))
        };
        let texts = |write: &dyn Fn(&Event, &mut Draw, &mut Vec<u8>)| {
            texts(events, field.kind(), column, average, write)
        };
        let channels = &self.channels;
        match field {
            PersonId => integers(&|event, _| FIRST_PERSON_ID + self.newest_person(event)),
            PersonName => texts(&|_, draw, out| text::name(draw, out)),
            PersonEmailAddress => texts(&|_, draw, out| text::email_address(draw, out)),
            PersonCreditCard => texts(&|_, draw, out| text::credit_card(draw, out)),
            PersonCity => texts(&|_, draw, out| text::city(draw, out)),
            PersonState => texts(&|_, draw, out| text::state(draw, out)),
            PersonExtra => self.padding(
                field,
                events,
                8,
                &[
                    (PersonName, text::name),
                    (PersonEmailAddress, text::email_address),
                    (PersonCreditCard, text::credit_card),
                    (PersonCity, text::city),
                    (PersonState, text::state),
                ],
            ),
            AuctionId => integers(&|event, _| FIRST_AUCTION_ID + self.newest_auction(event)),
            AuctionItemName => texts(&|_, draw, out| text::item_name(draw, out)),
            AuctionDescription => texts(&|_, draw, out| text::description(draw, out)),
            AuctionInitialBid => integers(&|_, draw| price(draw)),
            AuctionReserve => {
                let initial = AuctionInitialBid.draws(self.options.seed);
                integers(&|event, draw| price(&mut initial.row(event.number)) + price(draw))
            }
            AuctionExpires => Ok(times(events, Auction, |event| {
                self.time(event.number) + self.auction_length(event, &mut column.row(event.number))
            })),
            AuctionSeller => integers(&|event, draw| self.seller(event, draw)),
            AuctionCategory => integers(&|_, draw| FIRST_CATEGORY_ID + draw.below(CATEGORIES)),
            AuctionExtra => self.padding(
                field,
                events,
                48,
                &[
                    (AuctionItemName, text::item_name),
                    (AuctionDescription, text::description),
                ],
            ),
            BidAuction => Ok(self.bid_auctions(events, column)),
            BidBidder => Ok(self.bid_bidders(events, column)),
            BidPrice => Ok(prices(events, column)),
            BidChannel => {
                texts(&|_, draw, out| out.extend_from_slice(channels.name(channels.pick(draw))))
            }
            BidUrl => {
                texts(&|_, draw, out| out.extend_from_slice(channels.url(channels.pick(draw))))
            }
            BidExtra => {
                let average = self.options.average_bytes[Bid as usize];
                texts(&|_, draw, out| text::padding(32, average, draw, out))
            }
            PersonDateTime | AuctionDateTime | BidDateTime => {
                Ok(times(events, field.kind(), |event| self.time(event.number)))
            }
        }
    }

    /// The event time of an event number, milliseconds.
    #[inline]
    pub(super) fn time(&self, number: u64) -> i64 {
        let elapsed = number.saturating_mul(1000) / self.options.events_per_second;
        self.options.base_time.saturating_add(elapsed as i64)
    }

    #[inline]
    fn newest_person(&self, event: &Event) -> u64 {
        self.options.proportions.newest_person(event)
    }

    #[inline]
    fn newest_auction(&self, event: &Event) -> u64 {
        self.options.proportions.newest_auction(event)
    }

    /// Some active person, or one that is about to come.
    #[inline]
    fn any_person(&self, event: &Event, draw: &mut Draw) -> u64 {
        let persons = self.newest_person(event) + 1;
        let active = persons.min(ACTIVE_PERSONS);
        persons - active + draw.below(active + ID_LEAD)
    }

    // Both outcomes are made before one is taken: which one it is cannot be predicted, so a branch would cost more.

    #[inline]
    fn seller(&self, event: &Event, draw: &mut Draw) -> u64 {
        let is_any = draw.once_in(self.options.hot_sellers_ratio);
        let any = self.any_person(event, draw);
        let hot = self.newest_person(event) / HOT_GROUP * HOT_GROUP;
        FIRST_PERSON_ID + if is_any { any } else { hot }
    }

    #[inline]
    fn bidder(&self, event: &Event, draw: &mut Draw) -> u64 {
        let is_any = draw.once_in(self.options.hot_bidders_ratio);
        let any = self.any_person(event, draw);
        // The second of the group, so that hot bidders are not hot sellers.
        let hot = self.newest_person(event) / HOT_GROUP * HOT_GROUP + 1;
        FIRST_PERSON_ID + if is_any { any } else { hot }
    }

    #[inline]
    fn auction_of_bid(&self, event: &Event, draw: &mut Draw) -> u64 {
        let is_any = draw.once_in(self.options.hot_auctions_ratio);
        let newest = self.newest_auction(event);
        let oldest = newest.saturating_sub(AUCTIONS_IN_FLIGHT);
        let any = oldest + draw.below(newest - oldest + 1 + ID_LEAD);
        let hot = newest / HOT_GROUP * HOT_GROUP;
        FIRST_AUCTION_ID + if is_any { any } else { hot }
    }

    /// Milliseconds from an auction's start to its end: on average until as many auctions have begun as are in flight.
    fn auction_length(&self, event: &Event, draw: &mut Draw) -> i64 {
        let proportions = &self.options.proportions;
        let ahead = AUCTIONS_IN_FLIGHT * proportions.total() / proportions.auctions.max(1);
        let horizon = self.time(event.number + ahead) - self.time(event.number);
        1 + draw.below((horizon * 2).max(1) as u64) as i64
    }

    fn bid_auctions(&self, events: &[Event], column: ColumnDraws) -> ArrayRef {
        integers(events, Bid, column, |event, draw| {
            self.auction_of_bid(event, draw)
        })
    }

    fn bid_bidders(&self, events: &[Event], column: ColumnDraws) -> ArrayRef {
        integers(events, Bid, column, |event, draw| self.bidder(event, draw))
    }

    /// What brings each event to its average size: it has `fixed` bytes and the texts of `others`, which are made once more to
    /// know their lengths.
    fn padding(
        &self,
        field: EventField,
        events: &[Event],
        fixed: u64,
        others: &[(EventField, WriteText)],
    ) -> Result<ArrayRef> {
        let GeneratorOptions {
            seed,
            average_bytes,
            ..
        } = self.options;
        let others: Vec<(ColumnDraws, WriteText)> = others
            .iter()
            .map(|(other, write)| (other.draws(seed), *write))
            .collect();
        let mut scratch = Vec::new();
        texts(
            events,
            field.kind(),
            field.draws(seed),
            field.average_bytes(&self.options) as usize,
            |event, draw, out| {
                scratch.clear();
                for (column, write) in &others {
                    write(&mut column.row(event.number), &mut scratch);
                }
                let size = fixed + scratch.len() as u64;
                text::padding(size, average_bytes[field.kind() as usize], draw, out);
            },
        )
    }
}

/// Appends the text of a cell.
type WriteText = fn(&mut Draw, &mut Vec<u8>);

fn integers(
    events: &[Event],
    kind: EventKind,
    column: ColumnDraws,
    value: impl Fn(&Event, &mut Draw) -> u64,
) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(events.iter().map(|event| {
        if event.kind == kind {
            value(event, &mut column.row(event.number)) as i64
        } else {
            0
        }
    })))
}

fn prices(events: &[Event], column: ColumnDraws) -> ArrayRef {
    integers(events, Bid, column, |_, draw| price(draw))
}

fn times(events: &[Event], kind: EventKind, time: impl Fn(&Event) -> i64) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter_values(
        events
            .iter()
            .map(|event| if event.kind == kind { time(event) } else { 0 }),
    ))
}

fn texts(
    events: &[Event],
    kind: EventKind,
    column: ColumnDraws,
    average_bytes: usize,
    mut write: impl FnMut(&Event, &mut Draw, &mut Vec<u8>),
) -> Result<ArrayRef> {
    let mut bytes = Vec::with_capacity(events.len() * average_bytes);
    let mut offsets = Vec::with_capacity(events.len() + 1);
    offsets.push(0);
    for event in events {
        if event.kind == kind {
            write(event, &mut column.row(event.number), &mut bytes);
        }
        offsets.push(bytes.len() as i32);
    }
    Ok(Arc::new(StringArray::try_new(
        OffsetBuffer::new(offsets.into()),
        bytes.into(),
        None,
    )?))
}

/// A price in cents: 100 times ten to a power of 0 to 6.
#[inline]
fn price(draw: &mut Draw) -> u64 {
    const LOG2_OF_10: f64 = std::f64::consts::LOG2_10;
    (exp2(draw.unit() * 6.0 * LOG2_OF_10) * 100.0 + 0.5) as u64
}

/// Two to a power of 0 to 1000, to about twelve digits. Only additions and multiplications, so that every machine makes the same
/// prices; the system's `exp2` may differ in the last bit.
#[inline]
fn exp2(power: f64) -> f64 {
    let whole = (power + 0.5) as i64;
    let x = (power - whole as f64) * std::f64::consts::LN_2;
    // The Taylor series of e^x for |x| <= ln 2 / 2.
    let series = 1.0
        + x * (1.0
            + x / 2.0
                * (1.0
                    + x / 3.0
                        * (1.0
                            + x / 4.0
                                * (1.0
                                    + x / 5.0
                                        * (1.0
                                            + x / 6.0
                                                * (1.0
                                                    + x / 7.0
                                                        * (1.0 + x / 8.0 * (1.0 + x / 9.0))))))));
    f64::from_bits(((1023 + whole) as u64) << 52) * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_near_the_library() {
        for step in 0..2000 {
            let power = step as f64 * 0.01;
            let relative = exp2(power) / power.exp2() - 1.0;
            assert!(relative.abs() < 1e-10, "2^{power}: {relative}");
        }
    }

    #[test]
    fn prices_spread_evenly_over_six_powers_of_ten() {
        let column = ColumnDraws::new(1, 1);
        let mut counts = [0; 6];
        for row in 0..60_000 {
            let price = price(&mut column.row(row));
            assert!((100..100_000_000).contains(&price), "{price}");
            counts[((price as f64 / 100.0).log10() as usize).min(5)] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
    }
}
