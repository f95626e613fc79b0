//! Planted bugs of processes: what each changes in the file between two commits.

use crate::sabotage::Sabotage;

/// Runs that are active and not ending.
macro_rules! going_on {
    () => {
        "status IN (1, 2) AND json_extract(state, '$.e') IS NULL"
    };
}

/// The statements of a planted bug, with `?1` for the present.
pub(crate) fn sql(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::BeginTooEarly => concat!(
            "UPDATE runs SET waits_for_slot = 1, state = json_set(state,
              '$.s', substr(state ->> '$.s', 1, instr(state ->> '$.s', 'p') - 1) || 'a'
                || substr(state ->> '$.s', instr(state ->> '$.s', 'p') + 1),
              '$.a[#]', json_object('s', instr(state ->> '$.s', 'p') - 1, 'at', ?1, 'd', 'r'))
             WHERE instr(state ->> '$.s', 'p') > 0 AND json_array_length(state, '$.a') > 0 AND ",
            going_on!()
        ),
        Sabotage::UndoInWrongOrder => {
            "UPDATE runs SET state = json_set(state, '$.u[0]', json_extract(state, '$.u[1]'),
              '$.u[1]', json_extract(state, '$.u[0]'))
             WHERE status < 4 AND json_array_length(state, '$.u') > 1
               AND json_extract(state, '$.u[0]') <> json_extract(state, '$.u[1]')"
        }
        Sabotage::ForgetToUndo => {
            "UPDATE runs SET state = json_remove(state, '$.u')
             WHERE status < 4 AND json_array_length(state, '$.u') > 0"
        }
        Sabotage::EndTimerEarly => concat!(
            "INSERT OR IGNORE INTO wakeups (due, kind, id) SELECT ?1, 0, key FROM runs
              WHERE json_extract(state, '$.a[0].d.z.u') > ?1 + 1000 AND ",
            going_on!(),
            "; UPDATE runs SET state = json_set(state, '$.a[0].d.z.u', ?1)
              WHERE json_extract(state, '$.a[0].d.z.u') > ?1 + 1000 AND ",
            going_on!()
        ),
        Sabotage::AlertAgain => {
            "INSERT OR IGNORE INTO wakeups (due, kind, id) SELECT ?1, 0, r.key FROM runs r
              JOIN alerts l ON l.run = r.key
              WHERE json_extract(r.state, '$.d[0].u') = l.due AND r.status IN (1, 2);
             UPDATE runs SET state = json_set(state, '$.d[0].p[#]', json_array(?1, l.action))
              FROM alerts l WHERE l.run = runs.key AND json_extract(state, '$.d[0].u') = l.due
               AND json_type(state, '$.d[0].p') = 'array' AND status IN (1, 2)"
        }
        Sabotage::ForgetDeadline => {
            "UPDATE runs SET state = json_remove(state, '$.d')
             WHERE status IN (1, 2) AND json_array_length(state, '$.d') > 0"
        }
        Sabotage::LoseItem => concat!(
            "UPDATE runs SET state = json_set(state, '$.a[0].d.m.b',
              json_extract(state, '$.a[0].d.m.b') + 1)
             WHERE json_extract(state, '$.a[0].d.m.b') < json_extract(state, '$.a[0].d.m.n') AND ",
            going_on!()
        ),
        Sabotage::LeaveParentWaiting => {
            "UPDATE runs SET parent_token = NULL WHERE parent_token IS NOT NULL AND status < 4"
        }
        Sabotage::StayDone => concat!(
            "UPDATE runs SET state = json_set(state,
              '$.s', substr(state ->> '$.s', 1, instr(state ->> '$.s', 'p') - 1) || 'c'
                || substr(state ->> '$.s', instr(state ->> '$.s', 'p') + 1))
             WHERE instr(state ->> '$.s', 'p') > 0 AND json_extract(state, '$.j') > 0 AND ",
            going_on!()
        ),
        Sabotage::LoseQueued => "DELETE FROM queue",
        Sabotage::ForgetToAsk => "DELETE FROM approvals",
        Sabotage::ForgetAttempts => {
            "DELETE FROM attempts WHERE run IN (SELECT key FROM runs WHERE status < 4)"
        }
        _ => return None,
    })
}
