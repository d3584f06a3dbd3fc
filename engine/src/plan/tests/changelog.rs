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

#[test]
fn an_upsert_sink_says_what_is_missing() {
    let mut into = insert("s", columns(scan(retracting("t")), &["k"]));
    into.table = Arc::new(with_option(
        (*into.table).clone(),
        "changelog-mode",
        "upsert",
    ));
    let error = planned(Statement::Inserts(vec![into]), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("DropUpdateBefore"), "{error}");
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
fn an_upsert_source_cannot_give_the_rows_before_updates() {
    let mut source = with_option(table("t"), "changelog-mode", "upsert");
    source.descriptor.primary_key = vec![0];
    let error = refused(counted(scan(source.clone())));
    assert!(
        error.contains("ChangelogNormalize") && error.contains("WindowAggregate needs"),
        "{error}"
    );
    let mut into = insert("s", columns(scan(source.clone()), &["k", "v"]));
    into.table = Arc::new(with_option(
        (*into.table).clone(),
        "changelog-mode",
        "upsert",
    ));
    planned(Statement::Inserts(vec![into.clone()]), &[]).unwrap();
    into.query = columns(
        filter(scan(source.clone()), |s| {
            call("=", column(s, "k"), column(s, "k"))
        }),
        &["k", "v"],
    );
    planned(Statement::Inserts(vec![into.clone()]), &[]).unwrap();
    into.query = columns(
        filter(scan(source), |s| call(">", column(s, "v"), number(1))),
        &["k", "v"],
    );
    let error = planned(Statement::Inserts(vec![into]), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("Calc needs"), "{error}");
}
