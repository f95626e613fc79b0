//! Tests of the pages in a real browser: Debian's chromium, driven through chromedriver.
#![expect(clippy::unwrap_used, reason = "what is not there ends the test")]

mod driver;
mod everywhere;
mod people;

use std::future::Future;

use crate::node::{Home, Node};
use crate::punctual;

/// The token that the tests sign in with.
const TOKEN: &str = "pages-are-for-people-who-read";

/// A node with workflows of every kind, whose names are hard to display.
fn world() -> (Home, Node) {
    let long = "a-name-that-goes-on-and-on-without-a-space-as-long-as-it-may-be";
    let home = Home::new()
        .with("orders.yaml", include_str!("world/orders.yaml"))
        .with("digest.js", include_str!("world/digest.js"))
        .with("long.yaml", &include_str!("world/long.yaml").replace("LONG", long));
    let mut command = punctual();
    command.args(home.serve_args()).env("PUNCTUAL_TOKEN", TOKEN);
    let node = Node::start(command);
    (home, node)
}

/// Runs a command against the node, with the token.
fn told(node: &Node, args: &[&str]) -> String {
    let mut command = punctual();
    command.args(args).env("PUNCTUAL_URL", &node.url).env("PUNCTUAL_TOKEN", TOKEN);
    let (code, out, err) = crate::finished(command.output().expect("the binary starts"));
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}: {out}");
    out
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime").block_on(future)
}

/// The name of the workflow with a very long name.
fn long_name(home: &Home) -> String {
    let text = std::fs::read_to_string(home.definitions().join("long.yaml")).expect("it is there");
    text.lines().next().expect("a line").trim_start_matches("name: ").to_owned()
}
