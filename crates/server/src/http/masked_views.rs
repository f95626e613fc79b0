//! What the API and the pages read of the store's rows that hold data of runs and events, with
//! secrets masked. The rows themselves are unmasked where attempts need them, so whatever shows one
//! reads it here.

use engine::incidents::{Told, ToldOutcome};
use engine::notices;
use engine::run::RunError;
use engine::turn::CreatedRun;
use engine::{RunId, TopicId};
use jiff::Timestamp;
use serde_json::value::RawValue;
use store::{
    AlertView, ApprovalQuery, ApprovalView, EventQuery, EventView, Failure, IncidentQuery,
    IncidentView, MutationQuery, MutationView, Page, RunDetail, RunQuery, RunView, Stats, Store,
    WorkflowQuery, WorkflowView,
};

use crate::dispatch::raw;
use crate::secrets::Secrets;

/// Reads rows of the store and masks secrets in them.
pub(crate) struct MaskedViews<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) secrets: &'a Secrets,
}

impl MaskedViews<'_> {
    pub(crate) async fn runs(&self, query: RunQuery) -> Result<Page<RunView>, Failure> {
        let mut page = self.store.runs(query).await?;
        page.items.iter_mut().for_each(|view| self.secrets.mask_run(view));
        Ok(page)
    }

    pub(crate) async fn run(&self, id: RunId) -> Result<Option<RunDetail>, Failure> {
        let mut found = self.store.run(id).await?;
        if let Some(RunDetail { view, steps, earlier, .. }) = &mut found {
            self.secrets.mask_run(view);
            for step in steps {
                self.secrets.mask_output(&mut step.output);
                self.secrets.mask_error(&mut step.error);
                self.secrets.mask_some(&mut step.reason);
            }
            earlier.iter_mut().for_each(|attempt| self.secrets.mask_error(&mut attempt.error));
        }
        Ok(found)
    }

    /// A run that a command has just created. No step of it has begun.
    pub(crate) fn created(&self, created: CreatedRun) -> RunDetail {
        let CreatedRun { run, workflow_name, definition, .. } = created;
        let mut view = RunView { run, workflow_name, parent: None };
        self.secrets.mask_run(&mut view);
        RunDetail { view, definition, steps: Vec::new(), earlier: Vec::new(), position: None }
    }

    /// The workflow with this id or name.
    pub(crate) async fn workflow(
        &self,
        id_or_name: &str,
        revision: Option<u32>,
    ) -> Result<Option<WorkflowView>, Failure> {
        let mut found = self.store.workflow(id_or_name, revision).await?;
        let reason = found.as_mut().map(|view| &mut view.workflow.paused_reason);
        reason.into_iter().for_each(|reason| self.secrets.mask_some(reason));
        Ok(found)
    }

    pub(crate) async fn workflows(
        &self,
        query: WorkflowQuery,
    ) -> Result<Page<WorkflowView>, Failure> {
        let mut page = self.store.workflows(query).await?;
        let reasons = page.items.iter_mut().map(|view| &mut view.workflow.paused_reason);
        reasons.for_each(|reason| self.secrets.mask_some(reason));
        Ok(page)
    }

    pub(crate) async fn stats(&self, now: Timestamp) -> Result<Stats, Failure> {
        let mut stats = self.store.stats(now).await?;
        stats.latest_paused.iter_mut().for_each(|(_, reason, _)| self.secrets.mask_text(reason));
        Ok(stats)
    }

    pub(crate) async fn alerts(&self, run: RunId) -> Result<Vec<AlertView>, Failure> {
        let mut alerts = self.store.alerts(run).await?;
        alerts.iter_mut().for_each(|alert| self.secrets.mask_some(&mut alert.refused));
        Ok(alerts)
    }

    pub(crate) async fn approvals(
        &self,
        query: ApprovalQuery,
    ) -> Result<Page<ApprovalView>, Failure> {
        let mut page = self.store.approvals(query).await?;
        for ApprovalView { title, description, .. } in &mut page.items {
            self.secrets.mask_text(title);
            self.secrets.mask_some(description);
        }
        Ok(page)
    }

    pub(crate) async fn incidents(
        &self,
        query: IncidentQuery,
    ) -> Result<Page<IncidentView>, Failure> {
        let mut page = self.store.incidents(query).await?;
        for IncidentView { incident, .. } in &mut page.items {
            self.secrets.mask_text(&mut incident.error);
            let ends = incident.end.iter_mut().flat_map(|end| &mut end.told);
            for Told { outcome, .. } in incident.told.iter_mut().chain(ends) {
                if let ToldOutcome::Refused(why) = outcome {
                    self.secrets.mask_text(why);
                }
            }
        }
        Ok(page)
    }

    pub(crate) async fn mutations(
        &self,
        query: MutationQuery,
    ) -> Result<Page<MutationView>, Failure> {
        let mut page = self.store.mutations(query).await?;
        page.items.iter_mut().for_each(|view| self.secrets.mask_some(&mut view.mutation.note));
        Ok(page)
    }

    pub(crate) async fn events(&self, query: EventQuery) -> Result<Page<EventView>, Failure> {
        let mut page = self.store.events(query).await?;
        page.items.iter_mut().for_each(|view| self.secrets.mask_event(view));
        Ok(page)
    }

    pub(crate) async fn events_by_id(
        &self,
        topic: TopicId,
        ids: Vec<String>,
    ) -> Result<Vec<EventView>, Failure> {
        let mut found = self.store.events_by_id(topic, ids).await?;
        found.iter_mut().for_each(|view| self.secrets.mask_event(view));
        Ok(found)
    }
}

impl Secrets {
    fn mask_run(&self, RunView { run, workflow_name, .. }: &mut RunView) {
        if *workflow_name == notices::NAME {
            let input = serde_json::from_str(run.input.get()).unwrap_or_default();
            run.input = raw(&notices::shown_input(input));
        }
        self.mask_in_place(&mut run.input);
        self.mask_output(&mut run.output);
        self.mask_error(&mut run.error);
        // The start by an event names the event's id, which others chose.
        self.mask_some(&mut run.by);
    }

    fn mask_event(&self, EventView { event, .. }: &mut EventView) {
        self.mask_text(&mut event.message.message_id);
        event.message.causes.iter_mut().for_each(|cause| self.mask_text(cause));
        self.mask_some(&mut event.message.title);
        self.mask_in_place(&mut event.message.payload);
        // The reason may name who skipped the event, as the caller wrote it.
        self.mask_some(&mut event.status.reason);
    }

    fn mask_in_place(&self, json: &mut Box<RawValue>) {
        let unmasked = std::mem::replace(json, RawValue::NULL.to_owned());
        *json = self.mask_raw(unmasked);
    }

    fn mask_output(&self, output: &mut Option<Box<RawValue>>) {
        *output = output.take().map(|output| self.mask_raw(output));
    }

    fn mask_error(&self, error: &mut Option<RunError>) {
        if let Some(error) = error {
            self.mask_text(&mut error.message);
        }
    }

    fn mask_some(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.mask_text(text);
        }
    }

    fn mask_text(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(masked) = self.mask(text) {
            *text = masked;
        }
    }
}
