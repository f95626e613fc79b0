//! Tests that `punctual bench` runs and what it prints, never how fast it is.

use super::run;

fn figures(args: &[&str]) -> Vec<serde_json::Value> {
    let args: Vec<&str> = ["bench", "--quick", "--json"].iter().chain(args).copied().collect();
    let (code, out, err) = run(&args);
    assert_eq!((code, err.as_str()), (0, ""));
    let printed: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    printed["figures"].as_array().expect("a list").clone()
}

#[test]
fn everything_is_measured() {
    let figures = figures(&["--pending", "0", "--pending", "60", "--rate", "50"]);
    let measures: Vec<&str> = figures.iter().filter_map(|f| f["measure"].as_str()).collect();
    for wanted in ["limits", "creates", "fires", "lateness", "restart", "lists", "idle"] {
        assert!(measures.contains(&wanted), "{wanted} in {measures:?}");
    }
    for figure in &figures {
        assert!(figure["value"].as_f64().is_some_and(|value| value >= 0.0), "{figure}");
        assert!(figure["name"].is_string() && figure["unit"].is_string(), "{figure}");
        assert_eq!(figure.get("reach").is_some(), figure.get("holds").is_some(), "{figure}");
    }
    let fires = figures.iter().find(|figure| figure["measure"] == "fires").expect("fires");
    assert_eq!(fires["name"], "beside 0 pending");
    assert!(fires["limit"]["ratio"].is_number(), "{fires}");
    assert!(fires["reach"]["at_least"].is_number(), "{fires}");
}

#[test]
fn only_what_is_wanted_is_measured() {
    let figures = figures(&["--only", "limits", "--pending", "0"]);
    assert!(figures.iter().all(|figure| figure["measure"] == "limits"), "{figures:?}");
}

#[test]
fn a_repeated_benchmark_says_what_moved_since_an_earlier_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("before.json");
    let only = ["--only", "limits", "--pending", "0", "--repeat", "2"];
    let before = figures(&only);
    let syncs = before.iter().find(|figure| figure["range"]["least"].is_number()).expect("a range");
    let mut changed = syncs.clone();
    let far_less = syncs["value"].as_f64().expect("a number") / 1_000.0;
    changed["value"] = far_less.into();
    changed["range"] = serde_json::json!({ "least": far_less, "most": far_less });
    std::fs::write(&file, serde_json::json!({ "figures": [changed] }).to_string())
        .expect("written");
    let file = file.to_str().expect("a path");
    let after = figures(&[&only[..], &["--compare", file]].concat());
    for figure in after {
        let is_changed = figure["name"] == syncs["name"];
        assert_eq!(
            figure["earlier"]["has_moved"].as_bool(),
            is_changed.then_some(true),
            "{figure}"
        );
    }
    let (code, _, err) = run(&["bench", "--compare", "/nowhere.json"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("bench --json"), "{err}");
}

#[test]
fn what_cannot_be_is_refused() {
    let (code, _, err) = run(&["bench", "--quick", "--dir", "/nowhere/at/all"]);
    assert_eq!(code, 3);
    assert!(err.contains("/nowhere/at/all"), "{err}");
    assert_eq!(run(&["bench", "--rate", "0"]).0, 2);
}
