//! Tests of tokens and the audit log through the command line.

use serde_json::Value;

use crate::node::Home;
use crate::{finished, punctual};

const NOTHING: &str = "name: nothing\nsteps: [{id: a, type: noop}]\n";

#[test]
fn the_first_token_closes_the_node_and_others_are_for_less() {
    let home = Home::new().with("nothing.yaml", NOTHING);
    let node = home.serve();
    let with = |token: &str, args: &[&str]| {
        let mut command = punctual();
        command.args(args).env("PUNCTUAL_URL", &node.url);
        if !token.is_empty() {
            command.env("PUNCTUAL_TOKEN", token);
        }
        finished(command.output().unwrap())
    };
    let create = |token: &str, args: &[&str]| -> String {
        let (code, out, err) = with(token, &[&["token", "create"], args, &["--json"]].concat());
        assert_eq!(code, 0, "{err}");
        let made: Value = serde_json::from_str(&out).unwrap();
        made["secret"].as_str().unwrap().to_owned()
    };
    let (code, _, err) = with("", &["token", "create", "ci", "--role", "viewer"]);
    assert_eq!(code, 1);
    assert!(err.contains("the first token must have the role admin"), "{err}");

    let ada = create("", &["ada", "--role", "admin"]);
    let (code, _, err) = with("", &["schedule", "list"]);
    assert_eq!(code, 1);
    assert!(err.contains("punctual token create"), "{err}");
    let (code, out, err) =
        with(&ada, &["token", "create", "ops", "--role", "operator", "--expires", "90d"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let secret = out.split_whitespace().find(|word| word.starts_with("pun_")).unwrap().to_owned();
    assert!(out.contains("token ops") && out.contains("shown this once"), "{out}");

    let (code, _, err) = with(&secret, &["run", "nothing"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = with(&secret, &["audit"]);
    assert_eq!(code, 1);
    assert!(err.contains("role admin") && err.contains("a token with another role"), "{err}");

    let (_, listed, _) = with(&ada, &["token", "list"]);
    for said in ["ada", "admin", "ops", "operator", "never", "active"] {
        assert!(listed.contains(said), "{said}: {listed}");
    }
    assert!(!listed.contains("pun_"), "{listed}");
    let (_, log, _) = with(&ada, &["audit", "--who", "ops"]);
    assert!(log.contains("POST /api/v1/workflows/nothing/runs"), "{log}");
    assert!(log.contains("127.0.0.1") && !log.contains("tokens"), "{log}");
    let (code, said, _) = with(&ada, &["token", "revoke", "ops"]);
    assert_eq!((code, said.as_str()), (0, "token ops is revoked\n"));
    assert_eq!(with(&secret, &["schedule", "list"]).0, 1);
}
