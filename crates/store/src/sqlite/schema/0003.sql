-- Schedules whose next time may be of a calendar that has changed since: written with the calendar, gone with
-- the new next time.
CREATE TABLE outdated (
  schedule INTEGER PRIMARY KEY
);
