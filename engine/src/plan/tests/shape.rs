//! What holds for every plan: order, ids, parallelism, names of state.

use super::*;

#[test]
fn a_plan_survives_its_json() {
    let plan = planned(
        Statement::Select(counted(scan(table("t")))),
        &[("parallelism.default", "4")],
    )
    .unwrap();
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<ExecPlan>(&json).unwrap(), plan);
}

#[test]
fn nodes_come_after_their_inputs_and_have_names_of_their_own() {
    let plan = planned(
        Statement::Inserts(vec![
            insert("a", counted(scan(table("t")))),
            insert("a", counted(scan(table("t")))),
        ]),
        &[],
    )
    .unwrap();
    for (index, node) in plan.nodes.iter().enumerate() {
        assert_eq!(node.id, NodeId(index));
        assert!(node.inputs.iter().all(|input| *input < node.id));
    }
    let mut uids: Vec<&str> = plan.nodes.iter().map(|node| node.uid.as_str()).collect();
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), plan.nodes.len());
}

#[test]
fn the_names_of_state_do_not_depend_on_parallelism() {
    let stateful = |parallelism: &str| {
        let query = columns(counted(scan(table("t"))), &["k", "n"]);
        let plan = planned(
            Statement::Select(query),
            &[("parallelism.default", parallelism)],
        )
        .unwrap();
        let mut uids: Vec<String> = plan
            .nodes
            .iter()
            .filter(|node| {
                !matches!(
                    node.kind,
                    ExecNodeKind::Exchange(_) | ExecNodeKind::LocalWindowAggregate(_)
                )
            })
            .map(|node| node.uid.clone())
            .collect();
        uids.sort_unstable();
        uids
    };
    assert_eq!(stateful("1"), stateful("3"));
}

#[test]
fn a_single_sink_gets_its_rows_through_one_subtask() {
    let mut insert = insert("s", columns(scan(table("t")), &["k"]));
    insert.table = Arc::new(with_option(
        (*insert.table).clone(),
        "connector",
        "terminal",
    ));
    let plan = planned(
        Statement::Inserts(vec![insert]),
        &[("parallelism.default", "2")],
    )
    .unwrap();
    let sink = plan.node(plan.roots[0]);
    assert_eq!(sink.parallelism, 1);
    assert_eq!(plan.node(sink.inputs[0]).kind.name(), "Exchange");
    for node in &plan.nodes {
        for input in plan.inputs(node) {
            let exchanges = matches!(node.kind, ExecNodeKind::Exchange(_));
            assert!(
                exchanges || input.parallelism == node.parallelism,
                "{}",
                node.kind.name()
            );
        }
    }
}

#[test]
fn a_not_null_column_of_a_sink_is_guarded() {
    let mut insert = insert("s", columns(scan(table("t")), &["k", "v"]));
    let mut target = (*insert.table).clone();
    target.descriptor.physical.fields[1].logical_type.nullable = false;
    insert.table = Arc::new(target);
    let plan = planned(
        Statement::Inserts(vec![insert]),
        &[("table.exec.sink.not-null-enforcer", "DROP")],
    )
    .unwrap();
    let ExecNodeKind::Sink(sink) = &plan.node(plan.roots[0]).kind else {
        unreachable!()
    };
    assert_eq!(
        (sink.not_null.clone(), sink.enforcer),
        (vec![1], nodes::NotNullEnforcer::Drop)
    );
}
