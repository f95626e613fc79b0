//! The page of approvals.

use engine::run::RunStatus;

use super::browser::{Browser, HOSTILE};
use crate::harness::Node;

const ASKS: &str = "name: asks\nconcurrency: 9\nsteps:\n\
    - {id: may-i, type: human_approval, title: 'Pay <script>alert(1)</script>?', \
       description: 'Is <b>7</b> right?', assignees: [ann], deadline: {within: 2h}}\n\
    - {id: done, type: noop, depends_on: [may-i]}\n";

async fn asked(node: &Node) -> String {
    node.publish(ASKS).await;
    let run = node.run("asks").await;
    node.run_until(&run, |status| status == RunStatus::Waiting).await;
    run
}

#[tokio::test]
async fn people_decide_in_place() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    assert!(browser.page("/approvals").await.contains("Nobody is asked anything."));
    let (first, second) = (asked(&node).await, asked(&node).await);
    for path in ["/approvals".to_owned(), format!("/runs/{first}")] {
        let page = browser.page(&path).await;
        for words in ["Pay &lt;script&gt;", "Is &lt;b&gt;7", "ann", "To be decided by", "Reject"] {
            assert!(page.contains(words), "{path}: {words}");
        }
    }
    let page = browser.page(&format!("/runs/{first}")).await;
    assert!(!page.contains(&format!("approvals/{second}")), "only its own");
    let path = format!("/forms/approvals/{first}/may-i/approve");
    let fields = [("by", "eve"), ("_next", "/approvals")];
    assert_eq!(browser.submit(&path, &fields).await.status, 403);
    let fields = [("by", "ann"), ("comment", HOSTILE), ("_next", "/approvals")];
    assert_eq!(browser.done(&path, &fields).await, "/approvals");
    assert_eq!(node.ended(&first).await["status"], "succeeded");
    assert!(browser.page(&format!("/runs/{first}")).await.contains("approved"));
    let path = format!("/forms/approvals/{second}/may-i/reject");
    browser.done(&path, &[("by", "ann"), ("_next", "/approvals")]).await;
    assert_eq!(node.ended(&second).await["status"], "failed");
    assert!(browser.page("/approvals").await.contains("Nobody is asked anything."));
}

#[tokio::test]
async fn what_is_for_others_is_left_out() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    asked(&node).await;
    let page = browser.page("/approvals?assignee=ann").await;
    assert!(page.contains("Is &lt;b&gt;7"), "{page}");
    assert!(
        browser.page("/approvals?assignee=bob").await.contains("Nothing waits for this person")
    );
}
