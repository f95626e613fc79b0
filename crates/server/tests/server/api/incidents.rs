//! Notifications of failures, through a real node and a real receiver.

use axum::Router;
use axum::http::StatusCode;
use language::definition::IncidentAction;
use runners::WebhookKeys;
use serde_json::{Value, json};
use server::serve::ServerOptions;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::harness::{Node, PATIENCE};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A receiver of webhooks; the path decides which status it answers with.
struct Receiver {
    url: String,
    bodies: UnboundedReceiver<Value>,
    serving: tokio::task::JoinHandle<()>,
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (heard, bodies) = unbounded_channel();
        let answer = move |uri: axum::http::Uri, body: String| async move {
            heard.send(serde_json::from_str(&body).unwrap_or_default()).ok();
            match uri.path() {
                "/broken" => StatusCode::NOT_FOUND,
                _ => StatusCode::OK,
            }
        };
        let router = Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Receiver { url, bodies, serving }
    }

    async fn next(&mut self) -> Value {
        tokio::time::timeout(PATIENCE, self.bodies.recv()).await.unwrap().unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn signing(options: &mut ServerOptions) {
    options.telling.keys = SECRET.parse::<WebhookKeys>().unwrap();
}

/// A workflow that fails if the payload says so.
fn definition(more: &str) -> String {
    format!(
        "name: backup\n{more}steps:\n  - id: copy\n    type: exec\n    retry: {{max: 1}}\n    \
         command: [sh, -c, 'echo copied 3 of 9; echo disk full >&2; exit $CODE']\n    \
         env: {{CODE: '{{{{ input.code }}}}'}}\n"
    )
}

async fn start(node: &Node, code: u8) -> Value {
    let body = json!({"payload": {"code": code}});
    let run = node.post("/api/v1/workflows/backup/runs", body).await.expect(201);
    node.ended(run["id"].as_str().unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_and_a_recovery_are_told_once_each() {
    let mut receiver = Receiver::start().await;
    let node = Node::start_with(|options| {
        signing(options);
        options.telling.public_url = Some("https://punctual.example.com/".to_owned());
    })
    .await;
    let hook = format!("{{notify: {{webhook: '{}/hook'}}}}", receiver.url);
    node.publish(&definition(&format!("on_failure: {hook}\non_recovery: [{hook}]\n"))).await;
    let failed = start(&node, 3).await;
    assert_eq!(failed["status"], "failed");
    let told = receiver.next().await;
    let about = &told["data"]["about"];
    assert_eq!(told["data"]["subject"], "backup failed");
    assert_eq!((&about["event"], &about["workflow"]), (&json!("failure"), &json!("backup")));
    assert_eq!(about["run"], failed["id"]);
    assert_eq!(about["output_end"], "copied 3 of 9\ndisk full");
    let link = format!("https://punctual.example.com/runs/{}", failed["id"].as_str().unwrap());
    assert_eq!(about["link"], link);
    assert!(about["error"].as_str().unwrap().contains("code 3"), "{about}");
    start(&node, 4).await;
    let open = node.get("/api/v1/incidents?open=true").await.expect(200);
    assert_eq!(node.get("/api/v1/stats").await.expect(200)["incidents"], 1);
    assert!(node.get("/metrics").await.text.contains("\npunctual_incidents_open 1\n"));
    assert_eq!(open["items"].as_array().unwrap().len(), 1, "{open}");
    assert_eq!(open["items"][0]["run_id"], failed["id"]);
    assert_eq!(open["items"][0]["told"][0]["what"], "webhook 127.0.0.1");
    let fine = start(&node, 0).await;
    // The next message is the recovery: the second failure notified nobody.
    let told = receiver.next().await;
    assert_eq!(told["data"]["subject"], "backup works again");
    let all = node.get("/api/v1/incidents?workflow=backup").await.expect(200);
    let incident = &all["items"][0];
    assert_eq!((&incident["ending"], &incident["ended_by"]), (&json!("recovered"), &fine["id"]));
    assert_eq!(node.get("/api/v1/incidents?open=true").await.expect(200)["items"], json!([]));
    assert_eq!(node.get("/api/v1/stats").await.expect(200)["incidents"], 0);
    let path = format!("/api/v1/incidents?run_id={}", failed["id"].as_str().unwrap());
    assert_eq!(node.get(&path).await.expect(200)["items"], all["items"]);
    // Lists of runs do not show the runs that send messages.
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|run| run["workflow"].as_str().unwrap().to_owned()).collect()
    };
    let runs = node.get("/api/v1/runs").await.expect(200);
    assert_eq!(names(&runs), ["backup"; 3]);
    assert_eq!(names(&node.get("/api/v1/runs?system=true").await.expect(200)).len(), 5);
    let notices = node.get("/api/v1/runs?workflow=punctual-notice").await.expect(200);
    assert_eq!(names(&notices), ["punctual-notice"; 2]);
    let workflows = node.get("/api/v1/workflows").await.expect(200);
    assert_eq!(workflows["total"], 1);
    assert_eq!(node.get("/api/v1/stats").await.expect(200)["workflows"], 1);
    let hub = node.server.hub();
    let (from, to) = (jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::MAX);
    let tallies = hub.store().tallies(from, to).await.unwrap();
    assert_eq!(tallies.iter().map(|tally| tally.count).sum::<u64>(), 3, "{tallies:?}");
    assert!(node.get("/metrics").await.text.contains("\npunctual_workflows 1\n"));
    assert_eq!(node.get("/api/v1/workflows?system=true").await.expect(200)["total"], 2);
    for (page, text) in [("/incidents", "recovered"), ("/runs", "backup"), ("/channels", "set up")]
    {
        let page = node.get(page).await;
        assert!(page.status == 200 && page.text.contains(text), "{}", page.text);
    }
    let page = node.get(&format!("/runs/{}", failed["id"].as_str().unwrap())).await;
    assert!(page.text.contains("id=\"incidents\""), "{}", page.text);
}

/// The receiver refuses messages for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_not_delivered_is_told() {
    let receiver = Receiver::start().await;
    let node = Node::start_with(signing).await;
    let hook = format!("{{webhook: '{}/broken'}}", receiver.url);
    node.publish(&definition(&format!("on_failure: {{notify: {hook}}}\n"))).await;
    start(&node, 3).await;
    let is_lost = |list: &Value| list["items"][0]["told"][0]["refused"].is_string();
    let list = node.until("/api/v1/incidents", is_lost).await;
    let told = &list["items"][0]["told"][0];
    assert!(told["run_id"].is_string(), "{told}");
    let why = told["refused"].as_str().unwrap();
    assert!(why.starts_with("not delivered: ") && why.contains("404"), "{why}");
    assert!(node.get("/incidents").await.text.contains("not delivered"));
    assert!(node.get("/metrics").await.text.contains("\npunctual_messages_undelivered_total 1\n"));
    node.publish(&format!(
        "name: asks\nsteps: [{{id: a, type: human_approval, title: t, deadline: {{within: 1s, \
         actions: [{{at: deadline, notify: {hook}}}]}}}}]\n"
    ))
    .await;
    let run = node.post("/api/v1/workflows/asks/runs", json!({})).await.expect(201);
    let path = format!("/api/v1/runs/{}", run["id"].as_str().unwrap());
    let run = node.until(&path, |run| run["alerts"][0]["refused"].is_string()).await;
    let why = run["alerts"][0]["refused"].as_str().unwrap();
    assert!(why.contains("not delivered: "), "{why}");
}

/// Whoever knows the URL of a channel may write to it: the node uses it, and does not show it to
/// viewers.
#[tokio::test(flavor = "multi_thread")]
async fn the_url_of_a_channel_is_not_in_what_the_node_shows() {
    let mut receiver = Receiver::start().await;
    let channel = format!("slack:{}/services/T000/slackTOKEN99", receiver.url);
    let node = Node::start_with(|options| {
        options.telling.on_failure = vec![IncidentAction::parse(&channel).unwrap()];
    })
    .await;
    node.publish(&definition("")).await;
    start(&node, 3).await;
    let told = receiver.next().await;
    assert!(told["text"].as_str().unwrap().contains("backup failed"), "{told}");
    let notices = node.get("/api/v1/runs?workflow=punctual-notice").await.expect(200);
    let notice = &notices["items"][0];
    assert_eq!(notice["input"]["payload"]["to"], format!("{}/…", receiver.url), "{notice}");
    let id = notice["id"].as_str().unwrap();
    node.ended(id).await;
    let paths = [
        "/api/v1/runs?system=true",
        "/api/v1/runs/ID",
        "/api/v1/incidents",
        "/api/v1/channels",
        "/runs/ID",
        "/workflows/punctual-notice/run",
        "/incidents",
        "/channels",
    ];
    for path in paths.map(|path| path.replace("ID", id)) {
        let answer = node.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text.contains("slackTOKEN99"), "{path}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_of_the_api_says_itself_who_is_told() {
    let mut receiver = Receiver::start().await;
    let node = Node::start_with(|options| {
        signing(options);
        options.telling.on_failure = vec![IncidentAction::parse("email:node@example.com").unwrap()];
    })
    .await;
    let workflow = node.publish(&definition("")).await;
    let hook = json!([{"notify": [{"webhook": format!("{}/hook", receiver.url)}]}]);
    let path = node
        .schedule(json!({"name": "nightly", "workflow_id": workflow, "at": "2020-01-01T00:00:00Z",
            "payload": {"code": 1}, "max_retries": 0, "on_failure": hook}))
        .await;
    let told = receiver.next().await;
    assert_eq!(told["data"]["subject"], "nightly failed and is dead");
    assert_eq!(told["data"]["about"]["nominal_at"], "2020-01-01T00:00:00Z");
    let schedule = node.get(&path).await.expect(200);
    assert_eq!((&schedule["status"], &schedule["on_failure"]), (&json!("dead"), &hook));
    let page = node.get(path.strip_prefix("/api/v1").unwrap()).await;
    assert!(page.text.contains("id=\"incidents\""), "{}", page.text);
    let wrong = json!({"on_failure": [{"notify": {"email": "nobody"}}, {"start": "No Name"}]});
    let problem = node.patch(&path, wrong).await.whole_problem(422);
    let paths: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["on_failure[0].notify.email", "on_failure[1].start"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_is_not_set_up_is_refused_and_warned_of() {
    let node = Node::start_with(|options| {
        options.telling.on_failure = vec![IncidentAction::parse("email:node@example.com").unwrap()];
    })
    .await;
    let deadline =
        "deadline: {within: 1h, actions: [{at: deadline, notify: {email: a@example.com}}]}\n";
    let body = definition(&format!(
        "on_failure: {{notify: {{webhook: 'https://example.com/'}}}}\n{deadline}"
    ));
    let saved = node.yaml("/api/v1/workflows?publish=true", body).await.expect(201);
    let mut places: Vec<(&str, &str)> = saved["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["code"].as_str().unwrap(), problem["path"].as_str().unwrap()))
        .collect();
    places.sort_unstable();
    assert_eq!(places, [("channel-not-set-up", "deadline"), ("channel-not-set-up", "on_failure")]);
    let saved = node.yaml("/api/v1/workflows?publish=true", definition("")).await.expect(201);
    assert_eq!(saved["problems"], json!([]));
    let tells = json!([{"notify": {"email": "a@example.com"}}]);
    let body = json!({"name": "s", "workflow_id": "backup", "interval": "1h", "on_failure": tells});
    let made = node.post("/api/v1/schedules", body).await.expect(201);
    let warned = |object: &Value| {
        let warnings = object["warnings"].as_array().unwrap().iter();
        warnings.filter(|warning| warning["code"] == "channel-not-set-up").count()
    };
    assert_eq!(warned(&made), 1, "{made}");
    let path = format!("/api/v1/schedules/{}", made["id"].as_str().unwrap());
    let changed = node.patch(&path, json!({"on_recovery": tells})).await.expect(200);
    assert_eq!(warned(&changed), 2, "{changed}");
    assert_eq!(warned(&node.patch(&path, changed.clone()).await.expect(200)), 2);
    start(&node, 1).await;
    let list = node.get("/api/v1/incidents").await.expect(200);
    let told = &list["items"][0]["told"][0];
    assert_eq!((&told["what"], &told["run_id"]), (&json!("email node@example.com"), &Value::Null));
    assert!(told["refused"].as_str().unwrap().contains("PUNCTUAL_SMTP"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_shown_without_secrets_and_tried() {
    let mut receiver = Receiver::start().await;
    let node = Node::start_with(|options| {
        options.telling.keys = format!("127.0.0.1={SECRET}").parse().unwrap();
        options.telling.mail =
            Some("smtp://u:p4ssw0rd@127.0.0.1:1?from=p@example.org".parse().unwrap());
    })
    .await;
    let reply = node.get("/api/v1/channels").await;
    let channels = reply.expect(200);
    assert!(!reply.text.contains("whsec_") && !reply.text.contains("p4ssw0rd"), "{}", reply.text);
    let shown = |at: usize, key: &str| channels["items"][at][key].clone();
    assert_eq!((shown(0, "kind"), shown(0, "configured")), (json!("email"), json!(true)));
    assert_eq!((shown(0, "host"), shown(0, "from")), (json!("127.0.0.1"), json!("p@example.org")));
    assert_eq!((shown(1, "kind"), shown(1, "hosts")), (json!("webhook"), json!(["127.0.0.1"])));
    assert_eq!(shown(2, "kind"), "slack");
    let page = node.get("/channels").await;
    assert!(page.text.contains("127.0.0.1") && !page.text.contains("p4ssw0rd"), "{}", page.text);

    let test =
        async |channel: &str| node.post("/api/v1/channels/test", json!({"channel": channel})).await;
    let sent = test(&format!("webhook:{}/hook", receiver.url)).await.expect(200);
    assert_eq!((&sent["sent"], &sent["channel"]), (&json!(true), &json!("webhook 127.0.0.1")));
    assert!(receiver.next().await["data"]["subject"].as_str().unwrap().contains("test"));
    let not_taken = test(&format!("slack:{}/broken", receiver.url)).await.problem(502);
    assert!(not_taken.contains("404") && not_taken.contains("check the URL"), "{not_taken}");
    let no_mail = test("email:a@example.com").await.problem(502);
    assert!(no_mail.contains("127.0.0.1") && no_mail.contains("PUNCTUAL_SMTP"), "{no_mail}");
    let no_secret = test("webhook:https://other.example.com/").await.problem(409);
    assert!(no_secret.contains("PUNCTUAL_WEBHOOK_SECRET"), "{no_secret}");
    assert!(test("pigeon:roof").await.problem(422).contains("channel"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_only_a_payload_holds_is_told_to_nobody() {
    let mut receiver = Receiver::start().await;
    let node = Node::start_with(|options| {
        signing(options);
        let secret = ("PUNCTUAL_SECRET_KEY".into(), "hunter22".into());
        options.secrets = server::Secrets::read(None, [secret]).unwrap().into();
    })
    .await;
    let hook = format!("webhook: '{}/hook'", receiver.url);
    let tell = format!(
        "name: tell\nsteps:\n  - id: say\n    type: notification\n    to: [{{{hook}}}]\n    \
         message: 'got {{{{ input.key }}}}, have {{{{ secrets.KEY }}}}'\n    \
         data: {{given: '{{{{ input.key | upper }}}}', held: '{{{{ secrets.KEY }}}}'}}\n"
    );
    node.publish(&tell).await;
    node.publish(&definition(&format!("on_failure: {{notify: {{{hook}}}}}\n"))).await;
    let body = json!({"payload": {"code": 3, "key": "hunter22", "x": "aHVudGVyMjI="}});
    node.post("/api/v1/workflows/backup/runs", body.clone()).await.expect(201);
    let told = receiver.next().await.to_string();
    assert!(!told.contains("hunter22") && !told.contains("aHVudGVyMjI"), "{told}");
    assert!(told.contains("\"key\":\"***\""), "{told}");
    // A template that names the secret sends it.
    node.post("/api/v1/workflows/tell/runs", body).await.expect(201);
    let told = receiver.next().await;
    assert_eq!(told["data"]["message"], "got ***, have hunter22");
    assert_eq!(told["data"]["about"], json!({"given": "***", "held": "hunter22"}), "{told}");
}
