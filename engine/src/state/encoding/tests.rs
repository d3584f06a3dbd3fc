//! Random tables of every type there and back, and what damaged bytes do: an error, never a panic.

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, BooleanBufferBuilder, DictionaryArray, Int64Array,
    ListArray, MapArray, NullArray, StringArray, StructArray, UInt32Array, UInt64Array, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{Fields, Int32Type, IntervalUnit, TimeUnit};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::state::{KEY_HASH_COLUMN, key_hashes_of};
use crate::types::{LogicalType, TypeRoot};

/// Every type that state may hold.
fn types() -> Vec<DataType> {
    let text = DataType::Utf8;
    let list = |inner: DataType| DataType::List(Arc::new(Field::new("item", inner, true)));
    let array = LogicalType::nullable(TypeRoot::Array(Box::new(LogicalType::STRING)));
    let map = TypeRoot::Map(Box::new(LogicalType::STRING), Box::new(array)).to_arrow();
    let multiset = TypeRoot::Multiset(Box::new(LogicalType::BIGINT)).to_arrow();
    let row = DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", list(DataType::Boolean), true),
        Field::new("c", DataType::Utf8, true),
    ]));
    vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 10),
        DataType::Decimal256(60, 10),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Duration(TimeUnit::Millisecond),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        text,
        DataType::Binary,
        DataType::FixedSizeBinary(3),
        DataType::FixedSizeBinary(16),
        list(DataType::Int32),
        list(DataType::Utf8),
        list(list(DataType::Utf8)),
        list(DataType::Null),
        list(row.clone()),
        DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), 3),
        map,
        multiset,
        row,
        DataType::Struct(Fields::empty()),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ]
}

fn random_nulls(random: &mut SmallRng, rows: usize, share: f64) -> Option<NullBuffer> {
    (share > 0.0).then(|| (0..rows).map(|_| !random.random_bool(share)).collect())
}

fn random_offsets(random: &mut SmallRng, rows: usize) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths((0..rows).map(|_| random.random_range(0..4)))
}

fn random_texts(random: &mut SmallRng, rows: usize) -> Vec<String> {
    const WORDS: [&str; 5] = ["", "a", "snow ❄", "a longer text of some words", "Grüße"];
    let mut word = |_| WORDS[random.random_range(0..WORDS.len())].repeat(random.random_range(1..9));
    (0..rows).map(&mut word).collect()
}

/// An array of random values; so many of them are NULL.
fn random_array(random: &mut SmallRng, data_type: &DataType, rows: usize, share: f64) -> ArrayRef {
    let nulls = random_nulls(random, rows, share);
    let texts = |random: &mut SmallRng, nulls: &Option<NullBuffer>| -> StringArray {
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let texts = random_texts(random, rows).into_iter().enumerate();
        texts
            .map(|(row, text)| (!is_null(row)).then_some(text))
            .collect()
    };
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Boolean => {
            let mut bits = BooleanBufferBuilder::new(rows);
            (0..rows).for_each(|_| bits.append(random.random()));
            Arc::new(BooleanArray::new(bits.finish(), nulls))
        }
        DataType::Utf8 => Arc::new(texts(random, &nulls)),
        DataType::Binary => compute::cast(&texts(random, &nulls), data_type).unwrap(),
        DataType::Dictionary(_, _) => {
            let texts = texts(random, &nulls);
            Arc::new(texts.iter().collect::<DictionaryArray<Int32Type>>())
        }
        DataType::List(field) => {
            let offsets = random_offsets(random, rows);
            let elements = offsets[rows] as usize;
            let values = random_array(random, field.data_type(), elements, share);
            Arc::new(ListArray::new(field.clone(), offsets, values, nulls))
        }
        DataType::Map(field, ordered) => {
            let DataType::Struct(fields) = field.data_type() else {
                panic!("entries are rows")
            };
            let offsets = random_offsets(random, rows);
            let elements = offsets[rows] as usize;
            let of = |random: &mut SmallRng, field: &Field| {
                let share = if field.is_nullable() { share } else { 0.0 };
                random_array(random, field.data_type(), elements, share)
            };
            let columns = fields.iter().map(|field| of(random, field)).collect();
            let entries = StructArray::new(fields.clone(), columns, None);
            Arc::new(MapArray::new(
                field.clone(),
                offsets,
                entries,
                nulls,
                *ordered,
            ))
        }
        DataType::FixedSizeList(field, size) => {
            let values = random_array(random, field.data_type(), rows * *size as usize, share);
            let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
            make_array(data.add_child_data(values.to_data()).build().unwrap())
        }
        DataType::Struct(fields) => {
            let of = |random: &mut SmallRng, field: &Field| {
                random_array(random, field.data_type(), rows, share)
            };
            let columns = fields.iter().map(|field| of(random, field)).collect();
            Arc::new(
                StructArray::try_new_with_length(fields.clone(), columns, nulls, rows).unwrap(),
            )
        }
        fixed => {
            let width = match fixed {
                DataType::FixedSizeBinary(width) => *width as usize,
                other => other.primitive_width().unwrap(),
            };
            let bytes: Vec<u64> = (0..(rows * width).div_ceil(8))
                .map(|_| random.random())
                .collect();
            let data = ArrayData::builder(fixed.clone()).len(rows).nulls(nulls);
            let mut data = data.add_buffer(Buffer::from_vec(bytes)).align_buffers(true);
            data = data.offset(0);
            make_array(data.build().unwrap())
        }
    }
}

fn keyed(hashes: Vec<u64>, columns: Vec<ArrayRef>) -> RecordBatch {
    let hashes: ArrayRef = Arc::new(UInt64Array::from(hashes));
    let names = (0..).map(|number| format!("c{number}"));
    let columns = std::iter::zip(names, columns);
    let all = std::iter::once((KEY_HASH_COLUMN.to_string(), hashes)).chain(columns);
    let fields: Vec<Field> = all
        .clone()
        .map(|(name, column)| {
            Field::new(&name, column.data_type().clone(), name != KEY_HASH_COLUMN)
        })
        .collect();
    let columns = all.map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn random_batch(random: &mut SmallRng, types: &[DataType], rows: usize, share: f64) -> RecordBatch {
    let keys = random.random_range(1..=rows.max(1) as u64);
    let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hashes = (0..rows)
        .map(|_| hash(random.random_range(0..keys)))
        .collect();
    let columns = types
        .iter()
        .map(|of| random_array(random, of, rows, share))
        .collect();
    keyed(hashes, columns)
}

fn snapshot(tables: &[(&str, &[RecordBatch])]) -> StateSnapshot {
    let mut snapshot = StateSnapshot::default();
    for (name, batches) in tables {
        snapshot.insert_keyed(name, batches.to_vec());
    }
    snapshot
}

/// What is expected: the rows by hash, in the order of each.
fn sorted(batches: &[RecordBatch]) -> RecordBatch {
    let rows = compute::concat_batches(batches[0].schema_ref(), batches).unwrap();
    let hashes = key_hashes_of(&rows);
    let mut order: Vec<u32> = (0..hashes.len() as u32).collect();
    order.sort_by_key(|row| hashes[*row as usize]);
    compute::take_record_batch(&rows, &UInt32Array::from(order)).unwrap()
}

fn units_of(units: &EncodedUnits) -> Vec<(u64, Vec<u8>)> {
    (0..units.len())
        .map(|unit| (units.hashes()[unit], units.value(unit).to_vec()))
        .collect()
}

fn decode(codec: &UnitCodec, units: &[(u64, Vec<u8>)]) -> Result<StateSnapshot> {
    codec.decode(units.iter().map(|(hash, value)| (*hash, value.as_slice())))
}

fn comes_back(tables: &[(&str, &[RecordBatch])]) -> (UnitCodec, Vec<(u64, Vec<u8>)>) {
    let mut codec = UnitCodec::default();
    let mut units = EncodedUnits::default();
    codec
        .encode(&snapshot(tables), &NoTimes, &mut units)
        .unwrap();
    assert!(units.hashes().is_sorted_by(|a, b| a < b));
    let units = units_of(&units);
    let back = decode(&codec, &units).unwrap();
    for (name, batches) in tables {
        let expected = sorted(batches);
        match back.batches(name) {
            [] => assert_eq!(expected.num_rows(), 0, "{name}"),
            [rows] => assert_eq!(rows, &expected, "{name}"),
            _ => panic!("more than one batch of {name}"),
        }
    }
    (codec, units)
}

#[test]
fn every_type_comes_back() {
    let mut random = SmallRng::seed_from_u64(1);
    for data_type in types() {
        for (rows, share) in [
            (0, 0.0),
            (1, 0.0),
            (1, 1.0),
            (40, 0.0),
            (200, 0.3),
            (200, 1.0),
        ] {
            let batch = random_batch(&mut random, &[data_type.clone()], rows, share);
            comes_back(&[("t", &[batch])]);
        }
    }
}

#[test]
fn slices_of_every_type_come_back() {
    let mut random = SmallRng::seed_from_u64(2);
    for data_type in types() {
        let batch = random_batch(&mut random, &[data_type], 100, 0.3);
        comes_back(&[("t", &[batch.slice(13, 50), batch.slice(70, 9)])]);
        // Rows that are sorted are not copied first.
        comes_back(&[("t", &[sorted(&[batch]).slice(13, 50)])]);
    }
}

#[test]
fn tables_of_random_types_come_back() {
    let mut random = SmallRng::seed_from_u64(3);
    let types = types();
    for _ in 0..60 {
        let mut batch = |rows| {
            let width = random.random_range(0..12);
            let types: Vec<DataType> = (0..width)
                .map(|_| types[random.random_range(0..types.len())].clone())
                .collect();
            random_batch(&mut random, &types, rows, 0.1)
        };
        let (first, second, third) = (batch(120), batch(80), batch(0));
        comes_back(&[("a", &[first]), ("b", &[second]), ("c", &[third])]);
    }
}

#[test]
fn a_row_is_a_packed_tuple() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![5])),
        Arc::new(StringArray::from(vec!["abc"])),
        Arc::new(Int64Array::from(vec![None])),
    ];
    let (_, units) = comes_back(&[("t", &[keyed(vec![9], columns)])]);
    // Never acts; table 0, one row, the third column is NULL; a number, a length and a text.
    let expected = [&[0, 0, 1, 0b100, 5, 0, 0, 0, 0, 0, 0, 0, 3][..], b"abc"].concat();
    assert_eq!(units, [(9, expected)]);
}

#[test]
fn tables_of_the_operator_are_left_out_and_later_tables_are_learned() {
    let number = |number: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![number])) };
    let mut first = snapshot(&[("a", &[keyed(vec![1], vec![number(10)])])]);
    first.insert_json("notes", &1).unwrap();
    let second = snapshot(&[
        ("0", &[keyed(vec![2], vec![number(20)])]),
        ("a", &[keyed(vec![2], vec![number(21)])]),
    ]);
    let mut codec = UnitCodec::default();
    let (mut of_first, mut of_second) = (EncodedUnits::default(), EncodedUnits::default());
    codec.encode(&first, &NoTimes, &mut of_first).unwrap();
    codec.encode(&second, &NoTimes, &mut of_second).unwrap();
    let units = [units_of(&of_first), units_of(&of_second)].concat();
    let back = decode(&codec, &units).unwrap();
    assert_eq!(back.tables.len(), 2);
    assert_eq!(key_hashes_of(&back.batches("a")[0]), [1, 2]);
    assert_eq!(key_hashes_of(&back.batches("0")[0]), [2]);
}

#[test]
fn a_column_may_have_nulls_later_but_not_another_type() {
    let strict = keyed(vec![1], vec![Arc::new(Int64Array::from(vec![1]))]);
    let fields: Vec<Field> = strict
        .schema()
        .fields()
        .iter()
        .map(|f| f.as_ref().clone().with_nullable(false))
        .collect();
    let strict =
        RecordBatch::try_new(Arc::new(Schema::new(fields)), strict.columns().to_vec()).unwrap();
    let lax = keyed(vec![2], vec![Arc::new(Int64Array::from(vec![None]))]);
    let other = keyed(vec![3], vec![Arc::new(StringArray::from(vec!["x"]))]);
    let mut codec = UnitCodec::default();
    let mut units = EncodedUnits::default();
    codec
        .encode(&snapshot(&[("t", &[strict])]), &NoTimes, &mut units)
        .unwrap();
    codec
        .encode(&snapshot(&[("t", &[lax])]), &NoTimes, &mut units)
        .unwrap();
    assert_eq!(
        decode(&codec, &units_of(&units)).unwrap().batches("t")[0]
            .column(1)
            .null_count(),
        1
    );
    assert!(
        codec
            .encode(&snapshot(&[("t", &[other])]), &NoTimes, &mut units)
            .is_err()
    );
}

/// Rows act at their number and are forgotten at ten times that.
struct ByNumber;

impl UnitTimes for ByNumber {
    fn due(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        let column = rows.column(1).as_any().downcast_ref::<Int64Array>()?;
        (table == "a").then(|| column.values().to_vec())
    }

    fn expiries(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        let column = rows.column(1).as_any().downcast_ref::<Int64Array>()?;
        (table != "c").then(|| column.values().iter().map(|number| number * 10).collect())
    }
}

#[test]
fn a_unit_acts_with_its_first_row_and_is_forgotten_with_its_last() {
    let rows = |hashes: &[u64], numbers: &[i64]| {
        keyed(
            hashes.to_vec(),
            vec![Arc::new(Int64Array::from(numbers.to_vec()))],
        )
    };
    let all = snapshot(&[
        ("a", &[rows(&[2, 1, 2], &[7, 5, 3])]),
        ("b", &[rows(&[1, 4], &[6, 1])]),
        ("c", &[rows(&[3], &[1])]),
    ]);
    let mut units = EncodedUnits::default();
    UnitCodec::default()
        .encode(&all, &ByNumber, &mut units)
        .unwrap();
    assert_eq!(units.hashes(), [1, 2, 3, 4]);
    let dues: Vec<i64> = (0..4).map(|unit| units.due(unit)).collect();
    let expiries: Vec<i64> = (0..4).map(|unit| units.expiry(unit)).collect();
    assert_eq!(dues, [5, 3, i64::MAX, i64::MAX]);
    assert_eq!(expiries, [60, 70, i64::MAX, 10]);
    let codec = UnitCodec::default();
    assert!((0..4).all(|unit| codec.due_of(units.value(unit)).unwrap() == dues[unit]));
    let writes = units.writes();
    assert_eq!((writes[1].hash, writes[1].value), (2, Some(units.value(1))));
}

#[test]
fn values_cut_short_are_errors() {
    let mut random = SmallRng::seed_from_u64(4);
    for data_type in types() {
        let batch = random_batch(&mut random, &[data_type], 60, 0.2);
        let (codec, units) = comes_back(&[("t", &[batch])]);
        for (hash, value) in units {
            for length in (0..value.len()).filter(|length| *length != 1) {
                let cut = [(hash, value[..length].to_vec())];
                assert!(decode(&codec, &cut).is_err(), "{length} of {}", value.len());
            }
            let long = [(hash, [value, vec![0]].concat())];
            assert!(decode(&codec, &long).is_err());
        }
    }
}

#[test]
fn damaged_values_never_panic() {
    let mut random = SmallRng::seed_from_u64(5);
    let types = types();
    let mut refused = 0;
    for _ in 0..40 {
        let some: Vec<DataType> = (0..4)
            .map(|_| types[random.random_range(0..types.len())].clone())
            .collect();
        let first = random_batch(&mut random, &some, 30, 0.2);
        let second = random_batch(&mut random, &some[1..], 30, 0.2);
        let (codec, units) = comes_back(&[("a", &[first]), ("b", &[second])]);
        for _ in 0..100 {
            let mut damaged = units.clone();
            let unit = random.random_range(0..damaged.len());
            let value = &mut damaged[unit].1;
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..value.len());
                value[at] = [0, 1, 0x7f, 0x80, 0xff, random.random()][random.random_range(0..6)];
            }
            refused += usize::from(decode(&codec, &damaged).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn noise_never_panics() {
    let mut random = SmallRng::seed_from_u64(6);
    for data_type in types() {
        let batch = random_batch(&mut random, &[data_type], 3, 0.0);
        let mut codec = UnitCodec::default();
        codec.learn(&snapshot(&[("t", &[batch])])).unwrap();
        for length in 0..200 {
            let mut noise: Vec<u8> = (0..length).map(|_| random.random()).collect();
            if let Some(first) = noise.first_mut() {
                *first = 0;
            }
            let _ = decode(&codec, &[(1, noise)]);
        }
    }
}
