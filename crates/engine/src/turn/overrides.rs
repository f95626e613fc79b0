//! Overrides within a turn: what a person decided about one occurrence.

use jiff::Timestamp;

use super::command::{Answer, CommandResult, Refused};
use super::{Change, OverrideWrite, TransactionReader, Turn};
use crate::ids::ScheduleId;
use crate::schedule::{Override, OverrideAction, Status, Upcoming, just_before};
use crate::stop::{Stop, refuse};

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn override_occurrence(
        &mut self,
        id: ScheduleId,
        nominal: Timestamp,
        action: Option<OverrideAction>,
        by: String,
    ) -> CommandResult<B::Error> {
        if !self.load_schedule(id)? {
            return refuse(Refused::unknown_schedule(id));
        }
        let known = match self.reader.overrides(id) {
            // Others cannot be read: each is cleared by itself, and the schedule is decided again
            // when none of them is left.
            Err(failure) if action.is_none() && B::is_unreadable(&failure) => {
                self.output.writes.overrides.push(OverrideWrite::Delete(id, nominal));
                return Ok(Answer::Schedule(id));
            }
            known => known?,
        };
        if let Some(action) = &action {
            self.check_override(id, nominal, action, &known)?;
        }
        if let Some(OverrideAction::Payload(payload)) = &action {
            self.check_payload_for_schedule(id, Some(payload))?;
        }
        let over = known.iter().find(|over| over.nominal == nominal);
        let mark = self.schedule(id)?.progress.mark;
        if over.is_some_and(|over| over.has_been(mark)) {
            let message = format!("The occurrence of {nominal} was moved, and has been already.");
            return refuse(Refused::Conflict(message));
        }
        self.output.writes.overrides.push(match action.clone() {
            Some(action) => OverrideWrite::Put(id, Override { nominal, action, by: by.clone() }),
            None => OverrideWrite::Delete(id, nominal),
        });
        let mut overrides = known;
        overrides.retain(|over| over.nominal != nominal);
        overrides.extend(action.map(|action| Override { nominal, action, by }));
        let (rules, now) = (self.context.rules, self.context.moment.now);
        let schedule = self.schedule_mut(id, Change::Progress)?;
        schedule.progress.has_overrides = !overrides.is_empty();
        let plan = schedule.declared.plan(rules, schedule.progress.anchor, &id.to_string());
        // A rule that counts from the end of a run has no occurrences that could be overridden.
        if let Ok(plan) = plan
            && !matches!(plan.timing.rule(), calendar::Rule::AfterCompletion(_))
            && schedule.status == Status::Active
            && schedule.progress.next.is_some()
        {
            let upcoming = Upcoming { plan: &plan, overrides: &overrides };
            schedule.progress.next = upcoming.after(schedule.progress.mark);
            schedule.finish_if_exhausted(now);
        }
        Ok(Answer::Schedule(id))
    }

    /// Refuses overrides of past occurrences and moves into the past.
    fn check_override(
        &self,
        id: ScheduleId,
        nominal: Timestamp,
        action: &OverrideAction,
        overrides: &[Override],
    ) -> Result<(), Stop<Refused, B::Error>> {
        let schedule = self.schedule(id)?;
        let plan =
            schedule.declared.plan(self.context.rules, schedule.progress.anchor, &id.to_string());
        let Ok(plan) = plan else {
            return refuse(Refused::Conflict("The rule cannot be read any more.".to_owned()));
        };
        let mark = schedule.progress.mark;
        // If several land on one instant, only the one that stands for the others comes.
        let others = overrides.iter().filter(|over| over.nominal != nominal);
        let others: Vec<Override> = others.cloned().collect();
        let upcoming = Upcoming { plan: &plan, overrides: &others };
        let ruled = upcoming.ruled(nominal).filter(|due| due.effective > mark);
        if !ruled.is_some_and(|due| upcoming.after(just_before(due.effective)) == Some(due)) {
            let message = format!("Schedule {id} has no occurrence to come at {nominal}.");
            return refuse(Refused::Conflict(message));
        }
        match action {
            OverrideAction::Move(to) if *to <= self.context.moment.now.max(mark) => {
                refuse(Refused::Conflict(format!("{to} is not in the future.")))
            }
            _ => Ok(()),
        }
    }
}
