//! Callers who start runs on PostgreSQL: many share a transaction, and none waits for a turn.

use std::time::Duration;

use engine::run::RunStatus;
use engine::turn::{Answer, Command, NewRun, Refused, Starter};
use engine::{Moment, NodeId, RunId, WorkflowId};
use futures_util::future::join_all;
use store::{AuditEntry, AuditQuery, CommandRequest, Failure};
use tokio_postgres::{Client, NoTls};

use crate::postgres::Schema;
use crate::world::{World, minute};

const STARTS: u128 = 40;
/// A start that waits for longer than this waits for a lock that nobody lets go.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(workflow: WorkflowId, id: u128, payload: Option<&str>) -> Command {
    let payload = payload.map(|text| serde_json::from_str(text).unwrap());
    let by = Starter::Caller("ada".to_owned());
    let run = NewRun { id, payload, by, trace: None, if_busy: Default::default() };
    Command::StartWorkflow { id: workflow, run }
}

fn request(node: NodeId, command: Command, target: &str) -> CommandRequest {
    let audit = AuditEntry {
        who: "ada".to_owned(),
        from: None,
        action: "POST /api/v1/workflows/{id}/runs".to_owned(),
        target: target.to_owned(),
        detail: None,
    };
    CommandRequest {
        command,
        moment: Moment::new(minute(0), minute(0)),
        node,
        idempotency: None,
        traced: false,
        audit: Some(audit),
    }
}

/// A connection that holds a lock of all workflows until it is told to let go.
struct Holder(Client);

impl Holder {
    async fn of(schema: &Schema, lock: &str) -> Holder {
        let url = schema.url_through(schema.port());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = format!("BEGIN; SELECT id FROM {}.workflows FOR {lock}", schema.name());
        client.batch_execute(&sql).await.unwrap();
        Holder(client)
    }

    async fn let_go(self) {
        self.0.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Waits until this many transactions of the store wait for a lock of workflows.
async fn waiting(schema: &Schema, count: i64) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity a WHERE a.wait_event_type = 'Lock'
           AND a.query LIKE '%workflows%' AND EXISTS (SELECT 1 FROM pg_locks l
             WHERE l.pid = a.pid AND l.relation = '{}.workflows'::regclass)",
        schema.name()
    );
    let reached = async {
        while schema.number(&sql).await < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("the store waits for the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_that_arrive_together_share_a_transaction() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    let text = "name: w\nconcurrency: 3\ninput: {type: object}\nsteps: [{id: a, type: noop}]\n";
    let workflow = world.publish(0, text).await;
    let store = schema.open().await.unwrap();
    // Two transactions may be in flight. They wait for the lock, and meanwhile the others arrive.
    let holder = Holder::of(&schema, "UPDATE").await;
    let command = |n: u128| match n % 4 {
        1 => start(WorkflowId(999), n + 1, None),
        2 => start(workflow, n + 1, Some("[]")),
        _ => start(workflow, n + 1, Some("{}")),
    };
    // The store takes a command when it is called, not when its answer is waited for.
    let ask = |n| store.command(request(world.node, command(n), &n.to_string()));
    let mut answers: Vec<_> = (0..2).map(ask).collect();
    waiting(&schema, 1).await;
    answers.extend((2..STARTS).map(ask));
    holder.let_go().await;
    let mut accepted = Vec::new();
    for (n, told) in (0..STARTS).zip(join_all(answers).await) {
        match (n % 4, told) {
            (1, Err(Failure::Refused(Refused::NotFound { what: "workflow", .. }))) => {}
            (2, Err(Failure::Refused(Refused::Invalid(_)))) => {}
            (0 | 3, Ok(told)) => {
                let id = RunId::Other(n + 1);
                assert_eq!(told.answer, Answer::Run(id.to_string()));
                let created = told.created.expect("nothing more must be read to show it");
                assert_eq!(created.run.id, id);
                assert_eq!(created.run.status, RunStatus::Pending);
                assert_eq!(created.workflow_name, "w");
                assert!(created.is_limited);
                let stored = store.run(id).await.unwrap().unwrap();
                assert_eq!(format!("{:?}", created.run), format!("{:?}", stored.view.run));
                assert_eq!(*created.definition, *stored.definition);
                accepted.push(n.to_string());
            }
            (_, other) => panic!("start {n}: {other:?}"),
        }
    }
    let query = AuditQuery { limit: 1_000, ..AuditQuery::default() };
    let audit = store.audit(query).await.unwrap().items;
    let mut audited: Vec<String> = audit.into_iter().map(|view| view.entry.target).collect();
    audited.sort();
    accepted.sort();
    assert_eq!(audited, accepted, "every accepted start is in the audit log, and no refused one");
    let transactions = "SELECT count(DISTINCT xmin::text) FROM open_runs";
    let transactions = schema.number(transactions).await;
    assert!(transactions <= 4, "{} starts took {transactions} transactions", accepted.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_does_not_wait_for_a_turn_nor_a_turn_for_a_start() {
    let schema = Schema::new();
    let mut world = World::new(Box::new(schema.clone())).await;
    let text = "name: w\nconcurrency: 3\nsteps: [{id: a, type: noop}]\n";
    let workflow = world.publish(0, text).await;
    let turn = Holder::of(&schema, "NO KEY UPDATE").await;
    let started = tokio::time::timeout(PATIENCE, world.start(0, workflow)).await;
    started.expect("the start does not wait for the turn").unwrap();
    turn.let_go().await;
    let start = Holder::of(&schema, "KEY SHARE").await;
    let turned = tokio::time::timeout(PATIENCE, world.turn(1)).await;
    let turned = turned.expect("the turn does not wait for the start");
    assert_eq!(turned.effects.len(), 1, "it begins the run, and counts it as active");
    assert_eq!(schema.number("SELECT active::bigint FROM workflows WHERE name = 'w'").await, 1);
    start.let_go().await;
    world.holds_together().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_and_the_end_of_a_workflow_wait_for_each_other() {
    let schema = Schema::new();
    let mut world = World::new(Box::new(schema.clone())).await;
    for text in [
        "name: a\nsteps: [{id: a, type: noop}]\n",
        "name: b\nconcurrency: 1\nsteps: [{id: a, type: noop}]\n",
    ] {
        let workflow = world.publish(0, text).await;
        let store = schema.open().await.unwrap();
        let start = Holder::of(&schema, "KEY SHARE").await;
        let command = Command::ArchiveWorkflow(workflow);
        let archived = tokio::spawn({
            let request = request(world.node, command, "archive");
            async move { store.command(request).await }
        });
        waiting(&schema, 1).await;
        start.let_go().await;
        archived.await.unwrap().unwrap();
        let refused = world.start(0, workflow).await.unwrap_err();
        assert!(matches!(refused, Failure::Refused(Refused::Conflict(_))), "{refused:?}");
    }
}
