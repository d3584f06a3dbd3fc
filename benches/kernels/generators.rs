//! The nexmark source: its cost is part of every job that reads it, so it must be known.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use volley_benches::rows::{Bids, ROWS};

fn nexmark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nexmark bids");
    group.throughput(Throughput::Elements(ROWS as u64));
    for columns in [
        &["auction"][..],
        &["bidder"],
        &["price"],
        &["channel"],
        &["url"],
        &["dateTime"],
        &["extra"],
        &[
            "auction", "bidder", "price", "channel", "url", "dateTime", "extra",
        ],
    ] {
        let mut bids = Bids::new(columns);
        group.bench_function(columns.join(", "), |bencher| bencher.iter(|| bids.batch()));
    }
}

criterion_group!(benches, nexmark);
criterion_main!(benches);
