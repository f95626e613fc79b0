//! Copies changed rows of a PostgreSQL store into a file with the embedded store's tables, so that
//! both stores are read and checked by the same code.

use std::collections::HashMap;

use rusqlite::types::Value as Stored;
use rusqlite::{Connection, params_from_iter};
use serde_json::{Map, Value};
use store::Failure;

use super::schema::{LogRow, damaged};

/// How rows of each table are written into the copy.
#[derive(Default)]
pub(crate) struct Copy {
    tables: HashMap<String, Table>,
}

struct Table {
    columns: Vec<String>,
    keys: Vec<String>,
    write: String,
    delete: String,
}

impl Copy {
    /// Makes the same change in the copy.
    pub(crate) fn apply(&mut self, db: &Connection, change: &LogRow) -> Result<(), Failure> {
        let name = match change.table.as_str() {
            // A run is moved from one table to the other when it ends.
            "open_runs" | "ended_runs" => "runs",
            "idempotency" => return Ok(()),
            other => other,
        };
        let table = self.table(db, name)?;
        let values = |columns: &[String]| -> Result<Vec<Stored>, Failure> {
            columns.iter().map(|column| stored(column, change.content.get(column))).collect()
        };
        if !change.is_gone {
            execute(db, &table.write, values(&table.columns)?)?;
        } else {
            let side = match change.table.as_str() {
                "open_runs" => " AND status < 4",
                "ended_runs" => " AND status >= 4",
                _ => "",
            };
            execute(db, &format!("{}{side}", table.delete), values(&table.keys)?)?;
        }
        if name == "runs" { last_steps(db, &change.content, change.is_gone) } else { Ok(()) }
    }

    fn table(&mut self, db: &Connection, name: &str) -> Result<&Table, Failure> {
        if !self.tables.contains_key(name) {
            self.tables.insert(name.to_owned(), table(db, name).map_err(damaged)?);
        }
        self.tables.get(name).ok_or_else(|| damaged(format!("table {name} is not there")))
    }
}

fn execute(db: &Connection, sql: &str, values: Vec<Stored>) -> Result<(), Failure> {
    let mut statement = db.prepare_cached(sql).map_err(damaged)?;
    statement.execute(params_from_iter(values)).map(drop).map_err(|error| {
        Failure::Damaged(format!("two rows that the embedded store would refuse: {error}: {sql}"))
    })
}

fn table(db: &Connection, name: &str) -> rusqlite::Result<Table> {
    let mut statement = db.prepare(&format!("PRAGMA table_info({name})"))?;
    let columns = statement.query_map([], |row| Ok((row.get(1)?, row.get(5)?)))?;
    let columns: Vec<(String, i64)> = columns.collect::<rusqlite::Result<_>>()?;
    let keys: Vec<String> =
        columns.iter().filter(|(_, key)| *key > 0).map(|(column, _)| column.clone()).collect();
    let columns: Vec<String> = columns.into_iter().map(|(column, _)| column).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let others = columns.iter().filter(|column| !keys.contains(column));
    let others: Vec<String> =
        others.map(|column| format!("{column} = excluded.{column}")).collect();
    let set = if others.is_empty() {
        "NOTHING".to_owned()
    } else {
        format!("UPDATE SET {}", others.join(", "))
    };
    let write = format!(
        "INSERT INTO {name} ({}) VALUES ({marks}) ON CONFLICT ({}) DO {set}",
        columns.join(", "),
        keys.join(", ")
    );
    let is_it: Vec<String> = keys.iter().map(|key| format!("{key} = ?")).collect();
    let delete = format!("DELETE FROM {name} WHERE {}", is_it.join(" AND "));
    Ok(Table { columns, keys, write, delete })
}

/// A value as the embedded store would have stored it.
fn stored(column: &str, value: Option<&Value>) -> Result<Stored, Failure> {
    Ok(match value {
        None | Some(Value::Null) => Stored::Null,
        Some(Value::Bool(is_set)) => Stored::Integer(i64::from(*is_set)),
        Some(Value::Number(number)) => {
            let number = number.as_i64();
            Stored::Integer(number.ok_or_else(|| damaged(format!("{column} is no integer")))?)
        }
        Some(Value::String(text)) if column == "uuid" => Stored::Blob(bytes(text)?),
        Some(Value::String(text)) => Stored::Text(text.clone()),
        // The owners of a run: its state names them too.
        Some(Value::Array(_) | Value::Object(_)) => Stored::Null,
    })
}

fn bytes(uuid: &str) -> Result<Vec<u8>, Failure> {
    let digits = uuid.replace('-', "");
    let number = u128::from_str_radix(&digits, 16).map_err(damaged)?;
    Ok(number.to_be_bytes().to_vec())
}

/// The steps that a run ended with may be in its own row. The embedded store has rows for them.
fn last_steps(db: &Connection, run: &Map<String, Value>, is_gone: bool) -> Result<(), Failure> {
    let Some(Value::String(steps)) = run.get("last_steps") else { return Ok(()) };
    let key = stored("key", run.get("key"))?;
    let steps: Vec<Vec<Value>> = serde_json::from_str(steps).map_err(damaged)?;
    for step in steps {
        let [number, item, status, attempts, started_at, ended_at, output, error, reason, overdue] =
            step.as_slice()
        else {
            return Err(damaged(format!("a last step of run {key:?} has another form")));
        };
        let part = [number, item].map(|value| stored("step", Some(value)));
        let [number, item] = part;
        let mut values = vec![key.clone(), number?, item?];
        if is_gone {
            let sql = "DELETE FROM steps WHERE run = ? AND step = ? AND item = ?";
            execute(db, sql, values)?;
            continue;
        }
        for value in [status, attempts, started_at, ended_at] {
            values.push(stored("steps", Some(value))?);
        }
        // An output is in a list of its own: one that is null differs from none.
        values.push(text(output.get(0)));
        values.push(text(Some(error).filter(|error| !error.is_null())));
        values.push(stored("reason", Some(reason))?);
        values.push(stored("overdue", Some(overdue))?);
        let sql = "INSERT INTO steps (run, step, item, status, attempts, started_at, ended_at,
                    output, error, reason, overdue) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                   ON CONFLICT (run, step, item) DO UPDATE SET status = excluded.status";
        execute(db, sql, values)?;
    }
    Ok(())
}

fn text(value: Option<&Value>) -> Stored {
    value.map_or(Stored::Null, |value| Stored::Text(value.to_string()))
}
