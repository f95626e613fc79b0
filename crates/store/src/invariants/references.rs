//! Invariants of references: what a row names must exist.

use super::Invariant;
use super::Mend::Delete;

pub(super) const REFERENCES: [Invariant; 12] = [
    Invariant {
        code: "schedule-without-progress",
        message: "schedule {id} does not know how far it has come: restore a copy that does, or delete it \
                  (`punctual schedule delete {id}`) and declare it again",
        told: "s.id, ''",
        from: "schedules AS s",
        which: "NOT EXISTS (SELECT 1 FROM progress AS p WHERE p.id = s.id)",
        mend: &[],
    },
    Invariant {
        code: "schedule-without-workflow",
        message: "schedule {id} starts workflow {text}, which is gone: restore a copy that has it, or \
                  delete the schedule (`punctual schedule delete {id}`)",
        told: "s.id, s.workflow",
        from: "schedules AS s",
        which: "NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = s.workflow)",
        mend: &[],
    },
    Invariant {
        code: "run-without-workflow",
        message: "run {id} has not ended and is of workflow {text}, which is gone: restore a copy that has it",
        told: "r.key, r.workflow",
        from: "{open_runs} AS r",
        which: "NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = r.workflow)",
        mend: &[],
    },
    Invariant {
        code: "workflow-without-version",
        message: "workflow {text} has lost its newest or its published version: restore a copy that has it",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "NOT EXISTS (SELECT 1 FROM revisions AS v
                            WHERE v.workflow = w.id AND v.revision = w.newest)
                OR (w.live IS NOT NULL AND NOT EXISTS (SELECT 1 FROM revisions AS v
                            WHERE v.workflow = w.id AND v.revision = w.live))",
        mend: &[],
    },
    Invariant {
        code: "published-without-version",
        message: "workflow {text} is published, and does not say which version: publish it again \
                  (`punctual workflow publish {text}`)",
        told: "w.id, w.name",
        from: "workflows AS w",
        which: "w.status = {workflow_published} AND w.live IS NULL",
        mend: &[],
    },
    Invariant {
        code: "version-of-nothing",
        message: "version {text} is of workflow {id}, which is gone: restore a copy that has it",
        told: "v.workflow, v.revision",
        from: "revisions AS v",
        which: "NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = v.workflow)",
        mend: &[],
    },
    Invariant {
        code: "handler-without-workflow",
        message: "handler {text} is of a workflow that is gone: restore a copy that has it",
        told: "h.id, h.name",
        from: "handlers AS h",
        which: "NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = h.workflow)",
        mend: &[],
    },
    Invariant {
        code: "topic-without-workflow",
        message: "topic {text} is of a workflow that is gone: restore a copy that has it",
        told: "t.id, t.name",
        from: "topics AS t",
        which: "t.workflow IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = t.workflow)",
        mend: &[],
    },
    Invariant {
        code: "subscription-of-nothing",
        message: "workflow {id} hears of topic {text}, but one of the two is gone",
        told: "s.workflow, s.topic",
        from: "subscriptions AS s",
        which: "NOT EXISTS (SELECT 1 FROM topics AS t WHERE t.id = s.topic)
                OR NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = s.workflow)
                OR (s.handler <> 0
                    AND NOT EXISTS (SELECT 1 FROM handlers AS h WHERE h.id = s.handler))",
        mend: &[Delete],
    },
    Invariant {
        code: "override-of-nothing",
        message: "overrides are of schedule {id}, which is gone",
        told: "DISTINCT o.schedule, ''",
        from: "overrides AS o",
        which: "NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.id = o.schedule)",
        mend: &[Delete],
    },
    Invariant {
        code: "words-of-nothing",
        message: "search words are of schedule {id}, which is gone",
        told: "DISTINCT o.schedule, ''",
        from: "words AS o",
        which: "NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.id = o.schedule)",
        mend: &[Delete],
    },
    Invariant {
        code: "sign-in-of-nothing",
        message: "somebody has signed in with token {id}, which is gone",
        told: "i.token, ''",
        from: "sign_ins AS i",
        which: "i.token IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM tokens AS t WHERE t.id = i.token)",
        mend: &[Delete],
    },
];
