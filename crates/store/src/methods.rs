//! The methods that both stores forward to a view, or to a method of their transactions: tables,
//! from which each store makes its methods. A store says with a macro of its own how one is run.
//! `with` names the texts that are copied, because that may be on another thread.

/// Makes a method of each row, which is run by the macro `how`.
macro_rules! forwarded {
    ($how:ident: $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty
        = $($target:ident)::+($($given:expr),*) $(with $($text:ident),+)?;)*) => {
        $(fn $name(&self, $($arg: $type),*) -> Answered<'_, $answer> {
            $($(let $text = $text.to_owned();)+)?
            $how!(self, $($target)::+, $($given),*)
        })*
    };
}

/// The methods of [`crate::Queries`] that are answered by [`crate::views`].
macro_rules! view_methods {
    ($how:ident) => {
        $crate::methods::forwarded! { $how:
            all_set_aside() -> Vec<SetAside> = set_aside::list();
            schedules(query: ScheduleQuery) -> Page<ScheduleView> = schedules::schedules(&query);
            schedule(id: ScheduleId) -> Option<ScheduleView> = schedules::schedule(id);
            schedules_by_id(ids: Vec<ScheduleId>) -> Vec<ScheduleView> = schedules::by_id(&ids);
            triggered(workflow: WorkflowId) -> Vec<ScheduleView> = schedules::triggered(workflow);
            coming(limit: usize) -> Vec<ScheduleView> = schedules::coming(limit);
            ledger(query: LedgerQuery) -> Page<LedgerRow> = schedules::ledger(&query);
            not_run(query: NotRunQuery) -> Page<NotRunRow> = not_run::not_run(&query);
            tallies(from: Timestamp, to: Timestamp) -> Vec<Tally> = figures::tallies(from, to);
            runs(query: RunQuery) -> Page<RunView> = runs::runs(&query);
            last_runs(workflows: Vec<WorkflowId>) -> Vec<(WorkflowId, RunView)>
                = runs::last_runs(&workflows);
            run(id: RunId) -> Option<RunDetail> = runs::run(&id);
            position(run: Box<Run>) -> Option<u64> = runs::position(&run);
            topics(query: TopicQuery) -> Page<TopicView> = topics::topics(&query);
            events(query: EventQuery) -> Page<EventView> = topics::events(&query);
            events_by_id(topic: TopicId, message_ids: Vec<String>) -> Vec<EventView>
                = topics::events_by_id(topic, &message_ids);
            handlers(workflow: WorkflowId) -> Vec<HandlerView> = topics::handlers(workflow);
            mutations(query: MutationQuery) -> Page<MutationView> = topics::mutations(&query);
            workflows(query: WorkflowQuery) -> Page<WorkflowView> = workflows::workflows(&query);
            workflow(id_or_name: &str, revision: Option<u32>) -> Option<WorkflowView>
                = workflows::workflow(&id_or_name, revision) with id_or_name;
            workflow_id(id_or_name: &str) -> Option<WorkflowId>
                = workflows::workflow_id(&id_or_name) with id_or_name;
            calendar_users(id: &str, besides: WorkflowId) -> (u64, Vec<String>)
                = calendars::calendar_users(&id, besides) with id;
            calendars() -> Vec<CalendarView> = calendars::calendars();
            nodes() -> Vec<NodeView> = figures::nodes();
            stats(now: Timestamp) -> Stats = figures::stats(now);
            incidents(query: IncidentQuery) -> Page<IncidentView> = incidents::list(&query);
            alerts(run: RunId) -> Vec<AlertView> = waiting::alerts(&run);
            approvals(query: ApprovalQuery) -> Page<ApprovalView> = waiting::approvals(&query);
            queues() -> Vec<QueueView> = waiting::queues();
            tokens() -> Vec<TokenRow> = access::tokens();
            token_by_hash(hash: SecretHash) -> Option<TokenView> = access::token_by_hash(&hash);
            sign_in(hash: SecretHash) -> Option<SignInView> = access::sign_in(&hash);
            audit(query: AuditQuery) -> Page<AuditView> = access::audit(&query);
        }
    };
}

/// The methods of [`crate::Store`] that change something besides a turn or a command.
macro_rules! maintenance_methods {
    ($how:ident) => {
        $crate::methods::forwarded! { $how:
            put_calendar(id: &str, spec: &str, moment: Moment, audit: Option<AuditEntry>)
                -> Vec<ScheduleId> = put_calendar(&id, &spec, moment, audit.as_ref()) with id, spec;
            outdated(zones: &str, after: ScheduleId, limit: usize) -> Vec<ScheduleId>
                = outdated(&zones, after, limit) with zones;
            expire(now: Timestamp, keep: SignedDuration, limit: usize) -> Expired
                = expire(now, keep, limit);
        }
    };
}

/// The methods of [`crate::Administration`] that change what people manage.
macro_rules! managing_methods {
    ($how:ident) => {
        $crate::methods::forwarded! { $how:
            delete_calendar(id: &str, moment: Moment, audit: Option<AuditEntry>) -> bool
                = delete_calendar(&id, moment, audit.as_ref()) with id;
            create_token(new: NewToken, now: Timestamp, audit: Option<AuditEntry>) -> TokenView
                = create_token(&new, now, audit.as_ref());
            revoke_token(id: i64, now: Timestamp, audit: Option<AuditEntry>) -> Option<TokenRow>
                = revoke_token(id, now, audit.as_ref());
            begin_sign_in(new: NewSignIn, now: Timestamp, audit: Option<AuditEntry>) -> ()
                = begin_sign_in(&new, now, audit.as_ref());
            end_sign_in(hash: SecretHash) -> bool = end_sign_in(&hash);
        }
    };
}

/// The methods of [`crate::Administration`] by which a node deals with what it cannot decide.
macro_rules! setting_aside_methods {
    ($how:ident) => {
        $crate::methods::forwarded! { $how:
            set_aside(what: Wakeup, why: &str, now: Timestamp) -> ()
                = set_aside(what, &why, now) with why;
            put_on_trial(name: &str, what: Option<Wakeup>) -> ()
                = put_on_trial(&name, what) with name;
            has_settled(name: &str) -> () = has_settled(&name) with name;
        }
    };
}

pub(crate) use {
    forwarded, maintenance_methods, managing_methods, setting_aside_methods, view_methods,
};
