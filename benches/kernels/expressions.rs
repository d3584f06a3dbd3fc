//! Row logic: the expressions of the Nexmark queries over a batch of bids.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use volley::expr::{Expression, ExpressionContext, Literal, RowContext, compile};
use volley::functions::bind_scalar;
use volley::stream::WatermarkSteps;
use volley::types::{EventTime, LogicalType, ProcessingTime, TimeZone, TypeRoot};
use volley_benches::rows::{Bids, ROWS, bid_schema};

const COLUMNS: [&str; 7] = [
    "auction", "bidder", "price", "channel", "url", "dateTime", "extra",
];

fn column(name: &str) -> Expression {
    let schema = bid_schema(&COLUMNS);
    let index = schema.index_of(name).expect("a column of bids");
    Expression::column(index, name, schema.fields[index].logical_type.clone())
}

fn call(name: &str, arguments: Vec<Expression>) -> Expression {
    bind_scalar(name, arguments, None).expect("the arguments are right")
}

fn text(value: &str) -> Expression {
    let length = value.chars().count() as u32;
    Expression::literal(
        Literal::String(value.to_string()),
        LogicalType::not_null(TypeRoot::Char(length)),
    )
}

fn number(value: i64) -> Expression {
    Expression::literal(
        Literal::Integer(value),
        LogicalType::not_null(TypeRoot::Int),
    )
}

fn evaluate(criterion: &mut Criterion) {
    let rows = Bids::new(&COLUMNS).batch();
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    let row_context = RowContext {
        processing_time: ProcessingTime(0),
        watermark: EventTime::MIN,
        steps: &WatermarkSteps::NONE,
    };
    let rate = Expression::literal(
        Literal::Decimal("908".to_string()),
        LogicalType::not_null(TypeRoot::Decimal {
            precision: 4,
            scale: 3,
        }),
    );
    let is_even = call(
        "=",
        vec![call("MOD", vec![column("auction"), number(123)]), number(0)],
    );
    let mut group = criterion.benchmark_group("expression");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, expression) in [
        ("MOD(auction, 123) = 0", is_even),
        ("0.908 * price", call("*", vec![rate, column("price")])),
        ("HOUR(dateTime)", call("HOUR", vec![column("dateTime")])),
        ("LOWER(channel)", call("LOWER", vec![column("channel")])),
        (
            "LIKE",
            call("LIKE", vec![column("url"), text("%channel_id=1%")]),
        ),
        (
            "REPLACE(extra, 'c', '')",
            call("REPLACE", vec![column("extra"), text("c"), text("")]),
        ),
        (
            "SPLIT_INDEX(url, '/', 3)",
            call("SPLIT_INDEX", vec![column("url"), text("/"), number(3)]),
        ),
        (
            "REGEXP_EXTRACT(url, …, 2)",
            call(
                "REGEXP_EXTRACT",
                vec![column("url"), text("(&|^)channel_id=([^&]*)"), number(2)],
            ),
        ),
    ] {
        let compiled = compile(&expression, &context).expect("the expression is right");
        group.bench_function(name, |bencher| {
            bencher.iter(|| compiled.evaluate(black_box(&rows), &row_context));
        });
    }
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
