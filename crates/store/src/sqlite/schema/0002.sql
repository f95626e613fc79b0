-- Runs that have begun and wait for a place to go on. SQLite uses it only where a query says the same.
CREATE INDEX runs_ready ON runs (key) WHERE status = 2 AND retry_at IS NULL;
