//! The order of events: which number is a person, an auction or a bid, and what time it has.
//!
//! Events come in epochs: first the persons, then the auctions, then the bids of one epoch, by default 1 + 3 + 46. All
//! that an event may refer to (the newest auction, the active persons) follows from its number.

/// The three kinds of events, with the numbers that `event_type` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Person = 0,
    Auction = 1,
    Bid = 2,
}

/// One event: its number taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// From 0.
    pub(super) number: u64,
    /// Which epoch.
    pub(super) epoch: u64,
    /// The place in the epoch.
    pub(super) offset: u64,
    pub(super) kind: EventKind,
}

/// How many events of each kind make an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proportions {
    pub(super) persons: u64,
    pub(super) auctions: u64,
    pub(super) bids: u64,
}

impl Proportions {
    /// Events of one epoch.
    pub(super) fn total(&self) -> u64 {
        self.persons + self.auctions + self.bids
    }

    /// The event of a number.
    pub(super) fn event(&self, number: u64) -> Event {
        let (epoch, offset) = (number / self.total(), number % self.total());
        Event {
            number,
            epoch,
            offset,
            kind: self.kind(offset),
        }
    }

    #[inline]
    fn kind(&self, offset: u64) -> EventKind {
        if offset < self.persons {
            EventKind::Person
        } else if offset < self.persons + self.auctions {
            EventKind::Auction
        } else {
            EventKind::Bid
        }
    }

    /// The newest auction at an event, counted from 0: the event's own if it is one. At least 0, as an epoch without auctions
    /// has none to refer to.
    #[inline]
    pub(super) fn newest_auction(&self, event: &Event) -> u64 {
        let of_epoch = match event.kind {
            EventKind::Person => 0,
            EventKind::Auction => event.offset - self.persons + 1,
            EventKind::Bid => self.auctions,
        };
        (event.epoch * self.auctions + of_epoch).saturating_sub(1)
    }

    /// The newest person at an event, counted from 0: the event's own if it is one.
    #[inline]
    pub(super) fn newest_person(&self, event: &Event) -> u64 {
        (event.epoch * self.persons + (event.offset + 1).min(self.persons)).saturating_sub(1)
    }
}

/// The share of one split: the epochs whose number is `index` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) index: u64,
    pub(super) of: u64,
}

/// Walks the events of a share, those of one kind or all, from an event number on.
#[derive(Debug, Clone)]
pub(super) struct EventWalk {
    proportions: Proportions,
    share: Share,
    /// First and one past the last wanted place in an epoch.
    wanted: (u64, u64),
    next: Event,
}

impl EventWalk {
    /// A walk whose first event is the first wanted one at or after `number`.
    pub(super) fn new(
        proportions: Proportions,
        share: Share,
        only: Option<EventKind>,
        number: u64,
    ) -> Self {
        let auctions = proportions.persons;
        let bids = auctions + proportions.auctions;
        let wanted = match only {
            None => (0, proportions.total()),
            Some(EventKind::Person) => (0, auctions),
            Some(EventKind::Auction) => (auctions, bids),
            Some(EventKind::Bid) => (bids, proportions.total()),
        };
        let mut walk = EventWalk {
            proportions,
            share,
            wanted,
            next: proportions.event(number),
        };
        walk.settle();
        walk
    }

    /// The number of the event that comes next.
    pub(super) fn next_number(&self) -> u64 {
        self.next.number
    }

    /// Appends up to `rows` events with numbers below `limit`.
    pub(super) fn take(&mut self, rows: usize, limit: u64, events: &mut Vec<Event>) {
        let end = events.len() + rows;
        while events.len() < end && self.next.number < limit {
            // The rest of this epoch, as far as it is asked for.
            let Event {
                number,
                epoch,
                offset,
                ..
            } = self.next;
            let run = (self.wanted.1 - offset)
                .min((end - events.len()) as u64)
                .min(limit - number);
            events.extend((0..run).map(|step| Event {
                number: number + step,
                epoch,
                offset: offset + step,
                kind: self.proportions.kind(offset + step),
            }));
            self.move_to(epoch, offset + run);
            self.settle();
        }
    }

    #[inline]
    fn settle(&mut self) {
        let (first, end) = self.wanted;
        if self.next.offset >= end {
            self.move_to(self.next.epoch + 1, first);
        } else if self.next.offset < first {
            self.move_to(self.next.epoch, first);
        }
        let Share { index, of } = self.share;
        if of > 1 && self.next.epoch % of != index {
            let behind = (index + of - self.next.epoch % of) % of;
            self.move_to(self.next.epoch + behind, first);
        }
    }

    #[inline]
    fn move_to(&mut self, epoch: u64, offset: u64) {
        self.next = Event {
            number: epoch * self.proportions.total() + offset,
            epoch,
            offset,
            kind: self.proportions.kind(offset),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDARD: Proportions = Proportions {
        persons: 1,
        auctions: 3,
        bids: 46,
    };

    fn numbers(share: Share, only: Option<EventKind>, from: u64, limit: u64) -> Vec<u64> {
        let mut events = Vec::new();
        EventWalk::new(STANDARD, share, only, from).take(usize::MAX / 2, limit, &mut events);
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn one_person_three_auctions_and_the_rest_bids() {
        let whole = Share { index: 0, of: 1 };
        assert_eq!(numbers(whole, None, 0, 120).len(), 120);
        assert_eq!(
            numbers(whole, Some(EventKind::Person), 0, 120),
            [0, 50, 100]
        );
        assert_eq!(
            numbers(whole, Some(EventKind::Auction), 2, 100),
            [2, 3, 51, 52, 53]
        );
        assert_eq!(numbers(whole, Some(EventKind::Bid), 0, 1000).len(), 46 * 20);
    }

    #[test]
    fn shares_part_the_events_without_loss() {
        let mut all: Vec<u64> = (0..3)
            .flat_map(|index| numbers(Share { index, of: 3 }, None, 0, 1234))
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..1234).collect::<Vec<_>>());
        assert_eq!(numbers(Share { index: 2, of: 3 }, None, 0, 1234)[0], 100);
    }

    #[test]
    fn an_event_refers_only_to_what_came_before() {
        assert_eq!(STANDARD.newest_auction(&STANDARD.event(1)), 0);
        assert_eq!(STANDARD.newest_auction(&STANDARD.event(49)), 2);
        assert_eq!(STANDARD.newest_auction(&STANDARD.event(50)), 2);
        assert_eq!(STANDARD.newest_auction(&STANDARD.event(52)), 4);
        assert_eq!(STANDARD.newest_person(&STANDARD.event(0)), 0);
        assert_eq!(STANDARD.newest_person(&STANDARD.event(49)), 0);
        assert_eq!(STANDARD.newest_person(&STANDARD.event(50)), 1);
    }
}
