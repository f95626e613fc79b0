//! Answers queries about calendars.

use engine::WorkflowId;

use crate::failure::Failure;
use crate::rows::{Read, Row};
use crate::view::CalendarView;
use crate::views::{Reader, params};

pub(crate) const CALENDARS: &str = "SELECT id, spec FROM calendars ORDER BY id";

pub(crate) async fn calendars(reader: &impl Reader) -> Result<Vec<CalendarView>, Failure> {
    reader.all(CALENDARS, &[], |row| read(row)).await
}

/// Reads a row of [`CALENDARS`].
pub(crate) fn read(row: &impl Row) -> Read<CalendarView> {
    let (id, spec) = row.tuple()?;
    Ok(CalendarView { id, spec })
}

pub(crate) async fn calendar_users(
    reader: &impl Reader,
    id: &str,
    besides: WorkflowId,
) -> Result<(u64, Vec<String>), Failure> {
    let count = "SELECT count(*) FROM schedules WHERE calendar = $1 AND workflow <> $2";
    let names = "SELECT DISTINCT w.name FROM schedules s JOIN workflows w ON w.id = s.workflow
                 WHERE s.calendar = $1 AND s.workflow <> $2 ORDER BY w.name LIMIT 5";
    let params = params![id, besides];
    let count = reader.count(count, &params).await?;
    Ok((count, reader.all(names, &params, |row| row.single()).await?))
}
