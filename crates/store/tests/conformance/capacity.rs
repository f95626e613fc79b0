//! Limits above schedules: the concurrency of a workflow, and the capacity of a node.

use engine::run::RunStatus;
use engine::turn::{Capacity, Command, IfBusy, NewRun, Refused};
use serde_json::json;
use store::{Failure, Report, TurnRequest};

use crate::process::{child, step};
use crate::world::{World, begun, failed, minute, performs, refusal, succeeded};

fn limited(name: &str, concurrency: u32) -> String {
    format!("name: {name}\nconcurrency: {concurrency}\nsteps: [{{id: a, type: noop}}]\n")
}

pub(crate) async fn a_workflow_has_no_more_active_runs_than_it_may(world: World) {
    let workflow = world.publish(0, &limited("w", 2)).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let fields = format!(r#"{{"name": "{name}", "interval": "5m"}}"#);
        ids.push(world.schedule(workflow, &fields).await);
    }
    let turned = world.turn(5).await;
    let runs: Vec<String> = ids.iter().map(|id| format!("sched-{id}-n0-rc0")).collect();
    assert_eq!(begun(&turned), runs[..2]);
    assert_eq!(world.workflow_view(workflow).await.workflow.active, 2);
    assert_eq!(world.ledger(ids[2]).await, ["0 queued 5"], "it has its run, but no place yet");
    assert_eq!(world.status(&runs[2].parse().unwrap()).await, RunStatus::Pending);

    // A slot that becomes free goes to the oldest run.
    let turned = world.turn_with(6, vec![succeeded(&performs(&turned)[1])]).await;
    assert_eq!(begun(&turned), [runs[2].clone()]);
    assert_eq!(world.ledger(ids[2]).await, ["0 started 5"]);
    // A waiting run can be cancelled, and takes no slot.
    let cancel = Command::CancelRun { id: runs[3].parse().unwrap(), reason: "enough".to_owned() };
    world.command(7, cancel).await;
    let turned = world.turn_with(7, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(begun(&turned), Vec::<String>::new());
    assert_eq!(world.workflow_view(workflow).await.workflow.active, 1);
}

pub(crate) async fn free_places_go_round_the_workflows(world: World) {
    let mut ids = Vec::new();
    for (name, schedules) in [("busy", 6), ("calm", 1), ("quiet", 1)] {
        let workflow = world.publish(0, &limited(name, 100)).await;
        for _ in 0..schedules {
            ids.push(world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T00:05Z"}"#).await);
        }
    }
    let none = world.try_turn(5, Vec::new(), 1_000, Capacity::new(0)).await;
    assert_eq!((begun(&none), none.capacity.rescan), (vec![], true));
    // With two slots at a time, no workflow is served twice before the others.
    let mut order = Vec::new();
    let mut capacity = none.capacity;
    for _ in 0..4 {
        let turned = world.try_turn(5, Vec::new(), 0, Capacity { free_slots: 2, ..capacity }).await;
        capacity = turned.capacity;
        order.extend(begun(&turned));
    }
    let run = |place: usize| format!("sched-{}-n0-rc0", ids[place]);
    let fair = [run(0), run(6), run(7), run(1), run(2), run(3), run(4), run(5)];
    assert_eq!(order, fair);
}

pub(crate) async fn a_busy_workflow_leaves_slots_for_the_others(world: World) {
    let busy = world.publish(0, &limited("busy", 100)).await;
    let calm = world.publish(0, &limited("calm", 100)).await;
    for _ in 0..30 {
        world.schedule(busy, r#"{"name": "s", "at": "2026-03-02T00:05Z"}"#).await;
    }
    let id = world.schedule(calm, r#"{"name": "s", "at": "2026-03-02T00:06Z"}"#).await;
    let first = world.try_turn(5, Vec::new(), 1_000, Capacity::new(18)).await;
    assert_eq!((begun(&first).len(), first.capacity.free_slots), (16, 2));
    assert!(first.capacity.rescan, "the rest waits until a slot becomes free");
    assert!(!first.capacity.has_more, "and no turn follows before that");

    let holding = |held: usize, at: i64, reports: Vec<Report>| TurnRequest {
        moment: world.moment(at),
        node: world.node,
        reports,
        limit: 1_000,
        begin: None,
        capacity: Capacity::new(18 - held),
        held: [(busy, held)].into_iter().collect(),
        performed: None,
        traced: false,
    };
    let other = world.store().turn(holding(16, 6, Vec::new())).await.unwrap();
    assert_eq!(begun(&other), [format!("sched-{id}-n0-rc0")]);
    // A slot of its own that becomes free goes to the next run of the busy workflow.
    let ended = performs(&first)[..1].iter().map(succeeded).collect();
    let next = world.store().turn(holding(15, 6, ended)).await.unwrap();
    assert_eq!((begun(&next).len(), next.capacity.free_slots), (1, 2));
}

/// A turn that may fill only some of the free slots still counts all of them for the share.
pub(crate) async fn slots_for_other_turns_count_for_the_share(world: World) {
    let busy = world.publish(0, &limited("busy", 100)).await;
    for _ in 0..30 {
        world.schedule(busy, r#"{"name": "s", "at": "2026-03-02T00:05Z"}"#).await;
    }
    let take = async |held, free_slots, other_free_slots| {
        let request = TurnRequest {
            moment: world.moment(5),
            node: world.node,
            reports: Vec::new(),
            limit: 1_000,
            begin: None,
            capacity: Capacity { other_free_slots, ..Capacity::new(free_slots) },
            held: [(busy, held)].into_iter().collect(),
            performed: None,
            traced: false,
        };
        begun(&world.store().turn(request).await.unwrap()).len()
    };
    assert_eq!(take(80, 10, 0).await, 0);
    assert_eq!(take(80, 10, 10).await, 9);
    assert_eq!(take(89, 1, 40).await, 1, "no more than it was granted");
}

pub(crate) async fn what_has_begun_waits_for_a_place_and_goes_on_first(mut world: World) {
    let steps = "steps: [{id: a, type: noop, retry: {max: 3, delay: 1m}}]\n";
    let patient = world.publish(0, &format!("name: w\nconcurrency: 2\n{steps}")).await;
    let run = world.start(0, patient).await.unwrap();
    let turned = world.turn(0).await;
    world.turn_with(0, vec![failed(&performs(&turned)[0])]).await;
    let other = world.start(0, patient).await.unwrap();
    // The timer is due, but the node has no capacity.
    let none = world.try_turn(1, Vec::new(), 1_000, Capacity::new(0)).await;
    assert_eq!((begun(&none), none.capacity.rescan), (vec![], true));
    assert_eq!(world.status(&run).await, RunStatus::Waiting);
    assert_eq!(world.workflow_view(patient).await.workflow.active, 1);
    assert!(none.next_wakeup.is_none_or(|at| at > minute(1)), "nothing is due any more");
    for expected in [run, other] {
        let turned =
            world.try_turn(1, Vec::new(), 0, Capacity { free_slots: 1, ..none.capacity }).await;
        assert_eq!(begun(&turned), [expected.to_string()]);
    }
    assert_eq!(world.workflow_view(patient).await.workflow.active, 2);
}

pub(crate) async fn starts_by_hand_run_side_by_side_or_wait_their_turn(mut world: World) {
    let any = world.workflow("any").await;
    let two = world.publish(0, &limited("two", 2)).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        world.start(0, any).await.unwrap();
        runs.push(world.start(0, two).await.unwrap());
    }
    let turned = world.turn(1).await;
    assert_eq!(begun(&turned).len(), 6);
    let mut positions = Vec::new();
    for run in &runs {
        positions.push(world.run(run).await.position);
    }
    assert_eq!(positions, [None, None, Some(1), Some(2)]);
    let first = performs(&turned).into_iter().find(|perform| perform.run_id == runs[0]).unwrap();
    let turned = world.turn_with(2, vec![succeeded(&first)]).await;
    assert_eq!(begun(&turned), [runs[2].to_string()], "oldest first");
    assert_eq!(world.run(&runs[3]).await.position, Some(1));
    refusal(world.start(3, engine::WorkflowId(99)).await);
}

/// A family with more runs than one turn may begin leaves some of the turn's starts to others.
pub(crate) async fn a_large_family_leaves_starts_to_others(mut world: World) {
    world.workflow("part").await;
    let items: Vec<u32> = (0..300).collect();
    let each = json!({"type": "for_each", "items": items, "action": child("part"),
                      "max_parallel": 300});
    let many = json!({"name": "many", "steps": [step("each", &[], each)]});
    let many = world.deploy(0, many).await;
    let other = world.workflow("other").await;
    world.start(0, many).await.unwrap();
    let few = Capacity { starts: 40, ..Capacity::new(1_000) };
    let first = world.try_turn(0, Vec::new(), 1_000, few).await;
    assert!(first.capacity.has_more, "the family does not fit into one turn");
    let run = world.start(1, other).await.unwrap().to_string();
    let turned =
        world.try_turn(1, Vec::new(), 1_000, Capacity { starts: 40, ..first.capacity }).await;
    let begun = begun(&turned);
    assert!(begun.contains(&run), "{begun:?}");
    assert!((2..=40).contains(&begun.len()), "{begun:?}");
}

pub(crate) async fn a_refused_start_names_the_run_in_its_way(mut world: World) {
    let two = world.publish(0, &limited("two", 2)).await;
    let refused = async |world: &mut World| {
        let run = NewRun { if_busy: IfBusy::Refuse, ..world.new_run() };
        match world.try_command(1, Command::StartWorkflow { id: two, run }).await {
            Ok(_) => None,
            Err(Failure::Refused(Refused::Busy { message, run })) => {
                assert!(message.contains("at most 2 at a time"), "{message}");
                assert!(message.contains("has not ended"), "{message}");
                run
            }
            Err(other) => panic!("{other}"),
        }
    };
    let first = world.start(0, two).await.unwrap();
    assert_eq!(refused(&mut world).await, None, "there is room for another");
    assert_eq!(refused(&mut world).await, Some(first.clone()), "before the first has begun");
    let turned = world.turn(1).await;
    assert_eq!(refused(&mut world).await, Some(first));
    let reports = performs(&turned).iter().map(succeeded).collect();
    world.turn_with(2, reports).await;
    assert_eq!(refused(&mut world).await, None);
}

pub(crate) async fn a_new_limit_counts_what_is_active(mut world: World) {
    let workflow = world.workflow("w").await;
    world.start(0, workflow).await.unwrap();
    let turned = world.turn(0).await;
    world.publish(1, &limited("w", 1)).await;
    assert_eq!(world.workflow_view(workflow).await.workflow.active, 1);
    let second = world.start(1, workflow).await.unwrap();
    assert_eq!(begun(&world.turn(1).await), Vec::<String>::new());
    let turned = world.turn_with(2, vec![succeeded(&performs(&turned)[0])]).await;
    assert_eq!(begun(&turned), [second.to_string()]);
    assert_eq!(world.workflow_view(workflow).await.workflow.active, 1);
}
