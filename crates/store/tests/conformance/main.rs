//! What every store has to do, said against [`store::Store`] alone: each case is run for each store.
//! Time is a parameter: minutes after a Monday's midnight.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod access;
mod broken_topics;
mod calendars;
mod chance;
mod clocks;
mod commands;
mod crowd;
mod damage;
mod deadlines;
mod due;
mod event_expiry;
mod expiry;
mod figures;
mod handlers;
mod incidents;
mod keeping;
mod limited_crowd;
mod many;
mod messages;
mod moving;
mod nodes;
mod overrides;
mod places;
mod plans;
mod pooler;
mod postgres;
mod process;
mod processes;
mod runs;
mod schedule_views;
mod set_aside;
mod silence;
mod sqlite;
mod takeover;
mod topics;
mod traces;
mod views;
mod waits;
mod workflows;
mod world;

/// Runs every case for one kind of store. `$place` makes an empty place for a store.
macro_rules! suite {
    ($store:ident, $place:expr) => {
        suite! {@cases $store, $place,
            due: becomes_one_run_and_one_row,
            due: is_decided_once_however_often_it_is_claimed,
            due: is_claimed_in_order_of_time_up_to_the_limit,
            due: next_wakeup_is_the_earliest_left,
            due: a_run_that_ends_at_an_instant_is_settled_before_what_is_due_at_it,
            due: missed_ones_are_caught_up_once,
            due: a_clock_set_back_runs_nothing_again,
            due: failures_are_tried_again_until_the_schedule_is_dead,
            many: are_decided_and_settled_like_one,
            many: rows_that_are_there_are_replaced,
            many: what_others_wrote_meanwhile_counts,
            many: go_on_from_step_to_step,
            many: fail_and_are_tried_again,
            commands: schedules_are_created_all_or_none,
            commands: a_key_answers_again_and_does_nothing,
            commands: a_refused_command_leaves_its_key_free,
            commands: deleted_schedules_are_gone_and_their_ids_stay_unused,
            commands: an_edit_moves_the_next_time,
            commands: schedules_change_their_status_only_where_they_may,
            commands: pausing_drops_what_waits,
            commands: a_schedule_is_started_by_hand_beside_its_occurrences,
            commands: past_occurrences_run_after_all,
            commands: what_a_backfill_decided_before_the_clock_was_set_back_is_no_damage,
            commands: a_change_that_gives_a_future_brings_a_schedule_back_to_life,
            commands: what_a_definition_declares_is_not_deleted_by_itself,
            commands: nothing_comes_of_a_paused_workflow,
            overrides: one_occurrence_is_skipped_moved_or_given_a_payload,
            overrides: those_moved_onto_one_time_have_one_run_and_a_row_each,
            overrides: a_rolled_occurrence_stands_before_one_that_is_not,
            overrides: a_withdrawn_override_leaves_nothing,
            overrides: a_schedule_whose_last_occurrence_is_withdrawn_is_done,
            overrides: only_what_comes_can_be_overridden,
            overrides: frequent_and_far_occurrences_can_be_overridden,
            workflows: the_same_definition_is_no_new_revision,
            workflows: triggers_move_with_the_published_revision,
            workflows: a_trigger_is_disabled_by_its_definition_or_by_hand,
            workflows: an_archived_workflow_keeps_its_history_alone,
            workflows: nothing_of_a_paused_workflow_starts_but_by_hand,
            workflows: what_waits_in_a_paused_workflow_is_dropped,
            workflows: a_queue_stands_still_while_its_workflow_is_paused,
            workflows: a_bad_trigger_stores_nothing,
            workflows: runs_keep_the_version_they_began_with,
            places: a_workflow_has_no_more_active_runs_than_it_may,
            places: free_places_go_round_the_workflows,
            places: what_has_begun_waits_for_a_place_and_goes_on_first,
            places: starts_by_hand_run_side_by_side_or_wait_their_turn,
            places: a_refused_start_names_the_run_in_its_way,
            places: a_new_limit_counts_what_is_active,
            runs: steps_follow_each_other,
            runs: reports_with_old_tokens_are_refused,
            runs: a_failing_step_waits_and_is_tried_again,
            runs: a_step_may_be_skipped_on_error,
            runs: a_cancelled_run_waits_for_its_attempt_but_not_for_ever,
            runs: what_takes_too_long_is_ended,
            runs: an_ended_run_is_retried_from_its_start_or_its_failed_step,
            runs: refusals_change_nothing,
            takeover: attempts_of_an_earlier_life_are_handed_out_again,
            takeover: what_must_not_be_repeated_is_suspended_and_resolved,
            takeover: the_clock_of_a_timeout_stands_while_a_run_is_suspended,
            takeover: no_more_is_taken_over_than_there_are_places,
            takeover: what_was_lost_has_its_place,
            takeover: lost_effects_are_handed_out_again,
            takeover: what_was_being_cancelled_has_ended,
            takeover: a_node_that_leaves_is_not_taken_over,
            processes: steps_go_on_side_by_side,
            processes: what_is_done_again_is_known_from_before,
            processes: a_place_that_is_missing_is_found_later,
            processes: timers_wait_across_reopening,
            processes: items_are_done_a_few_at_a_time,
            processes: workers_take_what_is_queued_the_oldest_first,
            processes: an_attempt_is_reported_on_by_its_claimant_alone,
            processes: a_worker_that_is_silent_loses_its_attempt,
            processes: a_worker_hears_of_a_cancel,
            processes: people_are_asked_and_decide,
            processes: approvals_are_paged_by_run_and_step,
            processes: a_child_that_ends_lets_its_parent_go_on,
            processes: a_cancelled_parent_cancels_its_child,
            processes: a_child_that_fails_fails_its_step,
            processes: a_retry_from_the_failed_step_keeps_what_was_done,
            processes: what_was_done_is_undone_in_reverse_order,
            processes: lost_effects_that_undo_are_handed_out_again,
            deadlines: alerts_come_once_and_are_recorded,
            deadlines: those_of_one_instant_are_told_by_one_workflow,
            deadlines: a_step_that_is_late_is_flagged,
            deadlines: what_is_late_is_found_among_runs,
            deadlines: alerts_go_with_their_runs,
            incidents: begin_and_end_with_runs_and_tell_once,
            incidents: of_runs_without_a_schedule_are_the_workflows,
            incidents: are_paged_and_kept_for_a_while,
            incidents: tell_as_the_node_says_and_record_what_it_cannot,
            incidents: what_tells_people_is_hidden_if_asked,
            topics: what_is_published_is_there_in_its_order,
            topics: published_again_it_says_something_else_and_stays_where_it_is,
            topics: events_are_published_all_or_none,
            topics: only_what_nobody_works_on_is_skipped,
            topics: topics_are_paged_by_name,
            topics: a_shared_topic_is_one_for_all,
            topics: events_are_paged_without_gaps,
            topics: pages_of_events_are_stable_under_publishing,
            handlers: events_are_reserved_worked_on_and_consumed,
            handlers: what_a_failed_run_reserved_is_given_back,
            handlers: what_fails_too_often_is_skipped,
            handlers: what_was_mutated_goes_on_and_is_not_mutated_again,
            handlers: an_unknown_mutation_waits_for_a_person,
            handlers: a_consumer_sleeps_until_its_time,
            handlers: a_wakeup_of_nobody_is_looked_at_once,
            handlers: handlers_take_turns,
            handlers: a_producer_publishes_with_its_success_alone,
            handlers: a_new_version_keeps_what_it_has_and_forgets_the_rest,
            handlers: what_a_crash_interrupts_is_begun_again,
            handlers: at_one_instant_handlers_come_after_schedules,
            waits: a_step_that_waits_takes_the_event,
            waits: a_step_waits_for_the_event_that_it_means,
            waits: many_wait_for_one_topic,
            waits: an_event_starts_a_workflow,
            waits: a_step_publishes_once,
            event_expiry: what_is_done_with_goes_in_small_batches,
            event_expiry: a_workflow_says_how_long_its_events_are_kept,
            event_expiry: keys_of_events_are_not_given_again,
            event_expiry: mutations_go_with_their_runs,
            event_expiry: the_run_of_an_event_may_be_gone,
            chance: whatever_happens_holds_together,
            schedule_views: pages_are_stable_under_insertions,
            schedule_views: deep_pages_begin_where_they_should,
            schedule_views: filters_and_their_counts_agree,
            schedule_views: words_are_found_by_their_beginnings,
            schedule_views: what_is_due_next_comes_first,
            traces: a_run_is_one_trace_whatever_happens_to_its_node,
            traces: a_child_is_part_of_the_step_that_has_started_it,
            traces: what_is_due_is_in_a_trace_of_its_own,
            traces: what_the_caller_does_not_record_is_passed_on_alone,
            views: runs_are_listed_by_what_is_asked,
            views: runs_of_a_schedule_are_paged_without_gaps,
            views: ledger_rows_are_found_by_their_times,
            views: workflows_are_paged_by_name,
            views: figures_count_what_is_there,
            figures: what_happens_is_counted_by_the_minute,
            figures: tallies_go_after_eight_days,
            figures: what_did_not_run_is_listed_latest_first,
            figures: an_occurrence_that_failed_keeps_its_run,
            figures: runs_are_found_by_when_they_were_created,
            figures: the_last_run_of_each_workflow_is_found,
            figures: workflows_are_found_by_parts_of_their_names,
            calendars: a_changed_calendar_moves_what_uses_it,
            calendars: a_calendar_in_use_is_not_forgotten,
            calendars: a_calendar_that_cannot_be_built_is_refused,
            calendars: another_zone_release_recomputes_each_schedule_once,
            calendars: an_interval_from_completion_is_not_moved,
            calendars: a_changed_calendar_is_not_forgotten_by_a_crash,
            calendars: nothing_is_decided_by_a_calendar_that_is_no_more,
            calendars: what_had_no_next_time_may_have_one_again,
            access: a_token_is_found_by_its_secret_until_it_is_revoked,
            access: a_token_keeps_the_queues_it_is_for,
            access: sign_ins_end_with_their_token,
            access: a_change_and_who_made_it_are_one_commit,
            access: the_audit_log_is_paged_latest_first,
            access: what_is_over_goes_in_small_batches,
            expiry: what_ended_before_is_removed_in_small_batches,
            expiry: what_has_not_ended_stays_and_stops_nobody,
            expiry: ids_are_not_given_again,
            expiry: the_row_of_what_is_going_on_stays,
            expiry: a_schedule_says_itself_how_long_its_history_is_kept,
            set_aside: a_schedule_that_cannot_be_read_stops_no_other,
            set_aside: a_run_that_cannot_be_read_stops_no_other,
            set_aside: an_occurrence_that_was_run_before_is_not_run_again,
            set_aside: a_command_about_what_cannot_be_read_says_so,
            set_aside: a_definition_that_cannot_be_read_hides_no_other_and_is_published_again,
            set_aside: a_workflow_that_cannot_be_read_is_paused_and_archived,
            keeping: everything_is_there_after_reopening,
            keeping: a_copy_opens_and_equals,
            keeping: what_holds_together_has_no_findings,
        }
    };
    (@cases $store:ident, $place:expr, $($module:ident: $case:ident,)*) => {
        mod $store {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$module::$case(super::world::World::new(Box::new($place)).await).await;
                }
            )*
        }
    };
}

suite!(sqlite_with_threads, crate::sqlite::Folder::new(false));
suite!(sqlite_inline, crate::sqlite::Folder::new(true));
suite!(postgres_shared, crate::postgres::Schema::new());
