//! Tokens, sign-ins and the audit log.

use engine::Moment;
use engine::turn::{Command, Verb};
use jiff::{SignedDuration, Timestamp};
use store::{
    AuditEntry, AuditQuery, AuditView, CommandRequest, Cursor, Failure, Idempotency, NewSignIn,
    NewToken, SignedInWith,
};

use crate::world::{World, minute, refusal};

const NO_SCHEDULE: engine::ScheduleId = engine::ScheduleId(99);
const CALENDAR: &str = r#"{"timezone": "UTC", "hours": {"mon-fri": ["09:00-17:00"]}}"#;

fn token(name: &str, hash: u8) -> NewToken {
    NewToken {
        name: name.to_owned(),
        hash: [hash; 32],
        roles: vec!["operator".to_owned(), "approver".to_owned()],
        queues: None,
        created_by: "ada".to_owned(),
        expires_at: Some(minute(60)),
    }
}

pub(crate) async fn a_token_keeps_the_queues_it_is_for(mut world: World) {
    let store = world.store();
    let queues = Some(vec!["mail".to_owned(), "agent:büro \"7\"".to_owned()]);
    let limited = NewToken { queues: queues.clone(), ..token("mailer", 1) };
    let made = store.create_token(limited, minute(0), None).await.unwrap();
    assert_eq!(made.queues, queues);
    let free = store.create_token(token("ci", 2), minute(0), None).await.unwrap();
    assert_eq!(free.queues, None);
    world.join(1).await;
    let store = world.store();
    assert_eq!(store.token_by_hash([1; 32]).await.unwrap(), Some(made.clone()));
    assert_eq!(store.tokens().await.unwrap(), [Ok(made), Ok(free)]);
}

fn entry(who: &str, action: &str) -> AuditEntry {
    AuditEntry {
        who: who.to_owned(),
        from: Some("127.0.0.1".to_owned()),
        action: action.to_owned(),
        target: "/api/v1/x".to_owned(),
        detail: None,
    }
}

async fn audited(world: &World, query: AuditQuery) -> Vec<AuditView> {
    world.store().audit(query).await.unwrap().items
}

/// The actions in the audit log, latest first.
async fn actions(world: &World) -> Vec<String> {
    let all = audited(world, AuditQuery { limit: 1_000, ..AuditQuery::default() }).await;
    all.into_iter().map(|view| view.entry.action).collect()
}

async fn command(
    world: &World,
    command: Command,
    key: Option<&str>,
    audit: AuditEntry,
) -> Result<bool, Failure> {
    let idempotency = key.map(|key| Idempotency { key: key.to_owned(), fingerprint: [1; 32] });
    let (moment, node) = (Moment::new(minute(1), minute(1)), world.node);
    let request =
        CommandRequest { command, moment, node, idempotency, audit: Some(audit), traced: false };
    world.store().command(request).await.map(|commanded| commanded.replayed)
}

pub(crate) async fn a_token_is_found_by_its_secret_until_it_is_revoked(mut world: World) {
    let store = world.store();
    let made = store.create_token(token("ci", 1), minute(0), None).await.unwrap();
    assert_eq!((made.name.as_str(), made.roles.len(), made.revoked_at), ("ci", 2, None));
    let taken = refusal(store.create_token(token("ci", 2), minute(0), None).await);
    assert!(taken.contains("ci"), "{taken}");
    let other = store.create_token(token("cd", 2), minute(0), None).await.unwrap();
    assert!(other.id > made.id);
    world.join(1).await;
    let store = world.store();
    assert_eq!(store.token_by_hash([1; 32]).await.unwrap(), Some(made.clone()));
    assert_eq!(store.token_by_hash([3; 32]).await.unwrap(), None);
    assert!(made.is_valid(minute(59)) && !made.is_valid(minute(60)));

    let revoked = store.revoke_token(made.id, minute(2), None).await.unwrap().unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(minute(2)));
    assert!(!revoked.is_valid(minute(2)));
    let again = store.revoke_token(made.id, minute(3), None).await.unwrap().unwrap().unwrap();
    assert_eq!(again.revoked_at, Some(minute(2)), "the first time counts");
    assert_eq!(store.revoke_token(77, minute(3), None).await.unwrap(), None);
    assert_eq!(store.tokens().await.unwrap(), [Ok(revoked), Ok(other)]);
    refusal(store.create_token(token("ci", 4), minute(4), None).await);
}

/// The row of a token is damaged: it admits nobody and can be revoked, and others are as they were.
pub(crate) async fn an_unreadable_token_is_refused_alone(mut world: World) {
    let store = world.store();
    let good = store.create_token(token("good", 1), minute(0), None).await.unwrap();
    let bad = store.create_token(token("bad", 2), minute(0), None).await.unwrap();
    world.close();
    world.place().execute("UPDATE tokens SET roles = 'x{' WHERE name = 'bad'".to_owned()).await;
    world.open().await;
    let store = world.store();
    assert_eq!(store.token_by_hash([1; 32]).await.unwrap(), Some(good.clone()));
    store.token_by_hash([2; 32]).await.unwrap_err();
    let listed = store.tokens().await.unwrap();
    assert_eq!(listed[0], Ok(good));
    let unreadable = listed[1].clone().unwrap_err();
    assert_eq!((unreadable.name.as_str(), unreadable.is_revoked), ("bad", false));
    let found = store.check(minute(2), true).await.unwrap();
    let [finding] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((finding.code, finding.repaired), ("token-unreadable", false));
    assert!(finding.message.contains("punctual token revoke"), "{}", finding.message);
    let revoked = store.revoke_token(bad.id, minute(3), None).await.unwrap().unwrap();
    assert!(revoked.unwrap_err().is_revoked);
    assert_eq!(store.check(minute(4), false).await.unwrap(), []);
}

pub(crate) async fn sign_ins_end_with_their_token(world: World) {
    let store = world.store();
    let made = store.create_token(token("ci", 1), minute(0), None).await.unwrap();
    let new = |hash: u8, with| NewSignIn { hash: [hash; 32], with, expires_at: minute(720) };
    let of_token = SignedInWith::Token(made.id);
    for (hash, with) in [(5, of_token), (6, of_token), (7, SignedInWith::Node([9; 32]))] {
        store.begin_sign_in(new(hash, with), minute(1), None).await.unwrap();
    }
    let view = store.sign_in([5; 32]).await.unwrap().unwrap();
    assert_eq!((view.with, view.created_at, view.expires_at), (of_token, minute(1), minute(720)));
    assert_eq!(view.token, Some(made.clone()));
    let of_node = store.sign_in([7; 32]).await.unwrap().unwrap();
    assert_eq!((of_node.with, of_node.token), (SignedInWith::Node([9; 32]), None));

    assert!(store.end_sign_in([6; 32]).await.unwrap());
    assert!(!store.end_sign_in([6; 32]).await.unwrap());
    assert_eq!(store.sign_in([6; 32]).await.unwrap(), None);
    store.revoke_token(made.id, minute(2), None).await.unwrap();
    assert_eq!(store.sign_in([5; 32]).await.unwrap(), None);
    assert!(store.sign_in([7; 32]).await.unwrap().is_some());
}

pub(crate) async fn a_change_and_who_made_it_are_one_commit(world: World) {
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1h"}"#).await;
    let pause = |id| Command::ControlSchedule { id, verb: Verb::Pause };
    assert!(!command(&world, pause(id), Some("k"), entry("ada", "pause")).await.unwrap());
    assert_eq!(actions(&world).await, ["pause"]);
    // A repeated request is not carried out again, and a refused one has changed nothing: neither
    // is audited.
    assert!(command(&world, pause(id), Some("k"), entry("ada", "pause")).await.unwrap());
    refusal(command(&world, pause(id), None, entry("ada", "pause")).await);
    refusal(command(&world, pause(NO_SCHEDULE), None, entry("ada", "pause")).await);
    assert_eq!(actions(&world).await, ["pause"]);

    let store = world.store();
    let moment = Moment::new(minute(2), minute(2));
    let audit = |action| Some(entry("ada", action));
    store.put_calendar("c", CALENDAR, moment, audit("put")).await.unwrap();
    refusal(store.put_calendar("d", r#"{"union": ["d"]}"#, moment, audit("put")).await);
    assert!(!store.delete_calendar("d", moment, audit("delete")).await.unwrap());
    assert!(store.delete_calendar("c", moment, audit("delete")).await.unwrap());
    let made = store.create_token(token("ci", 1), minute(2), audit("create")).await.unwrap();
    refusal(store.create_token(token("ci", 2), minute(2), audit("create")).await);
    let with = SignedInWith::Token(made.id);
    let new = NewSignIn { hash: [5; 32], with, expires_at: minute(720) };
    store.begin_sign_in(new, minute(2), audit("sign in")).await.unwrap();
    for _ in 0..2 {
        store.revoke_token(made.id, minute(3), audit("revoke")).await.unwrap();
    }
    assert_eq!(actions(&world).await, ["revoke", "sign in", "create", "delete", "put", "pause"]);
}

pub(crate) async fn the_audit_log_is_paged_latest_first(world: World) {
    for n in 0..10 {
        let who = if n % 2 == 0 { "ada" } else { "bob" };
        let moment = Moment::new(minute(n / 2), minute(n / 2));
        let audit = Some(entry(who, &n.to_string()));
        world.store().put_calendar("c", CALENDAR, moment, audit).await.unwrap();
    }
    let numbers = |views: &[AuditView]| -> Vec<i64> {
        views.iter().map(|view| view.entry.action.parse().unwrap()).collect()
    };
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let query = AuditQuery { limit: 3, after, ..AuditQuery::default() };
        let page = world.store().audit(query).await.unwrap();
        assert!(page.items.len() <= 3);
        seen.extend(numbers(&page.items));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    let of = |who: &str, since: Option<Timestamp>, after: Option<Cursor>| AuditQuery {
        who: Some(who.to_owned()),
        since,
        limit: 100,
        after,
    };
    let found = audited(&world, of("ada", Some(minute(2)), None)).await;
    assert_eq!(numbers(&found), [8, 6, 4]);
    assert_eq!(found[0].at, minute(4));
    assert_eq!(found[0].entry, entry("ada", "8"));
    let next = Cursor::Instant(found[0].at.as_millisecond(), found[0].key);
    assert_eq!(numbers(&audited(&world, of("ada", None, Some(next))).await), [6, 4, 2, 0]);
    for nobody in ["", "eve", "ada\0", "' OR 1=1 --"] {
        assert_eq!(audited(&world, of(nobody, None, None)).await, [], "{nobody:?}");
    }
}

pub(crate) async fn what_is_over_goes_in_small_batches(world: World) {
    let store = world.store();
    let with = SignedInWith::Node([9; 32]);
    for n in 0..7_u8 {
        let at = minute(i64::from(n));
        let audit = Some(entry("ada", &n.to_string()));
        let new = NewSignIn { hash: [n; 32], with, expires_at: minute(720 + i64::from(n)) };
        store.begin_sign_in(new, at, audit).await.unwrap();
    }
    let keep = SignedDuration::from_hours(1);
    let expired = store.expire(minute(721), keep, 3).await.unwrap();
    assert_eq!((expired.removed, expired.more), (2, false), "sign-ins that are over");
    assert_eq!(actions(&world).await.len(), 7, "kept longer than other history");
    let kept = 400 * 24 * 60;
    let mut removed = 0;
    let mut rounds = 0;
    loop {
        let expired = store.expire(minute(kept + 5), keep, 3).await.unwrap();
        removed += expired.removed;
        rounds += 1;
        if !expired.more {
            break;
        }
    }
    assert_eq!(removed, 5 + 5);
    assert!(rounds > 1);
    assert_eq!(actions(&world).await, ["6", "5"]);
}
