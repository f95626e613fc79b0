//! Producers and consumers that a person starts or that are retried.

use language::definition::Definition;
use language::definition::HandlerKind;
use language::policy::overlap::IfBusy;

use super::children::Purpose;
use super::command::{Answer, CommandResult, NewRun, Refused, Starter, unknown_workflow};
use super::worklist::Work;
use super::{TransactionReader, Turn};
use crate::handlers::Cause;
use crate::ids::{HandlerId, RunKey, WorkflowId};
use crate::schedule;
use crate::stop::refuse;

impl<B: TransactionReader> Turn<'_, B> {
    /// Starts a producer or a consumer by hand.
    pub(super) fn start_handler(
        &mut self,
        id: WorkflowId,
        name: &str,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        let Some(known) = self.load_workflow(id)? else { return refuse(unknown_workflow(id)) };
        let live = known.live;
        let handler = self.handler_named(id, name)?;
        let (Some(live), Some(handler)) = (live, handler) else {
            return refuse(Refused::NotFound { what: "handler", id: name.to_owned() });
        };
        let in_the_way = self.handler_in_the_way(id)?;
        if new.if_busy == IfBusy::Refuse
            && let Some(run) = in_the_way
        {
            return refuse(self.busy_handler(id, run)?);
        }
        if self.handler(handler)?.kind == HandlerKind::Producer {
            return self.start_producer(id, name, new);
        }
        self.call_handler(handler, Cause::ByHand)?;
        let known = self.handler_mut(handler)?;
        known.retry_at = None;
        if let Some(own) = known.run
            && self.load_run(own)?
            && self.is_pending(own)
        {
            self.worklist.add(Work::Begin(own));
            return Ok(Answer::Called(name.to_owned()));
        }
        if in_the_way.is_some() {
            return Ok(Answer::Called(name.to_owned()));
        }
        let resumes = self.handler(handler)?.resumes;
        self.start_consumer(handler, live, Some(new))?;
        Ok(match resumes {
            None => Answer::Run(crate::ids::RunId::Other(new.id).to_string()),
            Some(_) => Answer::Called(name.to_owned()),
        })
    }

    /// The run that the workflow's other handlers wait for. A pending run of a paused workflow
    /// holds up nobody, since it cannot begin.
    pub(super) fn handler_in_the_way(
        &mut self,
        id: WorkflowId,
    ) -> Result<Option<RunKey>, B::Error> {
        let known = self.workflow(id)?;
        let (paused, handling) = (known.paused, known.handling);
        Ok(match handling {
            Some(run) if paused && self.load_run(run)? && self.is_pending(run) => None,
            handling => handling,
        })
    }

    /// The refusal for a caller who does not want to wait for this handler run.
    pub(super) fn busy_handler(
        &mut self,
        id: WorkflowId,
        run: RunKey,
    ) -> Result<Refused, B::Error> {
        let what = format!("Workflow {} runs one handler at a time", self.workflow(id)?.name);
        Ok(Refused::busy(what, self.run_id(Some(run))?))
    }

    /// Starts a producer's run outside its schedule. The run waits until its workflow is free. The
    /// schedule decides at once, since the caller is told why it refuses.
    fn start_producer(
        &mut self,
        id: WorkflowId,
        name: &str,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        match self.schedule_of_producer(id, name)? {
            Some(schedule) => {
                self.decide_schedule(schedule, schedule::Input::Start(new.if_busy), Some(new))?;
                Ok(Answer::Run(crate::ids::RunId::Other(new.id).to_string()))
            }
            None => refuse(Refused::NotFound { what: "handler", id: name.to_owned() }),
        }
    }

    /// Retries a producer's run that was started outside its schedule and failed with a transient
    /// error. The schedule itself retries the runs of its occurrences.
    pub(super) fn try_producer_again(&mut self, id: HandlerId) -> Result<(), B::Error> {
        let handler = self.handler_mut(id)?;
        handler.retry_at = None;
        let (workflow, name, runs) = (handler.workflow, handler.name.clone(), handler.runs);
        let which = i64::try_from(runs).unwrap_or(i64::MAX);
        let new = NewRun {
            id: self.derived_id(RunKey(id.0), Purpose::ProducerRetry as u64, which),
            payload: None,
            by: Starter::Publish,
            trace: None,
            if_busy: IfBusy::Refuse,
        };
        // A producer that is no longer declared has no schedule, and nothing to retry.
        if let Some(schedule) = self.schedule_of_producer(workflow, &name)? {
            let input = schedule::Input::Start(new.if_busy);
            self.worklist.add(Work::Schedule(schedule, input, Some(Box::new(new))));
        }
        Ok(())
    }

    /// Starts a workflow that has only handlers: all its producers run one after the other, or, if
    /// it has none, its consumers look for work. For a caller who does not want to wait, only those
    /// start that are not active already.
    pub(super) fn start_all_handlers(
        &mut self,
        id: WorkflowId,
        definition: &Definition,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        let (mut first, mut refused) = (None, None);
        for (index, producer) in (0_u64..).zip(&definition.producers) {
            let own = match first {
                None => new.clone(),
                Some(_) => {
                    let half = (new.id & u128::from(u32::MAX)) as i64;
                    NewRun { id: self.derived_id(RunKey(id.0), index, half), ..new.clone() }
                }
            };
            match self.start_producer(id, &producer.name, &own) {
                Ok(answer) => drop(first.get_or_insert(answer)),
                Err(stop) => drop(refused.get_or_insert(stop.refusal()?)),
            }
        }
        if let Some(refused) = refused.filter(|_| first.is_none()) {
            return refuse(refused);
        }
        if let Some(answer) = first {
            return Ok(answer);
        }
        let mut answer = None;
        for consumer in &definition.consumers {
            let own = NewRun { id: new.id, ..new.clone() };
            match answer {
                None => answer = Some(self.start_handler(id, &consumer.name, &own)?),
                Some(_) => {
                    if let Some(handler) = self.handler_named(id, &consumer.name)? {
                        self.call_handler(handler, Cause::ByHand)?;
                    }
                }
            }
        }
        answer.map_or_else(|| refuse(unknown_workflow(id)), Ok)
    }
}
