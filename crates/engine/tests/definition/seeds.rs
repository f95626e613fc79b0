//! Definitions that others have written: read as they stand.

use engine::definition::{Action, Stretch, Timer};
use jiff::SignedDuration;

use crate::accept;

const DAILY_REPORT: &str = r#"
name: daily-report
version: 1
description: Generate daily report

triggers:
  - id: morning-run
    type: schedule
    cron: "0 9 * * *"        # 9 AM daily
    timezone: America/New_York
    enabled: true
    description: "Generate report at 9 AM EST"

  - id: evening-backup
    type: schedule
    cron: "0 18 * * 1-5"     # 6 PM weekdays
    timezone: UTC
    enabled: true

steps:
  - id: generate
    type: agent_task
    agent: report-agent
    message: Generate the daily report
"#;

#[test]
fn a_report() {
    let read = accept(DAILY_REPORT);
    assert_eq!((read.triggers.len(), read.steps.len()), (2, 1));
    let Action::AgentTask(task) = &read.steps[0].action else { panic!("{read:?}") };
    assert_eq!(task.queue(), "agent:report-agent");
}

#[test]
fn a_timer_between_tasks() {
    let read = accept(
        "name: t\nsteps:\n  - id: start-task\n    type: agent_task\n    agent: task-agent\n    message: Start the task\n\n  - id: wait-5min\n    type: timer\n    delay: 5m\n    depends_on: [start-task]\n\n  - id: check-result\n    type: agent_task\n    agent: check-agent\n    message: Check if task completed\n    depends_on: [wait-5min]\n",
    );
    let Action::Timer(timer) = &read.steps[1].action else { panic!("{read:?}") };
    assert_eq!(timer, &Timer::Delay(Stretch::Elapsed(SignedDuration::from_mins(5))));
    assert_eq!(read.graph().dependencies(2), [1]);
}

#[test]
fn presets_and_zones() {
    for preset in ["daily", "hourly", "weekly", "monthly", "every_5min", "every_15min"] {
        accept(&format!(
            "name: t\nsteps: []\ntriggers:\n  - id: daily-check\n    type: schedule\n    cron: {preset}           # Uses preset\n    timezone: UTC\n"
        ));
    }
    let zones = accept(
        "name: t\nsteps: []\ntriggers:\n  - id: tokyo-morning\n    type: schedule\n    cron: \"0 9 * * *\"\n    timezone: Asia/Tokyo\n\n  - id: london-evening\n    type: schedule\n    cron: \"0 18 * * *\"\n    timezone: Europe/London\n",
    );
    assert_eq!(zones.triggers.len(), 2);
}
