//! `punctual migrate`: copies an embedded store to PostgreSQL.

use std::io::Write;

use serde_json::json;
use store::{CopySource, MovedTable, copy_to_postgres};

use crate::args::MigrateArgs;
use crate::args::node::DbArgs;
use crate::failure::Failure;
use crate::store_file::{existing, failure};
use crate::store_target::StoreTarget;
use crate::terminal::{BOLD, Cell, DIM, columns};

/// Copies everything, and prints what was copied.
pub(crate) fn run(args: &MigrateArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let target =
        |db: &str| StoreTarget::read(&DbArgs { db: db.to_owned(), schema: args.schema.clone() });
    let (StoreTarget::File(from), StoreTarget::Postgres(to)) =
        (target(&args.from)?, target(&args.to)?)
    else {
        return Err(Failure::Mistake(
            "migrate: from an embedded store to a PostgreSQL, in this direction\n  \
             try: --from sqlite:./punctual.db --to postgres://user@host/database"
                .to_owned(),
        ));
    };
    existing(&from)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let source = CopySource::open(&from).map_err(|why| failure(&from, &why))?;
    let moved = runtime.block_on(copy_to_postgres(source, &to.options()));
    let moved = moved.map_err(|why| match why {
        store::Failure::Damaged(_) | store::Failure::Undecidable { .. } => failure(&from, &why),
        _ => to.failure(&why),
    })?;
    if args.json {
        let table = |table: &MovedTable| {
            json!({
                "table": table.name,
                "rows": table.rows,
                "checksum": format!("{:016x}", table.checksum),
            })
        };
        let told = json!({
            "from": from,
            "schema": args.schema,
            "tables": moved.tables.iter().map(table).collect::<Vec<_>>(),
            "source_in_use": moved.source_in_use,
        });
        return Ok(writeln!(out, "{told}")?);
    }
    let mut rows = vec![vec![
        Cell::styled("table", BOLD),
        Cell::styled("rows", BOLD),
        Cell::styled("checksum, there as here", BOLD),
    ]];
    rows.extend(moved.tables.iter().map(|table| {
        vec![
            Cell::plain(table.name),
            Cell::plain(table.rows.to_string()),
            Cell::styled(format!("{:016x}", table.checksum), DIM),
        ]
    }));
    write!(out, "{}", columns(&rows))?;
    writeln!(out, "\nEverything in {} was copied and read back.", from.display())?;
    if moved.source_in_use {
        writeln!(
            out,
            "A node is running on {}: what it has done meanwhile is not in the copy. To move, stop it, \
             and copy again into another --schema.",
            from.display()
        )?;
    } else {
        writeln!(out, "Start nodes with: punctual serve --db postgres://…")?;
    }
    Ok(())
}
