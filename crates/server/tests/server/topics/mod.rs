//! Topics and their events, producers and consumers, and scripts that describe them.

mod events;
mod handlers;
mod hooks;
mod hostile;
mod mutations;
mod names;
mod publish;
mod scripts;

use serde_json::{Value, json};

use crate::harness::{Node, Reply};

/// A topic without consumers.
const SHOP: &str = "name: shop\ntopics: {orders: {external: true}}\nsteps: [{id: a, type: noop}]\n";
const ORDERS: &str = "/api/v1/topics/orders";
const EVENTS: &str = "/api/v1/topics/orders/events";

/// A node with a topic without consumers.
async fn shop() -> Node {
    let node = Node::start().await;
    node.publish(SHOP).await;
    node
}

async fn publish(node: &Node, body: Value) -> Reply {
    node.post(EVENTS, body).await
}

fn order(id: &str) -> Value {
    json!({"message_id": id, "payload": {"of": id}})
}

/// The message ids of a page.
fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|event| event["message_id"].as_str().unwrap().to_owned()).collect()
}
