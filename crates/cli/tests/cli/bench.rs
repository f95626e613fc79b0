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
fn what_cannot_be_is_refused() {
    let (code, _, err) = run(&["bench", "--quick", "--dir", "/nowhere/at/all"]);
    assert_eq!(code, 3);
    assert!(err.contains("/nowhere/at/all"), "{err}");
    assert_eq!(run(&["bench", "--rate", "0"]).0, 2);
}
