-- Instants are milliseconds since 1970. Statuses and outcomes are numbers: the order of `ALL` in the engine.
-- Declarations, payloads and outputs are text: numbers in them stay exactly as they were written.

-- What was declared: read at a fire, not written.
CREATE TABLE schedules (
  id bigint PRIMARY KEY,
  workflow bigint NOT NULL,
  trigger text,
  status smallint NOT NULL,
  calendar text,
  -- How long its history is kept, in milliseconds, if it says so itself.
  retention bigint,
  declared text NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  -- Goes up with each change of this row, here and in `progress`: whoever has waited for the lock of the one
  -- sees whether the other was read too early.
  version integer NOT NULL
);
CREATE INDEX schedules_by_workflow ON schedules (workflow, status, id);
CREATE INDEX schedules_by_status ON schedules (status, id);
CREATE UNIQUE INDEX schedules_by_trigger ON schedules (workflow, trigger) WHERE trigger IS NOT NULL;
CREATE INDEX schedules_by_retention ON schedules (retention) WHERE retention IS NOT NULL;
CREATE INDEX schedules_by_calendar ON schedules (calendar) WHERE calendar IS NOT NULL;

-- How far a schedule has come: the narrow row that a fire writes, and whose lock is the schedule's lock.
-- Its wakeup is part of it, so that claiming it, locking it and moving it on are one and the same.
CREATE TABLE progress (
  id bigint PRIMARY KEY,
  wake_at bigint,
  anchor bigint NOT NULL,
  mark bigint NOT NULL,
  next_nominal bigint,
  next_effective bigint,
  n bigint NOT NULL,
  current_repeat bigint NOT NULL,
  current_retry integer NOT NULL,
  run_count bigint NOT NULL,
  error_count bigint NOT NULL,
  last_error text,
  last_run_at bigint,
  last_outcome smallint,
  live text,
  has_overrides boolean NOT NULL,
  recomputed_at bigint,
  -- The incident that is open.
  incident bigint,
  renewed_at bigint,
  version integer NOT NULL,
  -- Which turn wrote it; 0 if something else did. Whoever wrote it need not read it to know what it says.
  stamp bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX progress_by_wakeup ON progress (wake_at, id) WHERE wake_at IS NOT NULL;

-- The words of schedules' names, for search by their beginnings.
CREATE TABLE words (
  word text COLLATE "C" NOT NULL,
  schedule bigint NOT NULL,
  PRIMARY KEY (word, schedule)
);
-- All words of one name.
CREATE INDEX words_by_schedule ON words (schedule, word);

-- How many schedules there are: by workflow, and with workflow 0 in all. Each connection counts in one of a few
-- slots, so that transactions rarely wait for each other; the sum counts.
CREATE TABLE schedule_counts (
  workflow bigint NOT NULL,
  status smallint NOT NULL,
  slot smallint NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (workflow, status, slot)
) WITH (fillfactor = 50);

-- The same by blocks of 1,024 ids: a deep page is reached by adding up blocks.
CREATE TABLE schedule_blocks (
  status smallint NOT NULL,
  block bigint NOT NULL,
  slot smallint NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (status, block, slot)
) WITH (fillfactor = 50);

CREATE TABLE overrides (
  schedule bigint NOT NULL,
  nominal bigint NOT NULL,
  action text NOT NULL,
  by text NOT NULL,
  PRIMARY KEY (schedule, nominal)
);

CREATE TABLE ledger (
  schedule bigint NOT NULL,
  n bigint NOT NULL,
  count bigint NOT NULL,
  nominal bigint NOT NULL,
  last_nominal bigint NOT NULL,
  effective bigint NOT NULL,
  decided_at bigint NOT NULL,
  outcome smallint NOT NULL,
  reason text NOT NULL,
  run bigint,
  PRIMARY KEY (schedule, n)
);
-- What did not run and will not: outcomes 3 to 7. What is started pays nothing for it.
CREATE INDEX ledger_unusual ON ledger (outcome, decided_at, schedule, n)
  WHERE run IS NULL AND outcome > 2;

-- What was decided and what has ended in each minute since 1970. kind: an outcome, or 16 and a run's status. Each
-- connection counts in a slot of its own, so that nobody waits for anybody; what is past is added up in slot 0.
CREATE TABLE tallies (
  minute bigint NOT NULL,
  slot integer NOT NULL,
  kind smallint NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (minute, slot, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);

CREATE TABLE workflows (
  id bigint PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  status smallint NOT NULL,
  paused boolean NOT NULL,
  paused_reason text,
  paused_by bigint,
  handling bigint,
  newest integer NOT NULL,
  live integer,
  concurrency integer,
  active integer NOT NULL,
  retention bigint,
  -- The incident that is open, of runs that no schedule started.
  incident bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX workflows_paused_for ON workflows (updated_at) WHERE paused_reason IS NOT NULL;
CREATE INDEX workflows_paused_by ON workflows (paused_by) WHERE paused_by IS NOT NULL;
CREATE INDEX workflows_handling ON workflows (handling) WHERE handling IS NOT NULL;

-- What cannot be read or decided as it is stored. kind: 0 a run, 1 a schedule, 3 a handler. Drivers pass over it.
CREATE TABLE set_aside (
  kind smallint NOT NULL,
  id bigint NOT NULL,
  reason text NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (kind, id)
);

CREATE TABLE revisions (
  workflow bigint NOT NULL,
  revision integer NOT NULL,
  source text NOT NULL,
  definition text NOT NULL,
  -- The folder of a node that it was published from.
  folder text,
  created_at bigint NOT NULL,
  PRIMARY KEY (workflow, revision)
);

-- Runs that have not ended. Small and hot: what has ended moves to `ended_runs`, which is only added to.
-- Keys are given in blocks, in the order of time.
CREATE TABLE open_runs (
  key bigint PRIMARY KEY,
  uuid uuid,
  workflow bigint NOT NULL,
  version integer NOT NULL,
  -- The name of the producer or consumer whose run it is.
  handler text,
  schedule bigint,
  n bigint,
  retry integer NOT NULL,
  triggered_by smallint NOT NULL,
  by text,
  nominal bigint,
  effective bigint,
  status smallint NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  timeout bigint,
  -- Where it is in its steps, JSON.
  state text NOT NULL,
  -- The nodes that perform something of it.
  owners bigint[],
  waits_for_slot boolean NOT NULL,
  overdue boolean NOT NULL,
  parent bigint,
  parent_token integer,
  depth smallint,
  -- The first run of the family, and how many events and deadlines lie between it and this run.
  root bigint,
  hops smallint,
  input text NOT NULL,
  output text,
  error text,
  retry_of text,
  -- The span that it is part of, as in `traceparent`.
  trace text,
  wake_at bigint,
  -- Of one that has ended: what became of the steps that it ended with, JSON, if that is not in `steps`.
  last_steps text,
  -- As in `progress`.
  stamp bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
-- One run per occurrence and retry, whatever happens: here, and after its end there.
CREATE UNIQUE INDEX open_runs_by_occurrence ON open_runs (schedule, n, retry);
CREATE UNIQUE INDEX open_runs_by_uuid ON open_runs (uuid) WHERE uuid IS NOT NULL;
-- A key as such is in the primary key's index alone: of a table that is empty most of the time the planner
-- believes that any index will do to find a row by its key, and one that has to be read from end to end does not.
CREATE INDEX open_runs_by_status ON open_runs (status, workflow, (key + 0));
CREATE INDEX open_runs_by_wakeup ON open_runs (wake_at) WHERE wake_at IS NOT NULL;
-- What has begun and could go on if there were a free slot.
CREATE INDEX open_runs_ready ON open_runs ((key + 0)) WHERE waits_for_slot;
CREATE INDEX open_runs_pending_of_handlers ON open_runs (workflow, (key + 0))
  WHERE status = 0 AND handler IS NOT NULL;
CREATE INDEX open_runs_overdue ON open_runs ((key + 0)) WHERE overdue;
CREATE INDEX open_runs_by_parent ON open_runs (parent) WHERE parent IS NOT NULL;
-- For how many runs a family has.
CREATE INDEX open_runs_by_root ON open_runs (root) WHERE root IS NOT NULL;

CREATE TABLE ended_runs (LIKE open_runs INCLUDING DEFAULTS);
ALTER TABLE ended_runs ADD PRIMARY KEY (key);
CREATE UNIQUE INDEX ended_runs_by_occurrence ON ended_runs (schedule, n, retry);
CREATE UNIQUE INDEX ended_runs_by_uuid ON ended_runs (uuid) WHERE uuid IS NOT NULL;
-- A schedule's runs whose keys are not in the order of their numbers: by hand, and retries.
CREATE INDEX ended_runs_besides ON ended_runs (schedule, key)
  WHERE schedule IS NOT NULL AND (n IS NULL OR retry > 0);
CREATE INDEX ended_runs_by_workflow ON ended_runs (workflow, key);
-- What has ended, but not well: statuses 5 to 7.
CREATE INDEX ended_runs_not_well ON ended_runs (status, key) WHERE status > 4;
CREATE INDEX ended_runs_not_well_by_workflow ON ended_runs (workflow, status, key) WHERE status > 4;
CREATE INDEX ended_runs_overdue ON ended_runs (key) WHERE overdue;
CREATE INDEX ended_runs_by_parent ON ended_runs (parent, key) WHERE parent IS NOT NULL;
CREATE INDEX ended_runs_by_root ON ended_runs (root) WHERE root IS NOT NULL;

CREATE VIEW runs AS SELECT * FROM open_runs UNION ALL SELECT * FROM ended_runs;

-- item: 0 the step itself, -1 what undoes it, -2 its reconciliation, else one of its items.
CREATE TABLE steps (
  run bigint NOT NULL,
  step integer NOT NULL,
  item integer NOT NULL,
  status smallint NOT NULL,
  attempts integer NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  output text,
  error text,
  reason text,
  overdue boolean NOT NULL,
  PRIMARY KEY (run, step, item)
);

-- Attempts that others followed: what became of the last one is in `steps`. Two can have the same number, see the
-- engine.
CREATE TABLE attempts (
  run bigint NOT NULL,
  step integer NOT NULL,
  item integer NOT NULL,
  started_at bigint NOT NULL,
  attempt integer NOT NULL,
  status smallint NOT NULL,
  ended_at bigint NOT NULL,
  error text,
  PRIMARY KEY (run, step, item, started_at, attempt, ended_at)
);

-- What waits for a worker: each part of a run in one queue at most. As with `open_runs`, a run's key as such is in
-- the primary key's index alone.
CREATE TABLE queue (
  run bigint NOT NULL,
  step integer NOT NULL,
  item integer NOT NULL,
  queue text COLLATE "C" NOT NULL,
  PRIMARY KEY (run, step, item)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX queue_by_name ON queue (queue, (run + 0), (step + 0), (item + 0));

-- What people are asked. assignees: a JSON list.
CREATE TABLE approvals (
  run bigint NOT NULL,
  step integer NOT NULL,
  title text NOT NULL,
  description text,
  assignees text NOT NULL,
  asked_at bigint NOT NULL,
  PRIMARY KEY (run, step)
);

-- What deadlines have brought about. step: -1 for the run's own deadline; at: when it was planned; started: a JSON
-- list of runs' keys.
CREATE TABLE alerts (
  run bigint NOT NULL,
  step integer NOT NULL,
  action integer NOT NULL,
  at bigint NOT NULL,
  due bigint NOT NULL,
  happened_at bigint NOT NULL,
  ended text,
  started text NOT NULL,
  refused text,
  PRIMARY KEY (run, step, action, at)
);

-- From a failure to the next success: of a schedule, or of the runs that no schedule started. run and ended_by: ids of
-- runs. told and ended_told: JSON lists of who was told, or why not. ending: how it ended.
CREATE TABLE incidents (
  key bigint PRIMARY KEY,
  workflow bigint NOT NULL,
  schedule bigint,
  run text,
  nominal bigint,
  error text NOT NULL,
  began_at bigint NOT NULL,
  told text NOT NULL,
  ending smallint,
  ended_at bigint,
  ended_by text,
  ended_told text
);
CREATE INDEX incidents_open ON incidents (key) WHERE ended_at IS NULL;
CREATE INDEX incidents_by_workflow ON incidents (workflow, key);
CREATE INDEX incidents_by_schedule ON incidents (schedule, key) WHERE schedule IS NOT NULL;
CREATE INDEX incidents_by_run ON incidents (run) WHERE run IS NOT NULL;
CREATE INDEX incidents_by_end ON incidents (ended_at) WHERE ended_at IS NOT NULL;

-- Topics, with how many of their events are in each state: nobody has to count them. The lock of a topic is that of
-- its events, of its subscriptions and of what waits for it.
CREATE TABLE topics (
  id bigint PRIMARY KEY,
  -- Nothing if it is shared.
  workflow bigint,
  name text COLLATE "C" NOT NULL,
  max_attempts integer NOT NULL,
  pending bigint NOT NULL,
  reserved bigint NOT NULL,
  consumed bigint NOT NULL,
  skipped bigint NOT NULL,
  created_at bigint NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX topics_by_workflow ON topics (workflow, name) WHERE workflow IS NOT NULL;
CREATE UNIQUE INDEX topics_shared ON topics (name) WHERE workflow IS NULL;
CREATE INDEX topics_by_name ON topics (name, (id + 0));

-- What has become of an event: the narrow row that is written when it is reserved, given back, done with. As with
-- `open_runs`, a key as such is in the primary key's index alone, a topic as such in that of messages' ids, and a run
-- in that of what is reserved.
CREATE TABLE events (
  key bigint PRIMARY KEY,
  topic bigint NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  state smallint NOT NULL,
  attempt integer NOT NULL,
  run bigint,
  reason text,
  -- How many events and deadlines lie between the first run of its family and this event.
  hops smallint NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE UNIQUE INDEX events_by_message ON events (topic, message_id);
-- What is pending is found without what was, and so are lists of one state; a list of all is made of four.
CREATE INDEX events_by_state ON events ((topic + 0), (state + 0), created_at, (key + 0));
CREATE INDEX events_reserved ON events (run) WHERE state = 1;
-- For expiry of what is done with.
CREATE INDEX events_by_end ON events ((topic + 0), updated_at) WHERE state > 1;

-- What an event says, up to 256 KiB: read, but not written again when the event comes to another state. causes: a
-- JSON list, nothing if it is empty.
CREATE TABLE messages (
  event bigint PRIMARY KEY,
  title text,
  payload text NOT NULL,
  causes text
);

-- Producers and consumers. kind: 0 producer, 1 consumer. The lock of their workflow is theirs.
CREATE TABLE handlers (
  id bigint PRIMARY KEY,
  workflow bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  kind smallint NOT NULL,
  -- What it keeps from one run to the next, JSON.
  state text NOT NULL,
  cause smallint,
  wake_at bigint,
  retry_at bigint,
  failures integer NOT NULL,
  resumes bigint,
  run bigint,
  last_run_at bigint,
  last_outcome smallint,
  runs bigint NOT NULL,
  -- Its wakeup.
  due bigint
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX handlers_by_workflow ON handlers (workflow, name);
CREATE INDEX handlers_by_wakeup ON handlers (due, (id + 0)) WHERE due IS NOT NULL;
CREATE INDEX handlers_resuming ON handlers (resumes) WHERE resumes IS NOT NULL;
CREATE INDEX handlers_running ON handlers (run) WHERE run IS NOT NULL;

-- Who hears of the events of a topic. handler: 0 for the workflow's triggers.
CREATE TABLE subscriptions (
  topic bigint NOT NULL,
  workflow bigint NOT NULL,
  handler bigint NOT NULL
);
CREATE UNIQUE INDEX subscriptions_by_topic ON subscriptions (topic, (workflow + 0), (handler + 0));
CREATE INDEX subscriptions_by_workflow ON subscriptions (workflow);

-- Parts of runs that wait for an event of a topic.
CREATE TABLE waits (
  run bigint NOT NULL,
  step integer NOT NULL,
  item integer NOT NULL,
  topic bigint NOT NULL,
  PRIMARY KEY (run, step, item)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX waits_by_topic ON waits (topic, (run + 0), (step + 0), (item + 0));

-- Mutations of the outside world by consumers' runs: one in each at most.
CREATE TABLE mutations (
  run bigint PRIMARY KEY,
  workflow bigint NOT NULL,
  handler text NOT NULL,
  status smallint NOT NULL,
  started_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  said_by text,
  note text
);
CREATE INDEX mutations_by_workflow ON mutations (workflow, (run + 0));

CREATE TABLE idempotency (
  key text PRIMARY KEY,
  fingerprint bytea NOT NULL,
  answer text NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE calendars (
  id text COLLATE "C" PRIMARY KEY,
  spec text NOT NULL
);

-- Schedules whose next time may be of a calendar that has changed since: written with the calendar, gone with
-- the new next time.
CREATE TABLE outdated (
  schedule bigint PRIMARY KEY
);

-- Lives of nodes. One whose lease has run out is over, and what it was doing is taken over.
CREATE TABLE nodes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  lease_until bigint NOT NULL,
  capacity integer NOT NULL,
  attempts integer NOT NULL,
  -- What this life found after downtime: occurrences and attempts.
  missed bigint NOT NULL DEFAULT 0,
  made_up bigint NOT NULL DEFAULT 0,
  coalesced bigint NOT NULL DEFAULT 0,
  taken_over bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE meta (
  key text PRIMARY KEY,
  value text NOT NULL
);
-- Goes up with each change of a calendar: whoever decides with others reads them again first.
INSERT INTO meta (key, value) VALUES ('rules', '0');

CREATE SEQUENCE run_blocks;
CREATE SEQUENCE schedule_ids;
CREATE SEQUENCE workflow_ids;
CREATE SEQUENCE event_blocks;
CREATE SEQUENCE topic_ids;
CREATE SEQUENCE handler_ids;
CREATE SEQUENCE incident_keys;

-- Who may ask. Tokens stay when they are revoked: no other one has their name. hash: SHA-256 of the secret; roles: a
-- JSON list.
CREATE TABLE tokens (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  hash bytea NOT NULL UNIQUE,
  roles text NOT NULL,
  -- From which queues its holder may claim, as a JSON list; from every one if there is none.
  queues text,
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  expires_at bigint,
  revoked_at bigint
);

-- Who has signed in to the pages: with a stored token, or with the token of a node, of which the hash is kept.
CREATE TABLE sign_ins (
  hash bytea PRIMARY KEY,
  token bigint,
  node bytea,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX sign_ins_by_token ON sign_ins (token) WHERE token IS NOT NULL;
CREATE INDEX sign_ins_by_end ON sign_ins (expires_at);

-- Who has changed what: written in the transaction of the change.
CREATE TABLE audit (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  who text COLLATE "C" NOT NULL,
  from_address text,
  action text NOT NULL,
  target text NOT NULL,
  detail text
);
CREATE INDEX audit_by_time ON audit (at, key);
CREATE INDEX audit_by_who ON audit (who, at, key);
