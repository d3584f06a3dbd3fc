use arrow::array::{Array, AsArray};
use arrow::datatypes::Int32Type;

use super::*;
use crate::connectors::lookup::KeyIndex;
use crate::connectors::{LookupRequest, LookupRows};
use crate::expr::{Expression, ExpressionContext, compile};
use crate::operators::test_bench::{batch, check};
use crate::types::{Field, LogicalType, TimeZone};

struct Indexed(KeyIndex);

impl LookupFunction for Indexed {
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows> {
        assert!(request.keys.iter().all(|key| key.null_count() == 0));
        self.0.lookup(request.keys)
    }
}

fn left() -> Schema {
    Schema::new(vec![
        Field::new("l", LogicalType::INT),
        Field::new("k", LogicalType::INT),
    ])
}

fn table() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::INT),
        Field::new("v", LogicalType::STRING),
        Field::new("n", LogicalType::INT),
    ])
}

fn join(kind: JoinKind, with_condition: bool) -> LookupJoinOperator {
    let rows = batch(
        &table(),
        "+I 1, one, 0\n+I 2, two, 20\n+I 2, zwei, 5\n+I null, none, 1",
    );
    let index = KeyIndex::new(&rows.rows, &[0], &[1, 2]).unwrap();
    let column = |index: usize, name: &str| Expression::column(index, name, LogicalType::INT);
    let less = Expression::call(
        "<",
        vec![column(0, "l"), column(3, "n")],
        LogicalType::BOOLEAN,
    );
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    let spec = LookupJoinSpec {
        kind,
        keys: vec![LookupKeyValue::Column(1)],
        condition: with_condition.then(|| compile(&less, &context).unwrap()),
        output: left().join(&table().project(&[1, 2])),
    };
    LookupJoinOperator::new(spec, Box::new(Indexed(index)))
}

const STREAM: &str = "
    +I 10, 2
    -U 11, 1
    -- watermark 5
    +U 1, 1
    +I 12, null
    -D 13, 7
    -- end
";

#[test]
fn each_row_meets_what_the_table_has_and_keeps_its_kind() {
    check(
        || join(JoinKind::Inner, false),
        &[&left()],
        STREAM,
        "
            +I 10, 2, two, 20
            +I 10, 2, zwei, 5
            -U 11, 1, one, 0
            -- watermark 5
            +U 1, 1, one, 0
            -- watermark end
        ",
    );
}

#[test]
fn left_pads_what_is_not_found_or_does_not_satisfy_the_condition() {
    check(
        || join(JoinKind::Left, true),
        &[&left()],
        STREAM,
        "
            +I 10, 2, two, 20
            -U 11, 1, null, null
            -- watermark 5
            +U 1, 1, null, null
            +I 12, null, null, null
            -D 13, 7, null, null
            -- watermark end
        ",
    );
}

#[test]
fn an_index_gives_the_rows_of_a_key_in_the_order_of_the_table() {
    let text: String = (0..1000)
        .map(|n| format!("+I {}, v, {n}\n", n % 7))
        .collect();
    let rows = batch(&table(), &text);
    let index = KeyIndex::new(&rows.rows, &[0], &[2]).unwrap();
    assert_eq!(index.len(), 1000);
    let keys = batch(&table(), "+I 3, x, 0\n+I 9, x, 0\n+I 0, x, 0");
    let found = index.lookup(&[keys.rows.column(0).clone()]).unwrap();
    let values = found.rows.column(0).as_primitive::<Int32Type>();
    let of = |key: u32| -> Vec<i32> {
        let mine = (0..found.of.len()).filter(|row| found.of[*row] == key);
        mine.map(|row| values.value(row)).collect()
    };
    let expected = |key: i32| (0..1000).filter(|n| n % 7 == key).collect::<Vec<i32>>();
    assert_eq!(of(0), expected(3));
    assert_eq!(of(1), Vec::<i32>::new());
    assert_eq!(of(2), expected(0));
}
