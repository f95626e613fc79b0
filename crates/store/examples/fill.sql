-- A store as it is after a busy week: schedules of fifty workflows, runs that have ended, and what did not run.
-- :schedules, :runs, :workflows, :now and :declared are put in their places before it is said.

CREATE TEMP TABLE part (place INTEGER PRIMARY KEY, what TEXT, whose TEXT, how TEXT);
INSERT INTO part VALUES
  (0, 'backup', 'acme', 'daily'), (1, 'invoice', 'globex', 'weekly'), (2, 'report', 'initech', 'nightly'),
  (3, 'cleanup', 'umbrella', 'monthly'), (4, 'reminder', 'hooli', 'early'), (5, 'import', 'stark', 'late'),
  (6, 'export', 'wayne', 'hourly'), (7, 'renewal', 'tyrell', 'yearly'), (8, 'audit', 'cyberdyne', 'small'),
  (9, 'mirror', 'soylent', 'large');

-- One in twenty is paused, some are done or dead; the others are due within a day.
CREATE TEMP TABLE new (id INTEGER PRIMARY KEY, name TEXT, status INTEGER, due INTEGER);
WITH RECURSIVE i (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < :schedules)
INSERT INTO new
SELECT i, a.how || ' ' || b.whose || ' ' || c.what,
  CASE WHEN i / 7 % 20 = 0 THEN 1 WHEN i / 7 % 50 = 1 THEN 2 WHEN i / 7 % 100 = 3 THEN 3 ELSE 0 END,
  :now + 60000 + i * 2654435761 % 86400000
FROM i, part a, part b, part c WHERE a.place = i % 10 AND b.place = i / 10 % 10 AND c.place = i / 100 % 10;

INSERT INTO schedules (id, workflow, status, declared, created_at, updated_at)
SELECT id, 1 + id % :workflows, status, replace(:declared, 'NAME', name), :now - 604800000, :now - 604800000
FROM new ORDER BY id;
INSERT INTO progress (id, anchor, mark, next_nominal, next_effective, n, current_repeat, current_retry,
  run_count, error_count, last_run_at, last_outcome, has_overrides)
SELECT id, due, :now, iif(status = 0, due, NULL), iif(status = 0, due, NULL), :runs / :schedules + 2, 0, 0,
  :runs / :schedules, 0, :now - 1000, 0, 0
FROM new ORDER BY id;
INSERT INTO wakeups (due, kind, id) SELECT due, 1, id FROM new WHERE status = 0 ORDER BY due, id;
INSERT INTO words (word, schedule)
SELECT word, id FROM (
  SELECT a.how AS word, n.id FROM new n, part a WHERE a.place = n.id % 10
  UNION ALL SELECT b.whose, n.id FROM new n, part b WHERE b.place = n.id / 10 % 10
  UNION ALL SELECT c.what, n.id FROM new n, part c WHERE c.place = n.id / 100 % 10) ORDER BY word, id;
INSERT INTO schedule_counts (workflow, status, count)
SELECT workflow, status, count(*) FROM schedules GROUP BY 1, 2
UNION ALL SELECT 0, status, count(*) FROM schedules GROUP BY 2;
INSERT INTO schedule_blocks (status, block, count) SELECT status, id / 1024, count(*) FROM schedules GROUP BY 1, 2;

-- Most succeed, three in a hundred fail, some are cancelled or take too long.
WITH RECURSIVE i (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i + 1 < :runs),
run (i, schedule, at, luck) AS
  (SELECT i, 1 + i * 7919 % :schedules, :now - 604800000 + i * 604800000 / :runs, i * 31 % 100 FROM i)
INSERT INTO runs (key, workflow, version, schedule, n, retry, triggered_by, nominal, effective, status, created_at,
  started_at, ended_at, state, waits_for_slot, overdue, input, output)
SELECT i + 1, 1 + schedule % :workflows, 1, schedule, i / :schedules, 0, 0, at, at,
  CASE WHEN luck < 94 THEN 4 WHEN luck < 97 THEN 5 WHEN luck < 98 THEN 6 ELSE 7 END,
  at, at + 3, at + 200 + luck, '{"t":1}', 0, i % 1000 = 7, 'null', '{"ok":true}' FROM run;
INSERT INTO steps (run, step, item, status, attempts, started_at, ended_at, overdue)
SELECT key, 0, 0, iif(status = 4, 0, 1), 1, started_at, ended_at, 0 FROM runs;
INSERT INTO ledger (schedule, n, count, nominal, last_nominal, effective, decided_at, outcome, reason, run)
SELECT schedule, n, 1, nominal, nominal, effective, created_at, 0, 'due', key FROM runs ORDER BY schedule, n;
WITH RECURSIVE i (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i + 1 < :schedules / 10),
row (i, at) AS (SELECT i, :now - 604800000 + i * 604800000 / (:schedules / 10) FROM i)
INSERT INTO ledger (schedule, n, count, nominal, last_nominal, effective, decided_at, outcome, reason)
SELECT 1 + i * 10, :runs / :schedules + 1, 1, at, at, at, at, 3 + i * 7 % 5, 'as its policy says' FROM row;

INSERT INTO tallies (minute, kind, count)
SELECT decided_at / 60000, outcome, sum(count) FROM ledger GROUP BY 1, 2
UNION ALL SELECT ended_at / 60000, 16 + status, count(*) FROM runs GROUP BY 1, 2;
DROP TABLE part;
DROP TABLE new;
