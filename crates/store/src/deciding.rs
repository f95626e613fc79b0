//! What the engine decides inside a transaction, in both stores alike.

use std::collections::HashSet;

use engine::turn::{
    Answer, Capacity, Command, CreatedRun, Refused, TransactionReader, Turn, Turned, Wakeup,
};
use engine::{Moment, NodeId, ScheduleId};
use language::Rules;
use language::notification_setup::Setup;

use crate::failure::Failure;
use crate::request::{Report, TurnRequest};
use crate::set_aside::{counting, guarded};

/// The result of a command that was carried out, for its caller.
pub(crate) struct CommandOutcome {
    pub(crate) answer: Answer,
    /// The run that the command created, if nothing more must be read to show it.
    pub(crate) created: Option<Box<CreatedRun>>,
}

impl CommandOutcome {
    fn by<R: TransactionReader>(turn: &Turn<'_, R>, answer: Answer) -> CommandOutcome {
        let created = turn.created_run(&answer).map(Box::new);
        CommandOutcome { answer, created }
    }
}

/// What a turn or command is decided by.
pub(crate) struct Deciding<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) moment: Moment,
    pub(crate) node: NodeId,
    pub(crate) traced: bool,
    pub(crate) set_aside: &'a HashSet<Wakeup>,
    pub(crate) setup: &'a Setup,
}

impl<'d> Deciding<'d> {
    /// Decides a turn. Returns what is to be written, and how many reports were refused.
    pub(crate) fn turn<R: TransactionReader<Error = Failure>>(
        self,
        reader: &mut R,
        request: &TurnRequest,
        reports: impl ExactSizeIterator<Item = Report>,
        outdated: &[ScheduleId],
        due: &[(i64, Wakeup)],
    ) -> Result<(Turned, usize), Failure> {
        let Deciding { rules, moment, node, traced, set_aside, setup } = self;
        let turn = Turn::new(reader, rules, moment, node, request.capacity);
        let turn = turn.traced(traced).without(set_aside).telling(setup);
        let mut turn = turn.holding(request.held.clone());
        turn.expect(due.len() + reports.len());
        let mut refused = 0;
        let decided = guarded(|| {
            // First of all: attempts whose effects were lost already occupy capacity.
            if let Some(performed) = &request.performed {
                turn.perform_lost(performed)?;
            }
            // Before due wakeups: a run that ends at an instant is settled before an occurrence at
            // that instant is decided.
            for report in reports {
                if let Err(stop) = turn.report(report.run, report.token, report.end) {
                    stop.refusal()?;
                    refused += 1;
                }
            }
            // A calendar has changed and these schedules were not recomputed yet. Nothing may be
            // decided by an old calendar.
            if !outdated.is_empty() {
                turn.recompute(outdated)?;
            }
            for (_, wakeup) in due {
                turn.wake(*wakeup)?;
            }
            if let Some(key) = request.begin {
                turn.begin_or_go_on(key)?;
            }
            turn.fill_slots()
        });
        decided.map_err(|failure| failure.about(turn.deciding()))?;
        Ok((turn.finish(), refused))
    }

    /// Carries out a command. `deleted` schedules were deleted before, because the engine cannot
    /// read them.
    pub(crate) fn command<R: TransactionReader<Error = Failure>>(
        self,
        reader: &mut R,
        command: Command,
        deleted: u64,
    ) -> Result<(CommandOutcome, Turned), Failure> {
        let set_aside = self.set_aside;
        let mut turn = self.of_commands(reader);
        if let Command::ClaimAttempts { .. } = command {
            turn = turn.without(set_aside);
        }
        let answer = guarded(|| Ok(turn.command(command)?));
        let answer = answer.map_err(|failure| failure.about(turn.deciding()))?;
        let told = CommandOutcome::by(&turn, counting(answer, deleted));
        Ok((told, turn.finish()))
    }

    /// Carries out commands of which none that is refused has changed anything by then. If one of
    /// them fails, all do.
    pub(crate) fn commands<R: TransactionReader<Error = Failure>>(
        self,
        reader: &mut R,
        commands: impl Iterator<Item = Command>,
    ) -> Result<(Vec<Result<CommandOutcome, Refused>>, Turned), Failure> {
        let mut turn = self.of_commands(reader);
        let answers = guarded(|| {
            let answers = commands.map(|command| match turn.command(command) {
                Ok(answer) => Ok(Ok(CommandOutcome::by(&turn, answer))),
                Err(stop) => stop.refusal().map(Err),
            });
            answers.collect::<Result<Vec<_>, Failure>>()
        });
        let answers = answers.map_err(|failure| failure.about(turn.deciding()))?;
        Ok((answers, turn.finish()))
    }

    /// A turn of commands. Runs that they create begin in the driver's next turn, which knows the
    /// node's capacity.
    fn of_commands<'t, R: TransactionReader<Error = Failure>>(
        &self,
        reader: &'t mut R,
    ) -> Turn<'t, R>
    where
        'd: 't,
    {
        let Deciding { rules, moment, node, traced, setup, .. } = *self;
        let capacity = Capacity { rescan: false, ..Capacity::new(0) };
        Turn::new(reader, rules, moment, node, capacity).traced(traced).telling(setup)
    }
}

/// Whether a command of a person or caller is about events: if one of them cannot be read, the
/// answer is [`about_events`].
pub(crate) fn is_about_events(command: &Command) -> bool {
    matches!(command, Command::PublishEvents { .. } | Command::SkipEvent { .. })
}

/// The failure of a command about events: a refusal in words if an event cannot be read.
pub(crate) fn about_events(failure: Failure) -> Failure {
    match failure {
        Failure::Undecidable { why, .. } if why.starts_with("column events.") => {
            let message = format!(
                "The event is stored in a way that cannot be read ({why}). Run `punctual doctor \
                 --repair`, which mends it, and then try again."
            );
            Failure::Refused(Refused::Conflict(message))
        }
        failure => failure,
    }
}
