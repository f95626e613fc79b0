//! Random processes with random events: after each event the stored rows are consistent, and in the
//! end everything has ended.

use engine::run::AttemptEnd;
use engine::turn::{Capacity, Effect, Perform};
use engine::{RunId, WorkflowId};
use serde_json::{Value, json};
use store::{ApprovalQuery, Report, RunQuery, Turned};

use crate::process::{approval, child, noop, step, timer, undo, with, worker};
use crate::world::{World, failed, succeeded};

/// A random generator that yields the same numbers for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn action(chance: &mut Chance) -> Value {
    let each = |action: Value| {
        json!({"type": "for_each", "items": [1, 2, 3], "action": action,
                                      "max_parallel": 2})
    };
    match chance.below(9) {
        0 => timer(1 + chance.below(5) as i64),
        1 => worker("q"),
        2 => approval("May it?", &[]),
        3 => child("child"),
        4 => each(noop()),
        5 => each(worker("q")),
        _ => noop(),
    }
}

fn deadline(chance: &mut Chance) -> Value {
    let end = chance.of(&["fail", "cancel", "complete", "skip"]);
    json!({"limit": {"within": {"elapsed": format!("PT{}M", 1 + chance.below(8))}},
           "from": chance.of(&["enabled", "started"]),
           "actions": [{"when": {"share": 50.0}, "start": "child"},
                       {"when": {"after": {"elapsed": "PT2M"}}, "end": end}]})
}

fn process(chance: &mut Chance) -> Value {
    let count = 1 + chance.below(IDS.len());
    let mut steps = Vec::new();
    for place in 0..count {
        let depends_on: Vec<&str> =
            IDS[..place].iter().copied().filter(|_| chance.one_in(3)).collect();
        let mut made = step(IDS[place], &depends_on, action(chance));
        if chance.one_in(3) {
            made = with(made, "compensation", undo());
        }
        if chance.one_in(4) {
            made = with(made, "on_error", json!("skip_step"));
        } else if chance.one_in(6) && place > 0 {
            let target = IDS[chance.below(place)];
            made = with(made, "on_error", json!({"goto_step": target}));
        }
        if chance.one_in(4) {
            made["retry"]["max"] = json!(2);
            made["retry"]["delay"] = json!("PT1M");
        }
        if chance.one_in(5) {
            made = with(made, "deadline", deadline(chance));
        }
        made = with(made, "idempotent", json!(!chance.one_in(5)));
        steps.push(made);
    }
    let mut definition = json!({"name": "w", "steps": steps});
    if chance.one_in(3) {
        definition["deadline"] = deadline(chance);
    }
    if chance.one_in(3) {
        definition["max_concurrent_steps"] = json!(1 + chance.below(2));
    }
    if chance.one_in(4) {
        definition["timeout"] = json!("PT15M");
    }
    definition
}

/// The state of one random test, as seen by those who perform attempts.
struct Play {
    world: World,
    chance: Chance,
    workflow: WorkflowId,
    performed: Vec<Perform>,
    claimed: Vec<Perform>,
}

impl Play {
    fn note(&mut self, turned: &Turned) {
        self.note_effects(&turned.effects);
    }

    fn note_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Perform(perform) => self.performed.push((**perform).clone()),
                Effect::Claimed { perform, .. } => self.claimed.push((**perform).clone()),
                Effect::Cancel { .. } => {}
            }
        }
    }

    /// Reports random ends for some of the attempts that are being performed.
    fn reports(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        for perform in std::mem::take(&mut self.performed) {
            match self.chance.below(5) {
                0 | 1 => reports.push(succeeded(&perform)),
                2 => reports.push(failed(&perform)),
                _ => self.performed.push(perform),
            }
        }
        reports
    }

    async fn open_runs(&self) -> Vec<RunId> {
        let query = RunQuery { limit: 1_000, ..RunQuery::default() };
        let page = self.world.store().runs(query).await.unwrap();
        let open = page.items.into_iter().filter(|view| !view.run.status.has_ended());
        open.map(|view| view.run.id).collect()
    }

    /// Does one random thing.
    async fn happen(&mut self, at: i64) {
        match self.chance.below(12) {
            0 => drop(self.world.start(at, self.workflow).await),
            1 => {
                let limit = 1 + self.chance.below(3);
                let taken = self.world.claim(at, &["q"], limit).await;
                self.claimed.extend(taken);
            }
            2 | 3 if !self.claimed.is_empty() => {
                let place = self.chance.below(self.claimed.len());
                let perform = self.claimed.swap_remove(place);
                // The claim may have expired.
                drop(self.world.end(at, &perform.run_id, perform.token).await);
            }
            4 => {
                if let Some(perform) = self.claimed.first().cloned() {
                    drop(self.world.heartbeat(at, &perform.run_id, perform.token).await);
                }
            }
            5 | 6 => self.decide(at).await,
            7 if self.chance.one_in(3) => {
                let open = self.open_runs().await;
                if !open.is_empty() {
                    let run = self.chance.of(&open);
                    let commanded = self.world.cancel(at, &run).await;
                    self.note_effects(&commanded.effects);
                }
            }
            8 if self.chance.one_in(3) => {
                self.world.join(at).await;
                self.performed.clear();
            }
            _ => {
                let (reports, capacity) = (self.reports(), Capacity::new(self.chance.below(4)));
                let turned = self.world.try_turn(at, reports, 100, capacity).await;
                self.note(&turned);
            }
        }
    }

    async fn decide(&mut self, at: i64) {
        let query = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
        let asked = self.world.store().approvals(query).await.unwrap().items;
        if !asked.is_empty() {
            let one = self.chance.of(&asked);
            let approves = !self.chance.one_in(3);
            self.world.decide(at, &one.run, &one.step, "ada", approves).await.unwrap();
        }
    }

    /// Cancels everything and lets it end.
    async fn end(&mut self, at: i64) {
        for run in self.open_runs().await {
            // Some runs end together with others.
            let _ = self
                .world
                .try_command(
                    at,
                    engine::turn::Command::CancelRun { id: run, reason: "enough".to_owned() },
                )
                .await;
        }
        for later in 0..20 {
            let told = |perform: &Perform| Report {
                run: perform.run,
                token: perform.token,
                end: AttemptEnd::Cancelled { message: "told to end".to_owned() },
            };
            let reports = self.performed.iter().map(told).collect();
            self.performed.clear();
            let turned = self.world.turn_with(at + later, reports).await;
            self.note(&turned);
        }
        assert_eq!(self.open_runs().await, []);
        assert_eq!(self.world.queues().await, []);
        let query = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
        assert_eq!(self.world.store().approvals(query).await.unwrap().items, []);
        self.world.holds_together().await;
    }
}

/// The seeds to test; more of them for a long search.
fn seeds() -> std::ops::Range<u64> {
    match std::env::var("PUNCTUAL_TEST_SEEDS").ok().and_then(|count| count.parse().ok()) {
        Some(count) => 1..count,
        None => 1..6,
    }
}

async fn play(mut world: World, seed: u64) -> World {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let at = seed as i64 * 100;
    world.join(at).await;
    world.process("child", vec![step("work", &[], noop())]).await;
    let definition = process(&mut chance);
    let text = definition.to_string();
    let workflow = world.process_with(definition).await;
    world.start(at, workflow).await.unwrap();
    let mut play = Play { world, chance, workflow, performed: vec![], claimed: vec![] };
    for happened in 0..40 {
        play.happen(at + happened / 2).await;
        let findings = play.world.store().check(crate::world::minute(at), false).await.unwrap();
        assert_eq!(findings, [], "seed {seed}, after {happened} of {text}");
    }
    play.end(at + 30).await;
    play.world
}

pub(crate) async fn whatever_happens_holds_together(mut world: World) {
    for seed in seeds() {
        world = play(world, seed).await;
    }
    crate::figures::every_end_is_tallied(&world).await;
}
