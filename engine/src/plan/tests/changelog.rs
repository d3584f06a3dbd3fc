//! Kinds of rows on the edges.

use super::*;

fn retracting(name: &str) -> TableSpec {
    with_option(table(name), "changelog-mode", "retract")
}

#[test]
fn the_modes_are_shown() {
    let plan = planned(
        Statement::Inserts(vec![insert("s", counted(scan(retracting("t"))))]),
        &[],
    )
    .unwrap();
    check(&without_heading(&shown(&plan, true)), "
        Sink(table=[default_catalog.default_database.s], fields=[k, window_start, window_end, n, total], changelogMode=[NONE])
        +- Calc(select=[k, window_start, window_end, n, total], changelogMode=[I])
           +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, SUM(v) AS total, start('w$) AS window_start, end('w$) AS window_end], changelogMode=[I])
              +- Exchange(distribution=[hash[k]], changelogMode=[I,UB,UA,D])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)], changelogMode=[I,UB,UA,D])
                    +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts], changelogMode=[I,UB,UA,D])
    ");
}

#[test]
fn updating_rows_are_not_folded_before_the_exchange() {
    let text = explained_with(
        counted(scan(retracting("t"))),
        &[("parallelism.default", "2")],
    );
    assert!(!text.contains("Local"), "{text}");
}

#[test]
fn an_insert_only_sink_refuses_updates() {
    let error = planned(
        Statement::Inserts(vec![insert("s", columns(scan(retracting("t")), &["k"]))]),
        &[],
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains(
            "Table sink 'default_catalog.default_database.s' doesn't support consuming update and delete changes which is \
             produced by node TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])"
        ),
        "{error}"
    );
}

/// A table whose rows are named by `k`.
fn keyed(name: &str, mode: &str) -> TableSpec {
    let mut source = with_option(table(name), "changelog-mode", mode);
    source.descriptor.primary_key = vec![0];
    source
}

/// INSERT INTO a table that takes rows in this mode, named by its first column.
fn insert_keyed(mode: &str, query: LogicalPlan) -> Insert {
    let mut into = insert("s", query);
    let mut table = with_option((*into.table).clone(), "changelog-mode", mode);
    table.descriptor.primary_key = vec![0];
    into.table = Arc::new(table);
    into
}

fn modes_of(inserts: Vec<Insert>) -> String {
    modes_with(inserts, &[])
}

/// EXPLAIN CHANGELOG_MODE with the names of nodes only.
fn modes_with(inserts: Vec<Insert>, options: &[(&str, &str)]) -> String {
    let plan = planned(Statement::Inserts(inserts), options).unwrap();
    let text = without_heading(&shown(&plan, true));
    let short = |line: &str| {
        if line.trim().is_empty() || line.contains("Reused") {
            return line.to_string();
        }
        let name = line.split('(').next().unwrap_or(line);
        let mode = line.rsplit("changelogMode=").next().unwrap_or("");
        let marks = if line.contains("upsertMaterialize") {
            " materialized"
        } else {
            ""
        };
        format!("{name} {}{marks}", mode.split(')').next().unwrap_or(mode))
    };
    text.lines().map(short).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_window_rank_refuses_updates() {
    let numbered = numbered(
        tumbled(scan(retracting("t"))),
        &["window_start", "window_end"],
        &[("v", true)],
    );
    let query = columns(
        filter(numbered, |s| call("<=", column(s, "rn"), number(3))),
        &["k"],
    );
    let error = refused(query);
    assert!(
        error.contains("WindowRank doesn't support consuming update and delete changes"),
        "{error}"
    );
}

#[test]
fn a_sink_of_upserts_gets_no_old_rows() {
    let query = columns(scan(keyed("t", "retract")), &["k", "v"]);
    check(
        &modes_of(vec![insert_keyed("upsert", query.clone())]),
        "
        Sink [NONE]
        +- Calc [I,UA,D]
           +- DropUpdateBefore [I,UA,D]
              +- WatermarkAssigner [I,UB,UA,D]
                 +- TableSourceScan [I,UB,UA,D]
    ",
    );
    check(
        &modes_of(vec![insert_keyed("retract", query)]),
        "
        Sink [NONE]
        +- Calc [I,UB,UA,D]
           +- WatermarkAssigner [I,UB,UA,D]
              +- TableSourceScan [I,UB,UA,D]
    ",
    );
}

#[test]
fn a_sink_of_upserts_with_another_key_gets_old_rows_and_remembers() {
    let query = columns(scan(keyed("t", "retract")), &["v", "k"]);
    let expected = "
        Sink [NONE] materialized
        +- Calc [I,UB,UA,D]
           +- WatermarkAssigner [I,UB,UA,D]
              +- TableSourceScan [I,UB,UA,D]
    ";
    check(
        &modes_of(vec![insert_keyed("upsert", query.clone())]),
        expected,
    );
    let option = "table.exec.sink.upsert-materialize";
    let none = modes_with(
        vec![insert_keyed("upsert", query.clone())],
        &[(option, "NONE")],
    );
    check(&none, &expected.replace(" materialized", ""));
    let append = columns(scan(table("t")), &["v", "k"]);
    let append = modes_of(vec![insert_keyed("upsert", append)]);
    assert!(!append.contains("materialized"), "{append}");
    let same = columns(scan(keyed("t", "retract")), &["k", "v"]);
    let forced = modes_with(vec![insert_keyed("upsert", same)], &[(option, "FORCE")]);
    assert!(forced.contains("materialized"), "{forced}");
}

#[test]
fn an_on_conflict_clause_is_asked_for() {
    let query = columns(scan(keyed("t", "retract")), &["v", "k"]);
    let mut into = insert_keyed("upsert", query);
    let options = [("table.exec.sink.require-on-conflict", "true")];
    let error = planned(Statement::Inserts(vec![into.clone()]), &options).unwrap_err();
    assert_eq!(
        error.position(),
        Some(SqlPosition {
            line: 1,
            column: 13
        })
    );
    let text = error.to_string();
    for part in [
        "Primary key: [v], upsert key: [k]",
        "ON CONFLICT DO NOTHING",
    ] {
        assert!(text.contains(part), "{text}");
    }
    into.on_conflict = Some(OnConflict::DoDeduplicate);
    planned(Statement::Inserts(vec![into.clone()]), &options).unwrap();
    let mut table = (*into.table).clone();
    table.descriptor.primary_key.clear();
    into.table = Arc::new(table);
    let text = planned(Statement::Inserts(vec![into]), &[])
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("ON CONFLICT DO DEDUPLICATE needs a PRIMARY KEY"),
        "{text}"
    );
}

#[test]
fn a_filter_on_other_columns_needs_the_old_rows() {
    let filtered = |column_name: &str| {
        let source = scan(keyed("t", "retract"));
        let query = filter(source, |s| {
            call("=", column(s, column_name), column(s, column_name))
        });
        modes_of(vec![insert_keyed("upsert", columns(query, &["k", "v"]))])
    };
    check(
        &filtered("v"),
        "
        Sink [NONE]
        +- Calc [I,UB,UA,D]
           +- WatermarkAssigner [I,UB,UA,D]
              +- TableSourceScan [I,UB,UA,D]
    ",
    );
    assert!(filtered("k").contains("DropUpdateBefore [I,UA,D]"));
}

#[test]
fn one_consumer_that_needs_old_rows_is_enough() {
    let source = scan(keyed("t", "upsert"));
    let by_key = insert_keyed("upsert", columns(source.clone(), &["k", "v"]));
    check(
        &modes_of(vec![by_key.clone()]),
        "
        Sink [NONE]
        +- Calc [I,UA,D]
           +- WatermarkAssigner [I,UA,D]
              +- TableSourceScan [I,UA,D]
    ",
    );
    let counted = insert("n", counted(source));
    let text = modes_of(vec![by_key, counted]);
    check(
        &text,
        "
        Sink [NONE]
        +- Calc [I,UB,UA,D]
           +- ChangelogNormalize [I,UB,UA,D]
              +- Exchange [I,UA,D]
                 +- WatermarkAssigner [I,UA,D]
                    +- TableSourceScan [I,UA,D]

        Sink [NONE]
        +- Calc [I]
           +- WindowAggregate [I]
              +- Reused(reference_id=[1])
    ",
    );
}

#[test]
fn a_filter_behind_an_upsert_source_is_taken_over() {
    let query = filter(scan(keyed("t", "upsert")), |s| {
        call(">", column(s, "v"), number(1))
    });
    let plan = planned(
        Statement::Inserts(vec![insert_keyed("upsert", columns(query, &["k", "v"]))]),
        &[],
    )
    .unwrap();
    check(&without_heading(&shown(&plan, true)), "
        Sink(table=[default_catalog.default_database.s], fields=[k, v], changelogMode=[NONE])
        +- Calc(select=[k, v], changelogMode=[I,UA,D])
           +- ChangelogNormalize(key=[k], condition=[(v > 1)], changelogMode=[I,UA,D])
              +- Exchange(distribution=[hash[k]], changelogMode=[I,UA,D])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)], changelogMode=[I,UA,D])
                    +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts], changelogMode=[I,UA,D])
    ");
}

#[test]
fn an_aggregation_needs_old_rows_though_nobody_reads_the_key() {
    let plan = planned(
        Statement::Inserts(vec![insert(
            "s",
            columns(counted(scan(keyed("t", "upsert"))), &["n"]),
        )]),
        &[],
    )
    .unwrap();
    let text = shown(&plan, true);
    assert!(
        text.contains("ChangelogNormalize(key=[k], changelogMode=[I,UB,UA,D])"),
        "{text}"
    );
}

#[test]
fn repeated_changes_are_told_by_the_primary_key() {
    let option = [("table.exec.source.cdc-events-duplicate", "true")];
    let query = counted(scan(keyed("t", "retract")));
    check(
        &modes_with(vec![insert("s", query)], &option),
        "
        Sink [NONE]
        +- Calc [I]
           +- WindowAggregate [I]
              +- ChangelogNormalize [I,UB,UA,D]
                 +- Exchange [I,UA,D]
                    +- DropUpdateBefore [I,UA,D]
                       +- WatermarkAssigner [I,UB,UA,D]
                          +- TableSourceScan [I,UB,UA,D]
    ",
    );
    let error = planned(
        Statement::Inserts(vec![insert("s", counted(scan(retracting("t"))))]),
        &option,
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("needs a PRIMARY KEY"), "{error}");
}

#[test]
fn an_upsert_source_needs_a_primary_key() {
    let source = with_option(table("t"), "changelog-mode", "upsert");
    let error = refused(columns(scan(source), &["k"]));
    assert!(error.contains("declares no PRIMARY KEY"), "{error}");
}

#[test]
fn a_refusal_says_where_and_what_to_do() {
    let error = planned(
        Statement::Inserts(vec![insert("s", columns(scan(retracting("t")), &["k"]))]),
        &[],
    )
    .unwrap_err();
    assert_eq!(
        error.position(),
        Some(SqlPosition {
            line: 1,
            column: 13
        })
    );
    assert!(
        error
            .to_string()
            .contains("write to a table that takes updates")
    );
}

#[test]
fn a_join_on_other_columns_than_the_keys_needs_the_old_rows() {
    let modes = |on: &str| {
        let sides = [keyed("l", "retract"), keyed("r", "retract")].map(scan);
        let [left, right] = sides;
        let join = joined(JoinKind::Inner, left, right, |l, r| equal(l, r, on));
        modes_of(vec![insert_keyed("upsert", columns(join, &["k"]))])
    };
    let by_key = modes("k");
    assert!(by_key.contains("Join [I,UA,D]"), "{by_key}");
    assert_eq!(by_key.matches("DropUpdateBefore").count(), 2, "{by_key}");
    let by_value = modes("v");
    assert!(by_value.contains("Join [I,UB,UA,D]"), "{by_value}");
    assert!(!by_value.contains("DropUpdateBefore"), "{by_value}");
    assert!(by_value.contains("materialized"), "{by_value}");
}

#[test]
fn updates_by_key_into_a_join_are_made_whole() {
    let join = joined(
        JoinKind::Left,
        scan(keyed("l", "upsert")),
        scan(keyed("r", "upsert")),
        |l, r| equal(l, r, "k"),
    );
    let text = modes_of(vec![insert_keyed("upsert", columns(join, &["k"]))]);
    assert_eq!(
        text.matches("ChangelogNormalize [I,UA,D]").count(),
        2,
        "{text}"
    );
    assert!(text.contains("Join [I,UA,D]"), "{text}");
}
