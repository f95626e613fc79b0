//! Copies the embedded store to PostgreSQL: everything as of one instant, in one transaction, and
//! read back.

mod tables;

use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;

use engine::turn::Refused;
use futures_util::{SinkExt as _, TryStreamExt as _};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tokio_postgres::{Row, Transaction};

use self::tables::{Kind, TABLES, Table};
use crate::failure::Failure;
use crate::postgres::PostgresOptions;
use crate::postgres::connections::connect::{Target, unavailable};
use crate::postgres::maintenance::migrate::migrate;
use crate::postgres::transaction::apply::plain;
use crate::postgres::transaction::reader::KEYS;
use crate::rows::{Column, Row as _};
use crate::stored::BLOCK;

/// How many bytes are sent at a time.
const SENT: usize = 1 << 20;

/// The result of the copy.
#[derive(Clone, Debug)]
pub struct Moved {
    pub tables: Vec<MovedTable>,
    /// Whether a node was running on the source: what it did meanwhile is not part of the copy.
    pub source_in_use: bool,
}

/// The result for one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTable {
    pub name: &'static str,
    /// How many rows, in both stores.
    pub rows: u64,
    /// The checksum of all values, the same in both stores.
    pub checksum: u64,
}

/// A copy of an embedded store, from which the rows are read.
pub struct CopySource {
    connection: Connection,
    /// Keeps a node from starting on the file meanwhile; nothing if one is running.
    lock: Option<crate::sqlite::FileLock>,
    _folder: tempfile::TempDir,
}

impl CopySource {
    pub fn open(from: &Path) -> Result<CopySource, Failure> {
        let lock = crate::sqlite::FileLock::hold(from)?;
        lock.as_ref().map_or(Ok(false), |lock| lock.refuse_foreign_log(from))?;
        let folder = tempfile_beside(from)?;
        let copy = folder.path().join("copy.db");
        crate::sqlite::backup_file(from, &copy)?;
        Ok(CopySource { connection: opened(&copy)?, lock, _folder: folder })
    }
}

/// Copies an embedded store, as of when it was opened, into an empty PostgreSQL store. A process
/// that has the file open goes on; what it writes meanwhile is not part of the copy. Every row is
/// read back and compared with what was sent before the commit: after a failure nothing is stored.
pub async fn copy_to_postgres(
    from: CopySource,
    options: &PostgresOptions,
) -> Result<Moved, Failure> {
    let CopySource { connection: source, lock, .. } = from;
    let target = Target::new(options)?;
    migrate(&target).await?;
    let mut client = target.connect().await?;
    // Copying takes longer than the statement timeout of turns.
    client.batch_execute("SET statement_timeout = 0").await.map_err(unavailable)?;
    let transaction = client.transaction().await.map_err(unavailable)?;
    check_empty(&transaction).await?;
    let mut tables = Vec::new();
    for table in TABLES {
        let sent = send(&source, &transaction, table).await?;
        let found = read_back(&transaction, table).await?;
        if sent != found {
            return Err(Failure::Unavailable(format!(
                "table {}: {} rows with checksum {:016x} were sent, and {} with {:016x} arrived",
                table.name, sent.rows, sent.checksum, found.rows, found.checksum
            )));
        }
        tables.push(sent);
    }
    finish(&source, &transaction).await?;
    transaction.commit().await.map_err(unavailable)?;
    client.batch_execute("ANALYZE").await.map_err(unavailable)?;
    Ok(Moved { tables, source_in_use: lock.is_none() })
}

/// A temporary folder on the same disk, which should have room for another copy.
fn tempfile_beside(from: &Path) -> Result<tempfile::TempDir, Failure> {
    let folder = from.parent().filter(|folder| !folder.as_os_str().is_empty());
    tempfile::tempdir_in(folder.unwrap_or(Path::new(".")))
        .map_err(|error| Failure::Unavailable(format!("no room for a copy: {error}")))
}

/// Opens the copy. No one else uses it, so it is migrated, and gets an index that the store itself
/// does not need.
fn opened(copy: &Path) -> Result<Connection, Failure> {
    let mut source = Connection::open(copy)?;
    crate::migrations::migrate(&mut source)?;
    source.execute_batch("CREATE INDEX wakeups_by_id ON wakeups (kind, id)")?;
    Ok(source)
}

async fn check_empty(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM workflows) OR EXISTS (SELECT 1 FROM schedules)
                 OR EXISTS (SELECT 1 FROM tokens)
                 OR EXISTS (SELECT 1 FROM nodes WHERE lease_until > 0)";
    let used: bool = transaction.query_one(sql, &[]).await.map_err(unavailable)?.single()?;
    if used {
        let message = "The PostgreSQL store is in use already. Name another --schema.".to_owned();
        return Err(Failure::Refused(Refused::Conflict(message)));
    }
    Ok(())
}

/// The sum of the rows' hashes, which does not depend on their order.
#[derive(Default)]
struct Sum {
    rows: u64,
    checksum: u64,
}

impl Sum {
    fn add<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>>) {
        let mut hasher = DefaultHasher::new();
        for value in values {
            match value {
                None => hasher.write_u8(0),
                Some(value) => {
                    hasher.write_u8(1);
                    hasher.write_usize(value.len());
                    hasher.write(value);
                }
            }
        }
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(hasher.finish());
    }

    fn of(self, table: &Table) -> MovedTable {
        MovedTable { name: table.name, rows: self.rows, checksum: self.checksum }
    }
}

async fn send(
    source: &Connection,
    transaction: &Transaction<'_>,
    table: &Table,
) -> Result<MovedTable, Failure> {
    let names: Vec<&str> = table.columns().map(|column| column.name).collect();
    let here: Vec<&str> = table.columns().map(|column| column.here).collect();
    let kinds: Vec<Kind> = table.columns().map(|column| column.kind).collect();
    let copy = format!("COPY {} ({}) FROM STDIN", table.name, names.join(", "));
    let mut sink = Box::pin(transaction.copy_in(&copy).await.map_err(unavailable)?);
    let select = format!("SELECT {} FROM {}", here.join(", "), table.from);
    let mut statement = source.prepare(&select)?;
    let mut rows = statement.query([])?;
    let mut sum = Sum::default();
    let mut line = Line::default();
    let mut text = Vec::with_capacity(SENT + 4096);
    while let Some(row) = rows.next()? {
        line.clear();
        for (index, kind) in kinds.iter().enumerate() {
            line.push(row.get_ref(index)?, *kind)?;
        }
        sum.add(line.values());
        line.write(&mut text);
        if text.len() >= SENT {
            sink.send(std::mem::take(&mut text).into()).await.map_err(unavailable)?;
        }
    }
    sink.send(bytes::Bytes::from(text)).await.map_err(unavailable)?;
    sink.as_mut().finish().await.map_err(unavailable)?;
    Ok(sum.of(table))
}

/// The values of one row as text, with the end of each; `None` for NULL.
#[derive(Default)]
struct Line {
    text: Vec<u8>,
    ends: Vec<Option<usize>>,
}

impl Line {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn push(&mut self, value: ValueRef<'_>, kind: Kind) -> Result<(), Failure> {
        use std::io::Write as _;
        let odd = || Failure::Damaged("a value of an unexpected kind".to_owned());
        // Writing into a vector cannot fail.
        let _ = match (value, kind) {
            (ValueRef::Null, _) => {
                self.ends.push(None);
                return Ok(());
            }
            (ValueRef::Integer(value), Kind::Plain | Kind::Boolean) => {
                write!(self.text, "{value}")
            }
            (ValueRef::Text(value), Kind::Plain) if value.contains(&0) => {
                // PostgreSQL cannot store NUL, so it is replaced as everywhere.
                let text = std::str::from_utf8(value).map_err(|_| odd())?;
                self.text.write_all(plain(text).as_bytes())
            }
            (ValueRef::Text(value), Kind::Plain) => self.text.write_all(value),
            (ValueRef::Blob(value), Kind::Uuid) => {
                let uuid = uuid::Uuid::from_slice(value).map_err(|_| odd())?;
                write!(self.text, "{uuid}")
            }
            (ValueRef::Blob(value), Kind::Bytes) => {
                let _ = self.text.write_all(b"\\x");
                value.iter().try_for_each(|byte| write!(self.text, "{byte:02x}"))
            }
            _ => return Err(odd()),
        };
        self.ends.push(Some(self.text.len()));
        Ok(())
    }

    fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let value = &self.text[from..(*end)?];
            from += value.len();
            Some(value)
        })
    }

    /// Writes the row in the text format of `COPY`.
    fn write(&self, into: &mut Vec<u8>) {
        for (index, value) in self.values().enumerate() {
            if index > 0 {
                into.push(b'\t');
            }
            let Some(value) = value else {
                into.extend_from_slice(b"\\N");
                continue;
            };
            for byte in value {
                match byte {
                    b'\\' => into.extend_from_slice(b"\\\\"),
                    b'\n' => into.extend_from_slice(b"\\n"),
                    b'\r' => into.extend_from_slice(b"\\r"),
                    b'\t' => into.extend_from_slice(b"\\t"),
                    other => into.push(*other),
                }
            }
        }
        into.push(b'\n');
    }
}

async fn read_back(transaction: &Transaction<'_>, table: &Table) -> Result<MovedTable, Failure> {
    let columns: Vec<String> = table
        .columns()
        .map(|column| match column.kind {
            Kind::Boolean => format!("{}::integer::text", column.name),
            _ => format!("{}::text", column.name),
        })
        .collect();
    let select = format!("SELECT {} FROM {}", columns.join(", "), table.name);
    let none: [&str; 0] = [];
    let rows = transaction.query_raw(&select, none).await.map_err(unavailable)?;
    let mut rows = Box::pin(rows);
    let mut sum = Sum::default();
    while let Some(row) = rows.try_next().await.map_err(unavailable)? {
        sum.add(texts(&row)?.into_iter());
    }
    Ok(sum.of(table))
}

fn texts(row: &Row) -> Result<Vec<Option<&[u8]>>, Failure> {
    let text = |index| row.maybe_text(Column::new(index, "of the copy"));
    (0..row.len()).map(|index| Ok(text(index)?.map(str::as_bytes))).collect()
}

/// Writes what is not copied row by row: counts, the next ids, and nodes whose attempts must be
/// taken over.
async fn finish(source: &Connection, transaction: &Transaction<'_>) -> Result<(), Failure> {
    let greatest = |sql: &str| -> Result<i64, Failure> {
        Ok(source.query_row(sql, [], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0))
    };
    let noted = |key: &str| {
        greatest(&format!("SELECT max(CAST(value AS INTEGER)) FROM meta WHERE key = '{key}'"))
    };
    let schedule = greatest("SELECT max(id) FROM schedules")?
        .max(greatest("SELECT max(schedule) FROM ledger")?)
        .max(greatest("SELECT max(schedule) FROM runs")?)
        .max(noted("greatest_schedule")?);
    let run = greatest("SELECT max(key) FROM runs")?.max(noted("greatest_run")?);
    let workflow = greatest("SELECT max(id) FROM workflows")?;
    let topic = greatest("SELECT max(id) FROM topics")?;
    let event = greatest("SELECT max(key) FROM events")?.max(noted("greatest_event")?);
    let handler = greatest("SELECT max(id) FROM handlers")?.max(noted("greatest_handler")?);
    let incident = greatest("SELECT max(key) FROM incidents")?.max(noted("greatest_incident")?);
    let node = greatest("SELECT max(id) FROM nodes")?;
    let token = greatest("SELECT max(id) FROM tokens")?;
    let audit = greatest("SELECT max(key) FROM audit")?;
    let zones = "SELECT value FROM meta WHERE key = 'zones'";
    let zones: Option<String> =
        source.prepare(zones)?.query_map([], |row| row.get(0))?.next().transpose()?;
    let sql = format!(
        "INSERT INTO schedule_counts (workflow, status, slot, count)
           SELECT workflow, status, 0, count(*) FROM schedules GROUP BY 1, 2
           UNION ALL SELECT 0, status, 0, count(*) FROM schedules GROUP BY 2;
         INSERT INTO schedule_blocks (status, block, slot, count)
           SELECT status, id / {BLOCK}, 0, count(*) FROM schedules GROUP BY 1, 2;
         INSERT INTO nodes (id, name, started_at, seen_at, lease_until, capacity, attempts)
           OVERRIDING SYSTEM VALUE
           SELECT DISTINCT unnest(owners), 'moved', 0, 0, 0, 0, 0 FROM open_runs;
         SELECT setval('schedule_ids', {}), setval('workflow_ids', {}), setval('run_blocks', {}),
           setval('topic_ids', {}), setval('event_blocks', {}), setval('handler_ids', {}),
           setval('incident_keys', {}),
           setval(pg_get_serial_sequence('nodes', 'id'), {}),
           setval(pg_get_serial_sequence('tokens', 'id'), {}),
           setval(pg_get_serial_sequence('audit', 'key'), {});
         UPDATE meta SET value = '1' WHERE key = 'rules'",
        schedule.max(1),
        workflow.max(1),
        run / KEYS + 1,
        topic.max(1),
        event / KEYS + 1,
        handler.max(1),
        incident.max(1),
        node.max(1),
        token.max(1),
        audit.max(1),
    );
    transaction.batch_execute(&sql).await.map_err(unavailable)?;
    if let Some(zones) = zones {
        let sql = "INSERT INTO meta (key, value) VALUES ('zones', $1)
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        transaction.execute(sql, &[&zones]).await.map_err(unavailable)?;
    }
    Ok(())
}
