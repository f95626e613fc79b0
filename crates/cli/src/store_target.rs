//! Which store `--db` refers to, and how to open it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calendar::{Zones, parse_duration};
use jiff::SignedDuration;
use store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};

use crate::args::node::DbArgs;
use crate::failure::Failure;
use crate::store_file;

const SHAPE: &str = "postgres://USER:PASSWORD@HOST:PORT/DATABASE";
/// The range of `--lease`. With a shorter one, a busy machine is considered dead; with a longer
/// one, the work of a dead node waits too long.
const LEASES: std::ops::RangeInclusive<SignedDuration> =
    SignedDuration::from_secs(1)..=SignedDuration::from_secs(3_600);

/// The location of a store.
pub(crate) enum StoreTarget {
    /// A file, for one node.
    File(PathBuf),
    /// A PostgreSQL database, for many nodes.
    Postgres(Shared),
}

/// A PostgreSQL database. Messages show it without its password.
pub(crate) struct Shared {
    url: String,
    schema: String,
    shown: String,
}

impl StoreTarget {
    pub(crate) fn read(args: &DbArgs) -> Result<StoreTarget, Failure> {
        let db = args.db.as_str();
        if db.starts_with("postgres://") || db.starts_with("postgresql://") {
            let (url, schema) = (args.db.clone(), args.schema.clone());
            if schema.is_empty() {
                return Err(Failure::Mistake("--schema: no schema is named".to_owned()));
            }
            return Ok(StoreTarget::Postgres(Shared {
                shown: without_password(&url),
                url,
                schema,
            }));
        }
        let path = db.strip_prefix("sqlite:").unwrap_or(db);
        let path = path.strip_prefix("//").unwrap_or(path);
        if let Some((scheme, _)) = path.split_once("://") {
            return Err(Failure::Mistake(format!(
                "--db {scheme}://…: a store of this kind is not known\n  \
                 allowed: a file, sqlite:FILE, {SHAPE}\n  try: --db ./punctual.db"
            )));
        }
        if path.is_empty() {
            let said = "--db: no file is named\n  try: --db ./punctual.db";
            return Err(Failure::Mistake(said.to_owned()));
        }
        if is_connection(path) {
            return Err(Failure::Mistake(format!(
                "--db …: this is how a PostgreSQL is named elsewhere, and no file\n  \
                 allowed: a file, sqlite:FILE, {SHAPE}\n  try: --db postgres://…"
            )));
        }
        Ok(StoreTarget::File(PathBuf::from(path)))
    }

    /// Opens the store, or creates a new one. A shared store keeps using the runtime that opened
    /// it.
    pub(crate) async fn open(
        &self,
        zones: Zones,
        lease: SignedDuration,
    ) -> Result<Arc<dyn Store>, Failure> {
        Ok(match self {
            StoreTarget::File(path) => open_file(path, zones)?,
            StoreTarget::Postgres(shared) => Arc::new(shared.open(zones, Some(lease)).await?),
        })
    }

    /// The directory for notes of running commands, in case the node is killed: beside the store
    /// file, or in the working directory. Nodes that share it do not touch each other's notes.
    pub(crate) fn groups_dir(&self) -> PathBuf {
        match self {
            StoreTarget::File(path) => groups_dir(path),
            StoreTarget::Postgres(_) => PathBuf::from("./punctual-commands"),
        }
    }
}

impl fmt::Display for StoreTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreTarget::File(path) => path.display().fmt(f),
            StoreTarget::Postgres(shared) => f.write_str(&shared.shown),
        }
    }
}

/// Opens a store file, or creates a new one.
pub(crate) fn open_file(path: &Path, zones: Zones) -> Result<Arc<Sqlite>, Failure> {
    let store = Sqlite::open(path, zones, SqliteOptions::default());
    store.map(Arc::new).map_err(|failure| store_file::failure(path, &failure))
}

/// The directory for notes of running commands beside a store file.
pub(crate) fn groups_dir(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push("-commands");
    PathBuf::from(name)
}

impl Shared {
    pub(crate) async fn open(
        &self,
        zones: Zones,
        lease: Option<SignedDuration>,
    ) -> Result<Postgres, Failure> {
        let usual = self.options();
        let options = PostgresOptions { lease: lease.unwrap_or(usual.lease), ..usual };
        Postgres::open(zones, options).await.map_err(|why| self.failure(&why))
    }

    /// The default options, for this address and schema.
    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions { schema: self.schema.clone(), ..PostgresOptions::new(self.url.clone()) }
    }

    /// Why the store cannot be used, with a remedy.
    pub(crate) fn failure(&self, failure: &store::Failure) -> Failure {
        let said = failure.to_string();
        let has = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
        // The store's own message about an invalid address may contain the password, so it is not
        // shown.
        if has(&["address of the database cannot be read"]) {
            return Failure::Mistake(format!(
                "--db {}: this address cannot be read\n  allowed: {SHAPE}\n  \
                 try: %40 for an @ in the password, %2F for a /, %3A for a :",
                self.shown
            ));
        }
        let remedy = if let store::Failure::Unusable { remedy, .. } = failure {
            remedy.clone()
        } else if has(&["(28P01)", "(28000)", "password missing"]) {
            format!("PUNCTUAL_DB={SHAPE} with the user's password")
        } else if has(&["(3D000)"]) {
            "createdb, or the name of another database; the schema in it is made".to_owned()
        } else if has(&["(42501)"]) {
            "a user who may create a schema, or a --schema that is the user's own".to_owned()
        } else if has(&["cannot be used", "TLS", "certificate"]) {
            "sslmode and sslrootcert in the URL, as the server wants them".to_owned()
        } else if let store::Failure::NotWritten { fault, .. } = failure {
            fault.remedy().to_owned()
        } else {
            "whether PostgreSQL runs there and can be reached from here".to_owned()
        };
        let said = format!("{}: {said}\n  try: {remedy}", self.shown);
        match failure {
            store::Failure::Refused(_) => Failure::Mistake(said),
            _ => Failure::Environment(said),
        }
    }

    /// Why `backup` does not copy this store, with a remedy.
    pub(crate) fn no_copy(&self, to: &Path) -> Failure {
        Failure::Mistake(format!(
            "{}: a PostgreSQL is copied by its own tools\n  \
             try: pg_dump --format=custom --schema='{}' --file='{}' '{0}'",
            self.shown,
            self.schema,
            to.display()
        ))
    }
}

/// Whether a text is a database address in a form that other programs accept. Taken as a path, it
/// would create a file with the password in its name.
fn is_connection(path: &str) -> bool {
    const KEYS: [&str; 7] = ["host", "hostaddr", "port", "user", "password", "dbname", "service"];
    let is_pair = |word: &str| {
        word.split_once('=')
            .is_some_and(|(key, _)| KEYS.contains(&key.to_ascii_lowercase().as_str()))
    };
    let lower = path.to_ascii_lowercase();
    let is_url = ["postgres:", "postgresql:"].iter().any(|scheme| lower.starts_with(scheme));
    let user = path.rsplit_once('@').map_or("", |(user, _)| user);
    let has_password = user.contains(':') && !path.starts_with(['.', '/']);
    is_url || has_password || path.split([' ', '\t', '\n', ';']).any(is_pair)
}

/// The address without its password and the options after `?`.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    // The `?` may be part of the password, so nothing of the address is shown.
    if options.contains('@') {
        return format!("{scheme}://…");
    }
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

pub(crate) fn lease(text: &str) -> Result<SignedDuration, Failure> {
    let lease = parse_duration(text)?;
    if LEASES.contains(&lease) {
        return Ok(lease);
    }
    Err(Failure::Mistake(format!("--lease {text}: out of range\n  allowed: 1s to 1h\n  try: 15s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_database_is_no_file() {
        for (db, is_refused) in [
            ("host=h user=u password=hunter2PASS", true),
            ("password=hunter2PASS", true),
            ("sqlite:dbname=x password=hunter2PASS", true),
            ("Server=h;Password=hunter2PASS", true),
            ("postgres:u:hunter2PASS@h/db", true),
            ("u:hunter2PASS@h/db", true),
            ("mysql://u:hunter2PASS@h/db", true),
            ("./punctual.db", false),
            ("/srv/a=b/u:x@y.db", false),
            ("my host.db", false),
        ] {
            let args = DbArgs { db: db.to_owned(), schema: "punctual".to_owned() };
            match StoreTarget::read(&args) {
                Ok(_) => assert!(!is_refused, "{db}"),
                Err(failure) => {
                    let said = failure.to_string();
                    assert!(is_refused, "{db}: {said}");
                    assert!(said.contains("postgres://") && !said.contains("hunter2"), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://u:secret@h:5432/db", "postgres://u@h:5432/db"),
            ("postgresql://u@h/db", "postgresql://u@h/db"),
            ("postgres://h/db?user=u&password=secret", "postgres://h/db"),
            ("postgres://u:se/cr@et@h/db", "postgres://u@h/db"),
            ("postgres://u:se?cret@h/db", "postgres://…"),
            ("postgres://u:secret@a:1,b:2/db?target_session_attrs=any", "postgres://u@a:1,b:2/db"),
            ("postgres:///db?host=/run&password=p@ss", "postgres://…"),
            ("postgres://", "postgres://"),
        ] {
            assert_eq!(without_password(url), shown, "{url}");
        }
    }
}
