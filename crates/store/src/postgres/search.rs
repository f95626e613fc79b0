//! Schedules by the words of their names.
