//! Filters and projections.

use super::*;

fn div(schema: &Schema) -> Expression {
    call("/", column(schema, "v"), column(schema, "w"))
}

#[test]
fn adjacent_projections_and_filters_are_one_calc() {
    let filtered = filter(scan(table("t")), |s| call("<>", column(s, "w"), number(0)));
    let projected = select(filtered, &[("k", &|s| column(s, "k")), ("q", &div)]);
    let query = select(projected, &[("q", &|s| column(s, "q"))]);
    check(
        &explained(query),
        "
        Calc(select=[(v / w) AS q], where=[(w <> 0)])
        +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
           +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v, w, ts])
    ",
    );
}

#[test]
fn filters_keep_their_order() {
    let guarded = filter(scan(table("t")), |s| call("<>", column(s, "w"), number(0)));
    let query = columns(filter(guarded, |s| call(">", div(s), number(2))), &["k"]);
    check(
        &explained(query),
        "
        Calc(select=[k], where=[((w <> 0) AND ((v / w) > 2))])
        +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
           +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, w, ts])
    ",
    );
}

#[test]
fn what_is_dear_is_computed_once() {
    let dear =
        |s: &Schema| Expression::call("REGEXP_EXTRACT", vec![column(s, "k")], LogicalType::STRING);
    let projected = select(
        scan(table("t")),
        &[("r", &dear), ("v", &|s| column(s, "v"))],
    );
    let query = filter(projected, |s| call("=", column(s, "r"), column(s, "r")));
    check(
        &explained(query),
        "
        Calc(select=[r, v], where=[(r = r)])
        +- Calc(select=[v, REGEXP_EXTRACT(k) AS r])
           +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
              +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
    ",
    );
}

#[test]
fn what_can_fail_stays_behind_its_guard_even_if_it_is_computed_twice() {
    let projected = select(scan(table("t")), &[("w", &|s| column(s, "w")), ("q", &div)]);
    let query = filter(projected, |s| {
        and(vec![
            call("<>", column(s, "w"), number(0)),
            call(">", column(s, "q"), number(2)),
        ])
    });
    check(
        &explained(columns(query, &["q"])),
        "
        Calc(select=[(v / w) AS q], where=[((w <> 0) AND ((v / w) > 2))])
        +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
           +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v, w, ts])
    ",
    );
}

#[test]
fn a_random_number_is_drawn_once() {
    let random = |_: &Schema| Expression::call("RAND", vec![], LogicalType::DOUBLE);
    let projected = select(scan(table("t")), &[("r", &random)]);
    let query = select(
        projected,
        &[("a", &|s| column(s, "r")), ("b", &|s| column(s, "r"))],
    );
    check(
        &explained(query),
        "
        Calc(select=[r AS a, r AS b])
        +- Calc(select=[RAND() AS r])
           +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
              +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[ts])
    ",
    );
}

#[test]
fn a_union_of_unions_is_one_and_takes_only_what_is_read() {
    let schema = table("t").schema();
    let union = |inputs: Vec<LogicalPlan>| {
        LogicalPlan::Union(Union {
            inputs,
            schema: schema.clone(),
        })
    };
    let inner = union(vec![scan(table("a")), scan(table("b"))]);
    let query = columns(union(vec![inner, scan(table("c"))]), &["v"]);
    check(
        &explained(query),
        "
        Union(all=[true], union=[v])
        :- Calc(select=[v])
        :  +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
        :     +- TableSourceScan(table=[[default_catalog, default_database, a]], fields=[v, ts])
        :- Calc(select=[v])
        :  +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
        :     +- TableSourceScan(table=[[default_catalog, default_database, b]], fields=[v, ts])
        +- Calc(select=[v])
           +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
              +- TableSourceScan(table=[[default_catalog, default_database, c]], fields=[v, ts])
    ",
    );
}

#[test]
fn values_and_unnest_have_their_nodes() {
    let array = LogicalType::nullable(TypeRoot::Array(Box::new(LogicalType::BIGINT)));
    let schema = Schema::new(vec![
        Field::new("a", array.clone()),
        Field::new("b", LogicalType::INT),
    ]);
    let values = LogicalPlan::Values(Values {
        rows: vec![vec![Expression::literal(Literal::Null, array), number(1)]],
        schema: schema.clone(),
    });
    let mut fields = schema.fields.clone();
    fields.push(Field::new("e", LogicalType::BIGINT));
    let query = LogicalPlan::Unnest(Unnest {
        input: Box::new(values),
        collection: column(&schema, "a"),
        with_ordinality: false,
        outer: true,
        schema: Schema::new(fields),
    });
    check(
        &explained(columns(query, &["e"])),
        "
        Calc(select=[e])
        +- Correlate(invocation=[$UNNEST_ROWS$1(a)], select=[a, e], joinType=[LEFT])
           +- Values(tuples=[[{ NULL }]], fields=[a])
    ",
    );
}
