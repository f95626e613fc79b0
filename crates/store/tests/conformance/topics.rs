//! Topics: publishing events, and listing them.

use engine::TopicId;
use engine::topics::{EventState, Message};
use serde_json::json;
use store::{Cursor, EventQuery, EventView, TopicQuery, Total};

use crate::messages::{consumer, gave, message, only, plain, reserves, shared, topic};
use crate::world::{World, minute, raw, refusal};

fn ids(views: &[EventView]) -> Vec<&str> {
    views.iter().map(|view| view.event.message.message_id.as_str()).collect()
}

pub(crate) async fn what_is_published_is_there_in_its_order(mut world: World) {
    world.deploy(0, plain("w")).await;
    assert_eq!(world.tell(1, "t", &["b", "a", "c"]).await, (3, 0));
    let topic = world.topic_id("t").await;
    let told = Message {
        message_id: "ä/1".to_owned(),
        title: Some("An order".to_owned()),
        payload: raw(r#"{"n": [1, 2.50]}"#),
        causes: vec!["in-1".to_owned(), "b".to_owned()],
    };
    assert_eq!(world.try_tell(2, topic, vec![told.clone()]).await.unwrap(), (1, 0));
    world.join(3).await;
    assert_eq!(world.counts("t").await, [4, 0, 0, 0]);
    let view = world.topic("t").await;
    assert_eq!(view.workflow.as_deref(), Some("w"));
    assert_eq!(view.oldest_pending_at, Some(minute(1)));
    assert_eq!(ids(&world.event_views("t").await), ["b", "a", "c", "ä/1"]);
    let query = EventQuery { topic, state: None, oldest_first: false, limit: 3, after: None };
    let page = world.store().events(query).await.unwrap();
    assert_eq!(ids(&page.items), ["ä/1", "c", "a"]);
    assert_eq!(page.total, Total::Exact(4));
    let asked = ["nobody", "ä/1", "b"].map(str::to_owned).to_vec();
    let found = world.store().events_by_id(topic, asked).await.unwrap();
    assert_eq!(ids(&found), ["ä/1", "b"]);
    let event = &found[0].event;
    assert_eq!(event.message.payload.get(), told.payload.get());
    assert_eq!((&event.message.title, &event.message.causes), (&told.title, &told.causes));
    assert_eq!((event.created_at, event.status.updated_at), (minute(2), minute(2)));
    assert_eq!((event.status.state, event.status.attempt), (EventState::Pending, 0));
    assert_eq!((&found[0].run, event.status.run), (&None, None));
    world.holds_together().await;
}

pub(crate) async fn published_again_it_says_something_else_and_stays_where_it_is(world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a"]).await;
    let mutation = world.up_to_mutation(1, &["a"]).await;
    let topic = world.topic_id("t").await;
    let again = vec![message("a", "[2]"), message("b", "[1]"), message("b", "[3]")];
    assert_eq!(world.try_tell(2, topic, again).await.unwrap(), (1, 2));
    assert_eq!(world.counts("t").await, [1, 1, 0, 0]);
    assert_eq!(world.events("t").await, ["a reserved 0", "b pending 0"]);
    let (a, b) = (world.event("t", "a").await, world.event("t", "b").await);
    assert_eq!((a.event.message.payload.get(), b.event.message.payload.get()), ("[2]", "[3]"));
    assert_eq!(a.event.created_at, minute(1));
    assert_eq!(a.run, Some(mutation.run_id.clone()));
    // The same id in another topic is another event.
    let other =
        json!({"name": "v", "topics": [topic_of("u")], "consumers": [consumer("c", &["u"])]});
    world.deploy(2, other).await;
    assert_eq!(world.tell(2, "u", &["a"]).await, (1, 0));
    world.holds_together().await;
}

fn topic_of(name: &str) -> serde_json::Value {
    topic(name, 10)
}

pub(crate) async fn events_are_published_all_or_none(world: World) {
    world.deploy(0, plain("w")).await;
    let topic = world.topic_id("t").await;
    let flawed = vec![message("a", "1"), message("", "2")];
    let said = refusal(world.try_tell(1, topic, flawed).await);
    assert!(said.contains("message id"), "{said}");
    let large = format!("\"{}\"", "x".repeat(300 << 10));
    refusal(world.try_tell(1, topic, vec![message("a", &large)]).await);
    refusal(world.try_tell(1, TopicId(999), vec![message("a", "1")]).await);
    assert_eq!(world.events("t").await, Vec::<String>::new());
    let largest = format!("\"{}\"", "x".repeat((256 << 10) - 2));
    world.try_tell(1, topic, vec![message("a", &largest)]).await.unwrap();
    assert_eq!(world.event("t", "a").await.event.message.payload.get(), largest);
    world.holds_together().await;
}

pub(crate) async fn only_what_nobody_works_on_is_skipped(world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b", "c"]).await;
    world.skip(2, "t", "a").await.unwrap();
    let skipped = world.event("t", "a").await.event.status;
    assert_eq!((skipped.state, skipped.updated_at), (EventState::Skipped, minute(2)));
    assert!(skipped.reason.unwrap().contains("ada"));
    let mutation = world.up_to_mutation(2, &["b"]).await;
    for id in ["a", "b", "nobody"] {
        refusal(world.skip(3, "t", id).await);
    }
    assert_eq!(world.counts("t").await, [1, 1, 0, 1]);
    // A skipped event that is published again stays skipped.
    assert_eq!(world.tell(3, "t", &["a"]).await, (0, 1));
    assert_eq!(world.events("t").await, ["a skipped 0", "b reserved 0", "c pending 0"]);
    drop(mutation);
    world.holds_together().await;
}

pub(crate) async fn topics_are_paged_by_name(world: World) {
    let definition = |name: &str, topics: serde_json::Value| {
        let first = topics[0]["name"].clone();
        let consumers = json!([consumer("c", &[first.as_str().unwrap()])]);
        json!({"name": name, "topics": topics, "consumers": consumers})
    };
    let one = world.deploy(0, definition("one", json!([topic("m", 3), topic("z", 10)]))).await;
    world.deploy(0, definition("two", json!([shared("m"), topic("a", 10)]))).await;
    world.deploy(0, definition("three", json!([topic("m", 10), shared("q")]))).await;
    let line = |view: &store::TopicView| {
        format!("{} {}", view.topic.name, view.workflow.as_deref().unwrap_or("-"))
    };
    for limit in [1, 2, 3, 10] {
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let query = TopicQuery { limit, after, ..TopicQuery::default() };
            let page = world.store().topics(query).await.unwrap();
            seen.extend(page.items.iter().map(line));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["a two", "m one", "m -", "m three", "q -", "z one"], "by {limit}");
    }
    let found = world.topics_named("m").await;
    assert_eq!(found.iter().map(line).collect::<Vec<_>>(), ["m one", "m -", "m three"]);
    assert_eq!(found[0].topic.max_attempts, 3);
    for view in &found {
        let query = TopicQuery { id: Some(view.topic.id), limit: 10, ..TopicQuery::default() };
        let by_id = world.store().topics(query).await.unwrap().items;
        assert_eq!(by_id.iter().map(line).collect::<Vec<_>>(), [line(view)]);
    }
    let query = TopicQuery { id: Some(TopicId(999_999)), limit: 10, ..TopicQuery::default() };
    assert!(world.store().topics(query).await.unwrap().items.is_empty());
    for (workflow, name, expected) in [
        ("one".to_owned(), None, &["m one", "z one"][..]),
        (one.to_string(), None, &["m one", "z one"]),
        ("two".to_owned(), None, &["a two"]),
        ("one".to_owned(), Some("z"), &["z one"]),
        ("nobody".to_owned(), None, &[]),
    ] {
        let (name, workflow) = (name.map(str::to_owned), Some(workflow));
        let query = TopicQuery { name, workflow, limit: 10, ..TopicQuery::default() };
        let found = world.store().topics(query).await.unwrap().items;
        assert_eq!(found.iter().map(line).collect::<Vec<_>>(), expected);
    }
}

pub(crate) async fn a_shared_topic_is_one_for_all(world: World) {
    let definition = |name: &str| json!({"name": name, "topics": [shared("t")], "consumers": [consumer("c", &["t"])]});
    world.deploy(0, definition("one")).await;
    world.deploy(0, definition("two")).await;
    world.tell(1, "t", &["a"]).await;
    let turned = world.turn(1).await;
    let prepares = crate::world::performs(&turned);
    assert_eq!(crate::messages::phases(&turned), ["c prepare", "c prepare"]);
    // The second consumer finds that the first has reserved the event.
    let reports = prepares.iter().map(|perform| reserves(perform, &["a"])).collect();
    let turned = world.turn_with(1, reports).await;
    assert_eq!(only(&turned).run, prepares[0].run);
    assert_eq!(world.counts("t").await, [0, 1, 0, 0]);
    let turned = world.turn_with(1, vec![gave(&only(&turned), &json!(null))]).await;
    world.turn_with(1, vec![gave(&only(&turned), &json!(null))]).await;
    assert_eq!(world.counts("t").await, [0, 0, 1, 0]);
    world.holds_together().await;
}

/// All pages of a topic's events.
async fn paged(
    world: &World,
    topic: TopicId,
    state: Option<EventState>,
    oldest_first: bool,
    limit: usize,
) -> Vec<String> {
    let mut after: Option<Cursor> = None;
    let mut seen = Vec::new();
    loop {
        let query = EventQuery { topic, state, oldest_first, limit, after };
        let page = world.store().events(query).await.unwrap();
        assert!(page.items.len() <= limit);
        seen.extend(page.items.into_iter().map(|view| view.event.message.message_id));
        after = page.next;
        if after.is_none() {
            return seen;
        }
    }
}

pub(crate) async fn events_are_paged_without_gaps(world: World) {
    world.deploy(0, plain("w")).await;
    let all: Vec<String> = (0..24).map(|n| format!("e{n:02}")).collect();
    // Many events at one instant, and some at later ones.
    for (at, part) in [(1, &all[..16]), (2, &all[16..20]), (3, &all[20..])] {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        world.tell(at, "t", &part).await;
    }
    for id in ["e03", "e17", "e20"] {
        world.skip(4, "t", id).await.unwrap();
    }
    let next = world.consume(4, &["e00", "e05", "e15", "e16"]).await;
    world.turn_with(4, vec![reserves(&only(&next), &["e01", "e18", "e22"])]).await;
    let topic = world.topic_id("t").await;
    let of = |state: EventState| -> &'static [&'static str] {
        match state {
            EventState::Pending => &[],
            EventState::Reserved => &["e01", "e18", "e22"],
            EventState::Consumed => &["e00", "e05", "e15", "e16"],
            EventState::Skipped => &["e03", "e17", "e20"],
        }
    };
    let moved: Vec<&str> = EventState::ALL.iter().flat_map(|state| of(*state)).copied().collect();
    let is_pending = |id: &&String| !moved.contains(&id.as_str());
    let pending: Vec<String> = all.iter().filter(is_pending).cloned().collect();
    for limit in [1, 4, 7, 100] {
        for oldest_first in [true, false] {
            let ordered = |mut ids: Vec<String>| {
                if !oldest_first {
                    ids.reverse();
                }
                ids
            };
            let seen = paged(&world, topic, None, oldest_first, limit).await;
            assert_eq!(seen, ordered(all.clone()), "by {limit}");
            for state in EventState::ALL {
                let expected = match state {
                    EventState::Pending => pending.clone(),
                    other => of(other).iter().map(|id| (*id).to_owned()).collect(),
                };
                let seen = paged(&world, topic, Some(state), oldest_first, limit).await;
                assert_eq!(seen, ordered(expected), "{state:?} by {limit}");
            }
        }
    }
    let query = EventQuery {
        topic,
        state: Some(EventState::Consumed),
        oldest_first: true,
        limit: 1,
        after: None,
    };
    assert_eq!(world.store().events(query).await.unwrap().total, Total::Exact(4));
    assert_eq!(world.topic("t").await.oldest_pending_at, Some(minute(1)));
    world.holds_together().await;
}

pub(crate) async fn pages_of_events_are_stable_under_publishing(world: World) {
    world.deploy(0, plain("w")).await;
    world.tell(1, "t", &["a", "b", "c"]).await;
    let topic = world.topic_id("t").await;
    let query = |after| EventQuery { topic, state: None, oldest_first: false, limit: 2, after };
    let first = world.store().events(query(None)).await.unwrap();
    world.tell(2, "t", &["d", "e"]).await;
    let second = world.store().events(query(first.next)).await.unwrap();
    assert_eq!((ids(&first.items), ids(&second.items)), (vec!["c", "b"], vec!["a"]));
    assert_eq!(second.next, None);
}
