//! Words of the auction site: names, addresses, channels with their urls, and padding.

use super::super::draw::{ColumnDraws, Draw};

const FIRST_NAMES: [&str; 11] = [
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
];
const LAST_NAMES: [&str; 9] = [
    "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris",
];
const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
const CITIES: [&str; 10] = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
const CHANNELS: u64 = 10_000;

fn one_of(words: &[&str], draw: &mut Draw, out: &mut Vec<u8>) {
    out.extend_from_slice(words[draw.below(words.len() as u64) as usize].as_bytes());
}

/// A first and a last name.
pub(super) fn name(draw: &mut Draw, out: &mut Vec<u8>) {
    one_of(&FIRST_NAMES, draw, out);
    out.push(b' ');
    one_of(&LAST_NAMES, draw, out);
}

/// A state of the west.
pub(super) fn state(draw: &mut Draw, out: &mut Vec<u8>) {
    one_of(&STATES, draw, out);
}

/// A city of the west.
pub(super) fn city(draw: &mut Draw, out: &mut Vec<u8>) {
    one_of(&CITIES, draw, out);
}

/// Up to 19 letters.
pub(super) fn item_name(draw: &mut Draw, out: &mut Vec<u8>) {
    words(20, b' ', draw, out);
}

/// Up to 99 letters.
pub(super) fn description(draw: &mut Draw, out: &mut Vec<u8>) {
    words(100, b' ', draw, out);
}

/// `word@word.com`.
pub(super) fn email_address(draw: &mut Draw, out: &mut Vec<u8>) {
    words(7, b' ', draw, out);
    out.push(b'@');
    words(5, b' ', draw, out);
    out.extend_from_slice(b".com");
}

/// Four groups of four digits.
pub(super) fn credit_card(draw: &mut Draw, out: &mut Vec<u8>) {
    for group in 0..4 {
        if group > 0 {
            out.push(b' ');
        }
        let number = draw.below(10_000) as u32;
        out.extend([1000, 100, 10, 1].map(|unit| b'0' + (number / unit % 10) as u8));
    }
}

/// Three to `max_length - 1` letters, one in thirteen of them `gap`; gaps at the ends are cut off when they are spaces.
pub(super) fn words(max_length: u64, gap: u8, draw: &mut Draw, out: &mut Vec<u8>) {
    const SHORTEST: u64 = 3;
    let start = out.len();
    let length = SHORTEST + draw.below(max_length - SHORTEST);
    draw.letters(length as usize, out);
    for eight in out[start..].chunks_mut(8) {
        let chances = draw.bits().to_le_bytes();
        for (place, letter) in eight.iter_mut().enumerate() {
            if (chances[place] as u32 * 13) >> 8 == 0 {
                *letter = gap;
            }
        }
    }
    while out.len() > start && out[out.len() - 1] == b' ' {
        out.pop();
    }
    let leading = out[start..]
        .iter()
        .take_while(|byte| **byte == b' ')
        .count();
    out.drain(start..start + leading);
}

/// Letters that bring a row of `size` bytes to an average of `average` bytes, give or take a fifth of what is missing.
pub(super) fn padding(size: u64, average: u64, draw: &mut Draw, out: &mut Vec<u8>) {
    let missing = average.saturating_sub(size);
    let spread = (missing as f64 * 0.2).round() as u64;
    let length = missing - spread
        + if spread == 0 {
            0
        } else {
            draw.below(2 * spread)
        };
    draw.letters(length as usize, out);
}

/// Where bids come from: four hot channels, which half of the bids use, and ten thousand others, each with its url.
#[derive(Debug)]
pub(super) struct Channels {
    text: Vec<u8>,
    /// For each channel where its name starts and its url starts; the next channel's name ends the url.
    starts: Vec<(u32, u32)>,
}

impl Channels {
    /// The channels of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let urls = ColumnDraws::new(seed, 100);
        let count = HOT_CHANNELS.len() as u64 + CHANNELS;
        let mut channels = Channels {
            text: Vec::with_capacity(count as usize * 64),
            starts: Vec::with_capacity(count as usize + 1),
        };
        for channel in 0..count {
            channels.add(channel, &mut urls.row(channel));
        }
        let end = channels.text.len() as u32;
        channels.starts.push((end, end));
        channels
    }

    fn add(&mut self, channel: u64, draw: &mut Draw) {
        let name_start = self.text.len() as u32;
        let number = channel.checked_sub(HOT_CHANNELS.len() as u64);
        match number {
            None => self
                .text
                .extend_from_slice(HOT_CHANNELS[channel as usize].as_bytes()),
            Some(number) => self
                .text
                .extend_from_slice(format!("channel-{number}").as_bytes()),
        }
        self.starts.push((name_start, self.text.len() as u32));
        self.text.extend_from_slice(b"https://www.nexmark.com/");
        for _ in 0..3 {
            words(5, b'_', draw, &mut self.text);
            self.text.push(b'/');
        }
        self.text.extend_from_slice(b"item.htm?query=1");
        if let Some(number) = number.filter(|_| !draw.once_in(10)) {
            let id = (number as u32).reverse_bits() as i32;
            self.text
                .extend_from_slice(format!("&channel_id={}", id.unsigned_abs()).as_bytes());
        }
    }

    /// The channel of a bid.
    #[inline]
    pub(super) fn pick(&self, draw: &mut Draw) -> usize {
        let hot = HOT_CHANNELS.len() as u64;
        if draw.once_in(2) {
            (hot + draw.below(CHANNELS)) as usize
        } else {
            draw.below(hot) as usize
        }
    }

    /// Its name.
    #[inline]
    pub(super) fn name(&self, channel: usize) -> &[u8] {
        let (name, url) = self.starts[channel];
        &self.text[name as usize..url as usize]
    }

    /// Its url.
    #[inline]
    pub(super) fn url(&self, channel: usize) -> &[u8] {
        &self.text[self.starts[channel].1 as usize..self.starts[channel + 1].0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_are_short_and_trimmed() {
        let column = ColumnDraws::new(1, 2);
        for row in 0..2000 {
            let word = text(|out| words(20, b' ', &mut column.row(row), out));
            assert!(word.len() < 20 && word == word.trim(), "{word:?}");
        }
    }

    #[test]
    fn padding_averages_what_is_missing() {
        let column = ColumnDraws::new(1, 2);
        let total: usize = (0..10_000)
            .map(|row| text(|out| padding(32, 100, &mut column.row(row), out)).len())
            .sum();
        assert!((66..69).contains(&(total / 10_000)), "{total}");
        assert_eq!(text(|out| padding(200, 100, &mut column.row(0), out)), "");
    }

    #[test]
    fn half_of_the_bids_are_hot_and_nine_in_ten_others_have_an_id() {
        let channels = Channels::new(3);
        let column = ColumnDraws::new(3, 5);
        let picked: Vec<usize> = (0..10_000)
            .map(|row| channels.pick(&mut column.row(row)))
            .collect();
        let hot = picked.iter().filter(|channel| **channel < 4).count();
        assert!((4_700..5_300).contains(&hot), "{hot}");
        let url = |channel: usize| std::str::from_utf8(channels.url(channel)).unwrap();
        assert_eq!(channels.name(0), b"Google");
        assert_eq!(channels.name(4 + 9_999), b"channel-9999");
        assert!(url(3).starts_with("https://www.nexmark.com/") && url(3).ends_with("?query=1"));
        let with_id = (4..10_004)
            .filter(|channel| url(*channel).contains("&channel_id="))
            .count();
        assert!((8_800..9_200).contains(&with_id), "{with_id}");
    }
}
