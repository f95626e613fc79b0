//! Tests of the zone database: it is bundled, and can be replaced at run time.

use std::path::PathBuf;

use crate::{finished, punctual, shown};

/// A database in which Berlin is always two hours ahead of UTC.
fn other_database() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("zoneinfo");
    std::fs::create_dir_all(root.join("Europe")).expect("a folder");
    std::fs::write(root.join("+VERSION"), "2099a\n").expect("a file");
    std::fs::write(root.join("Europe/Berlin"), tzif("<+02>-2")).expect("a file");
    std::fs::write(root.join("Europe/Readme"), "not a zone").expect("a file");
    root
}

/// The smallest compiled zone: no transitions, one type, and a rule for all time.
fn tzif(rule: &str) -> Vec<u8> {
    let mut block = b"TZif2".to_vec();
    block.extend([0; 15]);
    for count in [0u32, 0, 0, 0, 1, 4] {
        block.extend(count.to_be_bytes());
    }
    let mut file = block.clone();
    file.extend([0, 0, 0, 0, 0, 0]);
    file.extend(b"UTC\0");
    file.extend(block);
    file.extend(7200i32.to_be_bytes());
    file.extend([0, 0]);
    file.extend(b"+02\0");
    file.extend(format!("\n{rule}\n").bytes());
    file
}

#[test]
fn the_release_in_use_is_visible() {
    assert!(shown(&["--version"]).contains("zone database …, bundled"));
}

#[test]
fn another_database_moves_the_same_rule() {
    let ask =
        ["next", "0 9 * * *", "--tz", "Europe/Berlin", "-n", "1", "--from", "2026-01-01T00:00:00Z"];
    assert!(shown(&ask).contains("2026-01-01T08:00:00Z"));
    let output = punctual().args(ask).env("PUNCTUAL_TZDIR", other_database()).output();
    let (code, out, _) = finished(output.expect("it starts"));
    assert_eq!(code, 0);
    assert!(out.contains("2026-01-01T07:00:00Z"), "{out}");
    assert!(out.contains("zone database 2099a"), "{out}");
}

#[test]
fn what_is_no_database_or_no_zone_is_refused() {
    let ask = |folder: &str, zone: &str| {
        let output = punctual()
            .args(["next", "0 9 * * *", "--tz", zone])
            .env("PUNCTUAL_TZDIR", folder)
            .output();
        finished(output.expect("it starts"))
    };
    let (code, _, err) = ask("/nonexistent", "UTC");
    assert_eq!(code, 3);
    assert!(err.contains("no zone database there"), "{err}");
    let folder = other_database();
    let folder = folder.to_str().expect("text");
    for zone in
        ["Europe/Readme", "Europe/Paris", "../zoneinfo/Europe/Berlin", "/etc/passwd", "localtime"]
    {
        let (code, _, err) = ask(folder, zone);
        assert_eq!(code, 1, "{zone}");
        assert!(err.contains("no such time zone"), "{zone}: {err}");
    }
}
