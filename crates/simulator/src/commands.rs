//! Random commands of people and programs, at any time and in any state.

use std::sync::Arc;

use engine::run::{Activity, ActivityStatus, Resolution};
use engine::schedule::{OverrideAction, Status};
use engine::turn::{Command, NewRun, NewSchedule, Starter, Verb};
use engine::{ScheduleId, WorkflowId};
use jiff::SignedDuration;
use language::definition::{Flaw, ReadContext, read};
use serde_json::value::RawValue;

use crate::clock::instant;
use crate::handlers;
use crate::model::{Kept, Model};
use crate::process::generate::{self, PREFIX};
use crate::random::Random;
use crate::watch::WorkflowRow;
use crate::world::{self, Rhythm};

/// The workflows that people have declared.
fn known(model: &Model) -> impl Iterator<Item = &WorkflowRow> {
    model.workflows.values().filter(|row| row.name != engine::notices::NAME)
}

/// Someone who gives commands.
pub(crate) struct People {
    random: Random,
    rhythm: Rhythm,
    /// How many schedules may exist besides those of triggers.
    most: usize,
    asked: u64,
}

impl People {
    pub(crate) fn new(random: Random, rhythm: Rhythm, most: usize) -> People {
        People { random, rhythm, most, asked: 0 }
    }

    /// Saves a workflow, new or in a new version.
    pub(crate) fn save(&mut self, model: &Model, name: &str, now: i64) -> Option<Command> {
        let rules = &model.rules;
        let zones = rules.zones();
        let known = |id: &str| rules.calendar(id).cloned();
        let context = ReadContext { zones, now: instant(now), known_calendar: &known };
        let index = name.strip_prefix(PREFIX).and_then(|index| index.parse().ok());
        let with_handlers = name.strip_prefix(handlers::generate::PREFIX);
        let with_handlers = with_handlers.and_then(|index| index.parse().ok());
        let (source, definition) = loop {
            let source = match (index, with_handlers) {
                (Some(index), _) => generate::definition(&mut self.random, index),
                (_, Some(index)) => handlers::generate::definition(&mut self.random, index),
                _ => world::definition(&mut self.random, name, self.rhythm, now),
            };
            let definition = read(&source, &context);
            // Random jumps may form a circle that nothing leads into: such a definition is
            // generated again.
            let is_nowhere = |flaws: &[Flaw]| flaws.iter().all(|flaw| flaw.code == "unreachable");
            if index.is_none() || !definition.as_ref().is_err_and(|flaws| is_nowhere(flaws)) {
                break (source, definition);
            }
        };
        debug_assert!(definition.is_ok(), "{source}\n{definition:?}");
        let definition = Arc::new(definition.ok()?);
        let publish = self.random.chance(900);
        Some(Command::SaveWorkflow { source, definition, publish, folder: None })
    }

    pub(crate) fn create(&mut self, model: &Model, now: i64) -> Option<Command> {
        // A workflow with handlers has schedules of its own.
        let live = known(model).filter(|row| row.live.is_some());
        let live = live.filter(|row| !row.name.starts_with(handlers::generate::PREFIX));
        let live: Vec<i64> = live.map(|row| row.id).collect();
        if live.is_empty() || model.schedules.len() >= self.most {
            return None;
        }
        self.asked += 1;
        let name = format!("schedule {}", self.asked);
        let declared = world::schedule(&mut self.random, &name, self.rhythm, now);
        let workflow = WorkflowId(self.random.pick(&live));
        Some(Command::CreateSchedules(vec![NewSchedule { workflow, declared_by: None, declared }]))
    }

    /// A random command, if one makes sense at present.
    pub(crate) fn ask(&mut self, model: &Model, now: i64) -> Option<Command> {
        if model.has_handlers() && self.random.chance(500) {
            let run = self.new_run();
            return handlers::people::ask(&mut self.random, model, run);
        }
        let id = self.some_schedule(model)?;
        let kept = model.schedules.get(&id)?;
        match self.random.below(24) {
            0 | 1 => self.create(model, now),
            2..=5 => Some(self.control(kept)),
            6 => {
                let run = self.new_run();
                Some(Command::StartSchedule { id: ScheduleId(id), run })
            }
            7 => self.start_workflow(model),
            8 | 9 => self.edit(id, now),
            10..=12 => self.override_one(kept, now),
            13 => Some(Command::DeleteSchedules(vec![ScheduleId(id)])),
            14 | 15 => Some(self.backfill(id, now)),
            16..=18 => self.about_a_run(model),
            19 => {
                let name = known(model).nth(self.random.below(known(model).count()))?;
                self.save(model, &name.name.clone(), now)
            }
            20 => {
                let row = known(model).nth(self.random.below(known(model).count()))?;
                Some(Command::PublishWorkflow(WorkflowId(row.id)))
            }
            21 => {
                let row = known(model).nth(self.random.below(known(model).count()))?;
                Some(Command::PauseWorkflow {
                    id: WorkflowId(row.id),
                    paused: !row.paused,
                    reason: None,
                })
            }
            22 => Some(Command::Recompute(vec![ScheduleId(id)])),
            _ => self.resolve(model),
        }
    }

    fn some_schedule(&mut self, model: &Model) -> Option<i64> {
        model.schedules.keys().nth(self.random.below(model.schedules.len())).copied()
    }

    fn new_run(&mut self) -> NewRun {
        self.asked += 1;
        let id = u128::from(self.asked) << 64 | u128::from(self.random.next());
        let payload = serde_json::value::to_raw_value(&generate::payload(&mut self.random)).ok();
        NewRun {
            id,
            payload,
            by: Starter::Caller("someone".to_owned()),
            trace: None,
            if_busy: Default::default(),
        }
    }

    /// Mostly a verb that the status allows, sometimes another.
    fn control(&mut self, kept: &Kept) -> Command {
        let id = ScheduleId(kept.row.id);
        let resume = Verb::Resume { catch_up: self.random.chance(300) };
        let fitting = match kept.row.status {
            Status::Active => Verb::Pause,
            Status::Paused => resume,
            Status::Done | Status::Dead => Verb::Revive,
        };
        let any = [Verb::Pause, resume, Verb::Revive, Verb::Enable, Verb::Disable];
        let verb = if self.random.chance(800) { fitting } else { self.random.pick(&any) };
        Command::ControlSchedule { id, verb }
    }

    fn start_workflow(&mut self, model: &Model) -> Option<Command> {
        let row = known(model).nth(self.random.below(known(model).count()))?;
        Some(Command::StartWorkflow { id: WorkflowId(row.id), run: self.new_run() })
    }

    fn edit(&mut self, id: i64, now: i64) -> Option<Command> {
        let patch = match self.random.below(5) {
            0 => format!("{{{}}}", world::rule(&mut self.random, self.rhythm, now).get(2..)?),
            1 => format!("{{\"total_repeats\": {}}}", self.random.spread(1, 100)),
            2 => format!("{{\"max_retries\": {}}}", self.random.between(0, 4)),
            3 => format!("{{\"description\": \"edit {}\"}}", self.random.below(1000)),
            _ => {
                let overlap = self.random.pick(&["skip", "queue", "cancel", "allow", "queue_all"]);
                format!("{{\"overlap\": \"{overlap}\"}}")
            }
        };
        Some(Command::EditSchedule { id: ScheduleId(id), patch })
    }

    fn override_one(&mut self, kept: &Kept, now: i64) -> Option<Command> {
        let (id, by) = (ScheduleId(kept.row.id), "someone".to_owned());
        if !kept.overrides.is_empty() && self.random.chance(250) {
            let (nominal, _) = kept.overrides[self.random.below(kept.overrides.len())];
            return Some(Command::Override { id, nominal: instant(nominal), action: None, by });
        }
        let (_, from) = kept.next?;
        // Several may land on the same instant.
        let first = kept.timing.next_after(instant(from - 1));
        let coming = std::iter::successors(first, |last| kept.timing.following(*last));
        let coming: Vec<_> = coming.take(4).collect();
        let due = coming.get(self.random.below(coming.len()))?;
        let action = match self.random.below(4) {
            0 => OverrideAction::Skip,
            1 => OverrideAction::Payload(RawValue::NULL.to_owned()),
            // Moves it onto the time of another occurrence.
            2 => OverrideAction::Move(coming.get(self.random.below(coming.len()))?.effective),
            _ => {
                let to = now + self.random.spread(1_000, 86_400_000);
                OverrideAction::Move(instant(to))
            }
        };
        Some(Command::Override { id, nominal: due.nominal, action: Some(action), by })
    }

    fn backfill(&mut self, id: i64, now: i64) -> Command {
        let to = now - self.random.spread(1, 86_400_000);
        let from = to - self.random.spread(60_000, 86_400_000);
        Command::Backfill {
            id: ScheduleId(id),
            from: instant(from),
            to: instant(to),
            limit: self.random.spread(1, 20) as u32,
            pace: self.random.chance(300).then(|| SignedDuration::from_secs(30)),
            again: self.random.chance(500),
        }
    }

    fn about_a_run(&mut self, model: &Model) -> Option<Command> {
        if self.random.chance(300) && !model.ended.is_empty() {
            let row = &model.ended[self.random.below(model.ended.len())];
            let run = self.new_run();
            return Some(Command::RetryRun {
                id: row.id(),
                from_start: self.random.chance(500),
                run,
            });
        }
        let row = model.runs.values().nth(self.random.below(model.runs.len()))?;
        Some(Command::CancelRun { id: row.id(), reason: "someone cancels".to_owned() })
    }

    pub(crate) fn resolve(&mut self, model: &Model) -> Option<Command> {
        let suspended =
            |row: &&crate::watch::RunRow| row.status == engine::run::RunStatus::Suspended;
        let row = model.runs.values().find(suspended)?;
        let all = [Resolution::Applied, Resolution::DidNotHappen, Resolution::Failed];
        let resolution = match row.handler {
            Some(_) => handlers::people::resolution(&mut self.random),
            None => self.random.pick(&all),
        };
        let id = row.id();
        let unknown = |active: &&Activity| matches!(active.status, ActivityStatus::Unknown { .. });
        let step = row.state.active.iter().find(unknown)?.step;
        Some(match &row.detail {
            // Several steps may have an unknown outcome, so the command names the step.
            Some(detail) => {
                let step = detail.definition.steps[step as usize].id.clone();
                Command::ResolveStep { id, step, resolution, by: "ada".to_owned() }
            }
            None if row.handler.is_none() => {
                let step = format!("s{step}");
                Command::ResolveStep { id, step, resolution, by: "ada".to_owned() }
            }
            None => Command::ResolveRun { id, resolution, by: "ada".to_owned() },
        })
    }
}
