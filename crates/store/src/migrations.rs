//! The schema, version by version. Opening a store brings its schema up to date; a store that is
//! newer than this program is refused.

use rusqlite::Connection;

use crate::failure::Failure;

/// Each migration runs once, in order, in one transaction with the update of the schema version.
const MIGRATIONS: [&str; 1] = [include_str!("sqlite/schema/0001.sql")];

/// Brings the schema up to date.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    let version: usize = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > MIGRATIONS.len() {
        return Err(Failure::Unusable {
            what: format!(
                "the store was written by a newer version of punctual: it has schema version {version}, and this one \
                 knows up to {}",
                MIGRATIONS.len()
            ),
            remedy: "the version of punctual that used it last, or a newer one".to_owned(),
        });
    }
    if version == 0 && has_tables(connection)? {
        return Err(Failure::Unusable {
            what:
                "the file has tables, but does not say that punctual made them: its schema version \
                   is 0"
                    .to_owned(),
            remedy: format!(
                "another --db; if it was a store of punctual, restore a copy, or set the version \
                 (sqlite3 FILE 'PRAGMA user_version = {}') and run `punctual doctor`",
                MIGRATIONS.len()
            ),
        });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(version) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", index + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

fn has_tables(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table')";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}
