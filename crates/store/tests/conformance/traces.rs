//! Runs and attempts that end are returned as spans, whose ids follow from what is stored.

use engine::trace::{Span, TraceContext};
use engine::turn::{Command, NewRun, Perform};
use engine::{RunId, WorkflowId};

use crate::process::{child, noop, step};
use crate::world::{World, failed, minute, performs, run_id, succeeded};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn caller() -> TraceContext {
    CALLER.parse().unwrap()
}

/// Starts the workflow for a caller with this trace context.
async fn start(world: &mut World, id: WorkflowId, trace: Option<TraceContext>) -> RunId {
    let run = NewRun { trace, ..world.new_run() };
    run_id(&world.command(0, Command::StartWorkflow { id, run }).await)
}

fn passed_on(perform: &Perform) -> u64 {
    perform.trace.unwrap().span
}

/// The step, its status, and when it began and ended.
fn shown(span: &Span) -> (Option<&str>, &'static str, i64, i64) {
    let step = span.attempt.as_ref().map(|attempt| attempt.step.as_str());
    (step, span.status, crate::world::minutes(span.from), crate::world::minutes(span.to))
}

pub(crate) async fn a_run_is_one_trace_whatever_happens_to_its_node(mut world: World) {
    let id = world.process("w", vec![step("a", &[], noop()), step("b", &["a"], noop())]).await;
    let run = start(&mut world, id, Some(caller())).await;
    let lost = performs(&world.turn(0).await).remove(0);
    // After the restart nothing about the run is in memory.
    world.join(5).await;
    let first = performs(&world.turn(5).await).remove(0);
    assert_ne!(passed_on(&first), passed_on(&lost), "it began at another instant");
    let turned = world.turn_with(6, vec![succeeded(&lost), succeeded(&first)]).await;
    let second = performs(&turned).remove(0);
    let mut spans = turned.spans;
    spans.extend(world.turn_with(8, vec![failed(&second)]).await.spans);

    let told: Vec<_> = spans.iter().map(shown).collect();
    let expected =
        [(Some("a"), "completed", 5, 6), (Some("b"), "failed", 6, 8), (None, "failed", 0, 8)];
    assert_eq!(told, expected);
    assert!(spans.iter().all(|span| span.context.trace == caller().trace && span.run == run));
    let root = spans[2].context.span;
    assert_eq!(spans[2].parent, Some(caller().span));
    assert_eq!(spans.iter().map(|span| span.parent).collect::<Vec<_>>()[..2], [Some(root); 2]);
    assert_eq!(spans[0].context.span, passed_on(&first));
    assert_eq!(spans[1].context.span, passed_on(&second));
    assert_eq!(spans[1].error.as_ref().unwrap().step.as_deref(), Some("b"));

    // A retry of the run continues the trace.
    let command = Command::RetryRun { id: run, from_start: false, run: world.new_run() };
    let again = run_id(&world.command(9, command).await);
    assert_eq!(world.run(&again).await.view.run.trace, Some(caller()));
    world.holds_together().await;
}

pub(crate) async fn a_child_is_part_of_the_step_that_has_started_it(mut world: World) {
    world.process("inner", vec![step("x", &[], noop())]).await;
    let outer = world.process("outer", vec![step("call", &[], child("inner"))]).await;
    let run = start(&mut world, outer, None).await;
    let (mut spans, mut reports) = (Vec::new(), Vec::new());
    for at in 1..5 {
        let turned = world.turn_with(at, reports).await;
        reports = performs(&turned).iter().map(succeeded).collect();
        spans.extend(turned.spans);
    }

    let RunId::Other(trace) = run else { panic!("{run}") };
    assert!(spans.iter().all(|span| span.context.trace == trace), "the run's own");
    let of = |workflow: &str, step: Option<&str>| {
        let is_it = |span: &&Span| {
            let own = span.attempt.as_ref().map(|attempt| attempt.step.as_str());
            span.workflow == workflow && own == step
        };
        spans.iter().find(is_it).unwrap()
    };
    assert_eq!(spans.len(), 4);
    let (call, inner) = (of("outer", Some("call")), of("inner", None));
    assert_eq!(inner.parent, Some(call.context.span));
    assert_eq!(of("inner", Some("x")).parent, Some(inner.context.span));
    assert_eq!((of("outer", None).parent, call.parent), {
        (None, Some(of("outer", None).context.span))
    });
}

pub(crate) async fn what_is_due_is_in_a_trace_of_its_own(world: World) {
    let id = world.workflow("w").await;
    let schedule = world.schedule(id, r#"{"name": "s", "interval_seconds": 600}"#).await;
    let begun = performs(&world.turn(10).await);
    let spans = world.turn_with(11, begun.iter().map(succeeded).collect()).await.spans;
    let own = TraceContext::of_run(&begun[0].run_id, None);
    assert_eq!(world.run(&begun[0].run_id).await.view.run.trace, None, "nothing is stored");
    assert_eq!(spans.len(), 2);
    assert_eq!((spans[1].context, spans[1].parent), (own, None));
    assert_eq!((spans[1].schedule, spans[1].occurrence), (Some(schedule), Some(minute(10))));
}

pub(crate) async fn what_the_caller_does_not_record_is_passed_on_alone(mut world: World) {
    let id = world.workflow("w").await;
    start(&mut world, id, Some(TraceContext { is_recorded: false, ..caller() })).await;
    let begun = performs(&world.turn(1).await);
    assert!(begun[0].trace.is_some_and(|trace| !trace.is_recorded));
    let spans = world.turn_with(2, begun.iter().map(succeeded).collect()).await.spans;
    assert!(spans.is_empty(), "{spans:?}");
}
