//! Planted bugs of topics and handlers: what each changes in the file between two commits.

use crate::sabotage::Sabotage;

/// The statements of a planted bug, with `?1` for the present.
pub(crate) fn sql(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::ForgetToGiveBack => {
            "UPDATE events SET state = 1, run = (SELECT max(key) FROM runs
               WHERE status IN (5, 6) AND handler IS NOT NULL)
             WHERE state = 0 AND attempt > 0
               AND EXISTS (SELECT 1 FROM runs WHERE status IN (5, 6) AND handler IS NOT NULL)"
        }
        Sabotage::ConsumeTooEarly => "UPDATE events SET state = 2 WHERE state = 1",
        Sabotage::WorkOnItAgain => {
            "UPDATE events SET state = 0, run = NULL
             WHERE key = (SELECT max(key) FROM events WHERE state = 2)"
        }
        Sabotage::LoseEvent => {
            "DELETE FROM events WHERE key = (SELECT max(key) FROM events WHERE state = 0)"
        }
        Sabotage::CountWrongly => "UPDATE topics SET pending = pending + 1",
        Sabotage::PublishTooEarly => {
            "INSERT INTO events (key, topic, message_id, state, attempt, hops, created_at,
               updated_at)
              SELECT 1000000 + ?1 % 1000000, (SELECT min(id) FROM topics), 'early ' || ?1, 0, 0, 0, ?1, ?1
              FROM runs WHERE status = 1 AND handler LIKE 'p%' LIMIT 1;
             UPDATE topics SET pending =
              (SELECT count(*) FROM events WHERE topic = topics.id AND state = 0)
              WHERE EXISTS (SELECT 1 FROM events WHERE topic = topics.id AND message_id LIKE 'early %')"
        }
        Sabotage::HandleTwoAtOnce => {
            "UPDATE workflows SET handling = NULL WHERE handling IS NOT NULL;
             UPDATE handlers SET cause = 2, wake_at = ?1 - 1, run = NULL
              WHERE kind = 1 AND retry_at IS NULL;
             INSERT OR IGNORE INTO wakeups (due, kind, id)
              SELECT ?1 - 1, 3, id FROM handlers WHERE kind = 1 AND wake_at = ?1 - 1"
        }
        Sabotage::ForgetCause => "UPDATE handlers SET cause = NULL WHERE cause IS NOT NULL",
        Sabotage::WakeTooEarly => {
            "UPDATE handlers SET wake_at = ?1 + 1000 WHERE wake_at > ?1 + 2000;
             INSERT OR IGNORE INTO wakeups (due, kind, id)
              SELECT wake_at, 3, id FROM handlers WHERE wake_at = ?1 + 1000"
        }
        Sabotage::Oversleeping => "DELETE FROM wakeups WHERE kind = 3",
        Sabotage::MutateAgain => {
            "UPDATE runs SET status = 1, waits_for_slot = 1, state = json_set(state, '$.a[0].d', 'r')
             WHERE handler IS NOT NULL AND status = 3
               AND json_extract(state, '$.a[0].d.k') IS NOT NULL"
        }
        Sabotage::ForgetMutation => "UPDATE handlers SET resumes = NULL WHERE resumes IS NOT NULL",
        Sabotage::KeepSomethingElse => {
            "UPDATE handlers SET state = '\"else\"' WHERE state <> 'null'"
        }
        Sabotage::GoOnAnyway => {
            "UPDATE workflows SET paused = 0, paused_by = NULL WHERE paused_by IS NOT NULL"
        }
        _ => return None,
    })
}
