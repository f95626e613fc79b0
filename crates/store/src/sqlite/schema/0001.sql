-- Instants are milliseconds since 1970. Statuses and outcomes are numbers: the order of `ALL` in the engine.

-- Everything that waits for a time. Clustered by kind and time, so that claiming what is due reads one end of
-- each kind, however much is pending, and a flood of one kind does not hide the others.
-- kind: 0 run, 1 schedule, 2 node, 3 handler.
CREATE TABLE wakeups (
  due INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (kind, due, id)
) WITHOUT ROWID;

-- What was declared: read at a fire, not written.
CREATE TABLE schedules (
  id INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  trigger TEXT,
  status INTEGER NOT NULL,
  calendar TEXT,
  -- How long its history is kept, in milliseconds, if it says so itself.
  retention INTEGER,
  declared TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX schedules_by_workflow ON schedules (workflow, status);
CREATE INDEX schedules_by_status ON schedules (status);
CREATE UNIQUE INDEX schedules_by_trigger ON schedules (workflow, trigger) WHERE trigger IS NOT NULL;
CREATE INDEX schedules_by_retention ON schedules (id, retention) WHERE retention IS NOT NULL;
CREATE INDEX schedules_by_calendar ON schedules (calendar) WHERE calendar IS NOT NULL;

-- How far a schedule has come: the narrow row that a fire writes.
CREATE TABLE progress (
  id INTEGER PRIMARY KEY,
  anchor INTEGER NOT NULL,
  mark INTEGER NOT NULL,
  next_nominal INTEGER,
  next_effective INTEGER,
  n INTEGER NOT NULL,
  current_repeat INTEGER NOT NULL,
  current_retry INTEGER NOT NULL,
  run_count INTEGER NOT NULL,
  error_count INTEGER NOT NULL,
  last_error TEXT,
  last_run_at INTEGER,
  last_outcome INTEGER,
  live TEXT,
  has_overrides INTEGER NOT NULL,
  recomputed_at INTEGER,
  -- The incident that is open.
  incident INTEGER,
  renewed_at INTEGER
);

-- The words of schedules' names, for search by their beginnings.
CREATE TABLE words (
  word TEXT NOT NULL,
  schedule INTEGER NOT NULL,
  PRIMARY KEY (word, schedule)
) WITHOUT ROWID;

-- How many schedules there are: by workflow, and with workflow 0 in all.
CREATE TABLE schedule_counts (
  workflow INTEGER NOT NULL,
  status INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (workflow, status)
) WITHOUT ROWID;

-- The same by blocks of 1,024 ids: a deep page is reached by adding up blocks.
CREATE TABLE schedule_blocks (
  status INTEGER NOT NULL,
  block INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (status, block)
) WITHOUT ROWID;

CREATE TABLE overrides (
  schedule INTEGER NOT NULL,
  nominal INTEGER NOT NULL,
  action TEXT NOT NULL,
  by TEXT NOT NULL,
  PRIMARY KEY (schedule, nominal)
) WITHOUT ROWID;

CREATE TABLE ledger (
  schedule INTEGER NOT NULL,
  n INTEGER NOT NULL,
  count INTEGER NOT NULL,
  nominal INTEGER NOT NULL,
  last_nominal INTEGER NOT NULL,
  effective INTEGER NOT NULL,
  decided_at INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  reason TEXT NOT NULL,
  run INTEGER,
  PRIMARY KEY (schedule, n)
) WITHOUT ROWID;
-- What did not run and will not: outcomes 3 to 7. What is started pays nothing for it. SQLite uses it only where a
-- query says the same.
CREATE INDEX ledger_unusual ON ledger (outcome, decided_at) WHERE run IS NULL AND outcome > 2;

-- What was decided and what has ended in each minute since 1970. kind: an outcome, or 16 and a run's status.
CREATE TABLE tallies (
  minute INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (minute, kind)
) WITHOUT ROWID;

CREATE TABLE workflows (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  status INTEGER NOT NULL,
  paused INTEGER NOT NULL,
  paused_reason TEXT,
  paused_by INTEGER,
  handling INTEGER,
  newest INTEGER NOT NULL,
  live INTEGER,
  concurrency INTEGER,
  active INTEGER NOT NULL,
  retention INTEGER,
  -- The incident that is open, of runs that no schedule started.
  incident INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX workflows_paused_by ON workflows (paused_by) WHERE paused_by IS NOT NULL;
CREATE INDEX workflows_paused_for ON workflows (updated_at) WHERE paused_reason IS NOT NULL;
CREATE INDEX workflows_handling ON workflows (handling) WHERE handling IS NOT NULL;

-- What cannot be read or decided as it is stored: kind as in `wakeups`. The driver passes over it.
CREATE TABLE set_aside (
  kind INTEGER NOT NULL,
  id INTEGER NOT NULL,
  reason TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE TABLE revisions (
  workflow INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  source TEXT NOT NULL,
  definition TEXT NOT NULL,
  -- The folder of a node that it was published from.
  folder TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workflow, revision)
) WITHOUT ROWID;

-- Keys are given in the order of creation: new runs are written at the end.
CREATE TABLE runs (
  key INTEGER PRIMARY KEY,
  uuid BLOB,
  workflow INTEGER NOT NULL,
  version INTEGER NOT NULL,
  -- The name of the producer or consumer whose run it is.
  handler TEXT,
  schedule INTEGER,
  n INTEGER,
  retry INTEGER NOT NULL,
  triggered_by INTEGER NOT NULL,
  by TEXT,
  nominal INTEGER,
  effective INTEGER,
  status INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  timeout INTEGER,
  -- Where it is in its steps, JSON.
  state TEXT NOT NULL,
  -- The nodes that perform something of it, as in `,3,7,`.
  owners TEXT,
  waits_for_slot INTEGER NOT NULL,
  overdue INTEGER NOT NULL,
  parent INTEGER,
  parent_token INTEGER,
  depth INTEGER,
  -- The first run of the family, and how many events and deadlines lie between it and this run.
  root INTEGER,
  hops INTEGER,
  input TEXT NOT NULL,
  output TEXT,
  error TEXT,
  retry_of TEXT,
  -- The span that it is part of, as in `traceparent`.
  trace TEXT
);
-- One run per occurrence and retry, whatever happens.
CREATE UNIQUE INDEX runs_by_occurrence ON runs (schedule, n, retry) WHERE n IS NOT NULL;
CREATE UNIQUE INDEX runs_by_uuid ON runs (uuid) WHERE uuid IS NOT NULL;
-- A schedule's runs whose keys are not in the order of their numbers: by hand, and retries.
CREATE INDEX runs_besides ON runs (schedule) WHERE schedule IS NOT NULL AND (n IS NULL OR retry > 0);
CREATE INDEX runs_by_workflow ON runs (workflow);
-- What has not ended: statuses 0 to 3. SQLite uses it only where a query says `status < 4` as well.
CREATE INDEX runs_open ON runs (status, workflow) WHERE status < 4;
-- What has ended, but not well: statuses 5 to 7.
CREATE INDEX runs_not_well ON runs (status) WHERE status > 4;
CREATE INDEX runs_not_well_by_workflow ON runs (workflow, status) WHERE status > 4;
-- What has begun and could go on if there were a free slot. SQLite uses it only where a query says the same, as with
-- those that follow.
CREATE INDEX runs_ready ON runs (key) WHERE waits_for_slot = 1;
CREATE INDEX runs_pending_of_handlers ON runs (workflow) WHERE status = 0 AND handler IS NOT NULL;
CREATE INDEX runs_overdue ON runs (key) WHERE overdue = 1;
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
-- For how many runs a family has.
CREATE INDEX runs_by_root ON runs (root) WHERE root IS NOT NULL;

-- item: 0 the step itself, -1 what undoes it, -2 its reconciliation, else one of its items.
CREATE TABLE steps (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  status INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  output TEXT,
  error TEXT,
  reason TEXT,
  overdue INTEGER NOT NULL,
  PRIMARY KEY (run, step, item)
) WITHOUT ROWID;

-- Attempts that others followed: what became of the last one is in `steps`. Two can have the same number, see the
-- engine.
CREATE TABLE attempts (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  status INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  error TEXT,
  PRIMARY KEY (run, step, item, started_at, attempt, ended_at)
) WITHOUT ROWID;

-- What waits for a worker: each part of a run in one queue at most.
CREATE TABLE queue (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  queue TEXT NOT NULL,
  PRIMARY KEY (run, step, item)
) WITHOUT ROWID;
CREATE INDEX queue_by_name ON queue (queue, run, step, item);

-- What people are asked. assignees: a JSON list.
CREATE TABLE approvals (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  title TEXT NOT NULL,
  description TEXT,
  assignees TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  PRIMARY KEY (run, step)
) WITHOUT ROWID;

-- What deadlines have brought about. step: -1 for the run's own deadline; at: when it was planned; started: a JSON
-- list of runs' keys.
CREATE TABLE alerts (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  action INTEGER NOT NULL,
  at INTEGER NOT NULL,
  due INTEGER NOT NULL,
  happened_at INTEGER NOT NULL,
  ended TEXT,
  started TEXT NOT NULL,
  refused TEXT,
  PRIMARY KEY (run, step, action, at)
) WITHOUT ROWID;

-- From a failure to the next success: of a schedule, or of the runs that no schedule started. run and ended_by: ids of
-- runs. told and ended_told: JSON lists of who was told, or why not. ending: how it ended.
CREATE TABLE incidents (
  key INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  schedule INTEGER,
  run TEXT,
  nominal INTEGER,
  error TEXT NOT NULL,
  began_at INTEGER NOT NULL,
  told TEXT NOT NULL,
  ending INTEGER,
  ended_at INTEGER,
  ended_by TEXT,
  ended_told TEXT
);
CREATE INDEX incidents_open ON incidents (key) WHERE ended_at IS NULL;
CREATE INDEX incidents_by_workflow ON incidents (workflow, key);
CREATE INDEX incidents_by_schedule ON incidents (schedule, key) WHERE schedule IS NOT NULL;
CREATE INDEX incidents_by_run ON incidents (run) WHERE run IS NOT NULL;
CREATE INDEX incidents_by_end ON incidents (ended_at) WHERE ended_at IS NOT NULL;

-- Topics, with how many of their events are in each state: nobody has to count them.
CREATE TABLE topics (
  id INTEGER PRIMARY KEY,
  -- Nothing if it is shared.
  workflow INTEGER,
  name TEXT NOT NULL,
  max_attempts INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  reserved INTEGER NOT NULL,
  consumed INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX topics_by_workflow ON topics (workflow, name) WHERE workflow IS NOT NULL;
CREATE UNIQUE INDEX topics_shared ON topics (name) WHERE workflow IS NULL;
CREATE INDEX topics_by_name ON topics (name);

-- What has become of an event: the narrow row that is written when it is reserved, given back, done with.
CREATE TABLE events (
  key INTEGER PRIMARY KEY,
  topic INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  state INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  run INTEGER,
  reason TEXT,
  -- How many events and deadlines lie between the first run of its family and this event.
  hops INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX events_by_message ON events (topic, message_id);
-- What is pending is found without what was. SQLite uses these only where a query says the same, as with runs.
CREATE INDEX events_pending ON events (topic, created_at) WHERE state = 0;
CREATE INDEX events_reserved ON events (run) WHERE state = 1;
-- For lists of what is not pending.
CREATE INDEX events_by_state ON events (topic, state, created_at) WHERE state > 0;
-- For expiry of what is done with.
CREATE INDEX events_by_end ON events (topic, updated_at) WHERE state > 1;

-- What an event says, up to 256 KiB: read, but not written again when the event comes to another state. causes: a
-- JSON list, nothing if it is empty.
CREATE TABLE messages (
  event INTEGER PRIMARY KEY,
  title TEXT,
  payload TEXT NOT NULL,
  causes TEXT
);

-- Producers and consumers. kind: 0 producer, 1 consumer.
CREATE TABLE handlers (
  id INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind INTEGER NOT NULL,
  -- What it keeps from one run to the next, JSON.
  state TEXT NOT NULL,
  cause INTEGER,
  wake_at INTEGER,
  retry_at INTEGER,
  failures INTEGER NOT NULL,
  resumes INTEGER,
  run INTEGER,
  last_run_at INTEGER,
  last_outcome INTEGER,
  runs INTEGER NOT NULL
);
CREATE UNIQUE INDEX handlers_by_workflow ON handlers (workflow, name);
CREATE INDEX handlers_resuming ON handlers (resumes) WHERE resumes IS NOT NULL;
CREATE INDEX handlers_running ON handlers (run) WHERE run IS NOT NULL;

-- Who hears of the events of a topic. handler: 0 for the workflow's triggers.
CREATE TABLE subscriptions (
  topic INTEGER NOT NULL,
  workflow INTEGER NOT NULL,
  handler INTEGER NOT NULL,
  PRIMARY KEY (topic, workflow, handler)
) WITHOUT ROWID;
CREATE INDEX subscriptions_by_workflow ON subscriptions (workflow);

-- Parts of runs that wait for an event of a topic.
CREATE TABLE waits (
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  topic INTEGER NOT NULL,
  PRIMARY KEY (run, step, item)
) WITHOUT ROWID;
CREATE INDEX waits_by_topic ON waits (topic, run, step, item);

-- Mutations of the outside world by consumers' runs: one in each at most.
CREATE TABLE mutations (
  run INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  handler TEXT NOT NULL,
  status INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  said_by TEXT,
  note TEXT
);
CREATE INDEX mutations_by_workflow ON mutations (workflow);

CREATE TABLE idempotency (
  key TEXT PRIMARY KEY,
  fingerprint BLOB NOT NULL,
  answer TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE calendars (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE nodes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  -- What this life found after downtime: occurrences and attempts.
  missed INTEGER NOT NULL DEFAULT 0,
  made_up INTEGER NOT NULL DEFAULT 0,
  coalesced INTEGER NOT NULL DEFAULT 0,
  taken_over INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- Schedules whose next time may be of a calendar that has changed since: written with the calendar, gone with
-- the new next time.
CREATE TABLE outdated (
  schedule INTEGER PRIMARY KEY
);

-- Who may ask. Tokens stay when they are revoked: no other one has their name. hash: SHA-256 of the secret; roles: a
-- JSON list.
CREATE TABLE tokens (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  hash BLOB NOT NULL UNIQUE,
  roles TEXT NOT NULL,
  -- From which queues its holder may claim, as a JSON list; from every one if there is none.
  queues TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
);

-- Who has signed in to the pages: with a stored token, or with the token of a node, of which the hash is kept.
CREATE TABLE sign_ins (
  hash BLOB PRIMARY KEY,
  token INTEGER,
  node BLOB,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sign_ins_by_token ON sign_ins (token) WHERE token IS NOT NULL;
CREATE INDEX sign_ins_by_end ON sign_ins (expires_at);

-- Who has changed what: written in the transaction of the change.
CREATE TABLE audit (
  key INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  from_address TEXT,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  detail TEXT
);
CREATE INDEX audit_by_time ON audit (at, key);
CREATE INDEX audit_by_who ON audit (who, at, key);
