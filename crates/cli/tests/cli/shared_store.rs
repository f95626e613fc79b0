//! Tests of nodes that share a PostgreSQL database.

use testbed::{Cluster, PoolMode, Pooler};

use crate::node::{Home, Node};
use crate::{punctual, run};

/// A new schema, which is dropped with the value.
struct Schema {
    url: String,
    name: String,
}

impl Schema {
    fn new(name: &str) -> Schema {
        let url = testbed::shared_url().expect("a PostgreSQL");
        Schema { url, name: format!("cli_{name}_{}", std::process::id()) }
    }

    fn serve(&self, home: &Home, name: &str) -> Node {
        let mut command = punctual();
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "json", "--node", name]);
        command
            .arg(home.definitions())
            .args(["--schema", &self.name])
            .env("PUNCTUAL_DB", &self.url);
        command.current_dir(home.path(""));
        Node::start(command)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let connected = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await;
            let (client, connection) = connected.expect("a connection");
            tokio::spawn(connection);
            client.batch_execute(&drop).await.expect("it is dropped");
        });
    }
}

#[test]
fn two_nodes_share_a_database() {
    let schema = Schema::new("two");
    let home = Home::new().with("t.yaml", "name: t\nsteps: [{id: a, type: noop}]\n");
    let (mut first, second) = (schema.serve(&home, "first"), schema.serve(&home, "second"));
    assert!(!first.logged("ready")["db"].as_str().expect("a place").contains('?'));
    let nodes = first.json(&["node", "list"]);
    let names = |nodes: &serde_json::Value| {
        let items = nodes["items"].as_array().expect("a list").iter();
        items.map(|node| (node["name"].clone(), node["is_this"].clone())).collect::<Vec<_>>()
    };
    let expected = [("first".into(), true.into()), ("second".into(), false.into())];
    assert_eq!(names(&nodes), expected, "{nodes:#}");
    let table = second.shown(&["node", "list"]);
    assert!(table.trim_start().starts_with("ID") && table.contains("this one answers"), "{table}");
    assert_eq!(second.figure("punctual_nodes"), 2.0);
    // A run that one node started can be seen through the other.
    let run_id = first.json(&["run", "t", "--follow"])["id"].clone();
    let seen = second.json(&["run", "show", run_id.as_str().expect("an id")]);
    assert_eq!(seen["status"], "succeeded");
    // The doctor can check the store while nodes run.
    let (code, out, err) = run(&["doctor", "--db", &schema.url, "--schema", &schema.name]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(second.stop().success());
    assert_eq!(first.figure("punctual_nodes"), 1.0);
    assert!(first.stop().success());
}

#[test]
fn what_is_wrong_with_a_database_is_said() {
    let schema = Schema::new("wrong");
    let (server, _) = schema.url.rsplit_once('/').expect("a database");
    let missing = format!("{server}/nowhere_at_all");
    let (code, _, err) = run(&["doctor", "--db", &missing]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("does not exist") && err.contains("try: createdb"), "{err}");
    let (code, _, err) = run(&["backup", "--db", &schema.url, "copy"]);
    assert!(code == 1 && err.contains("try: pg_dump"), "{err}");
}

#[test]
fn a_store_of_a_newer_version_and_a_pooler_are_refused_with_what_to_do() {
    let cluster = Cluster::builder().fsync(false).start().expect("a PostgreSQL");
    let doctor = |url: &str| run(&["doctor", "--db", url]);
    let pooler = Pooler::start(&cluster, PoolMode::Transaction).expect("a pgbouncer");
    let (code, _, err) = doctor(&pooler.url());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("pooler") && err.contains("try: the address of PostgreSQL"), "{err}");
    let (code, _, err) = doctor(&cluster.url());
    assert_eq!((code, err.as_str()), (0, ""));
    cluster.ask("UPDATE punctual.schema_versions SET version = 999, since = 999").expect("a row");
    let (code, _, err) = doctor(&cluster.url());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("schema version 999") && !err.contains("not available"), "{err}");
    assert!(err.contains("try: the version of punctual that the other nodes have"), "{err}");
}

#[test]
fn a_role_that_does_not_wait_for_the_disk_is_warned_of() {
    let cluster = Cluster::builder().fsync(false).start().expect("a PostgreSQL");
    cluster.ask("ALTER ROLE punctual SET synchronous_commit = off").expect("a role");
    let schema = Schema { url: cluster.url(), name: "punctual".to_owned() };
    let home = Home::new().with("t.yaml", "name: t\nsteps: [{id: a, type: noop}]\n");
    let mut node = schema.serve(&home, "only");
    let warned = node.logged("synchronous_commit is off");
    assert_eq!(warned["level"], "WARN", "{warned}");
    assert!(node.stop().success());
}
