//! One connection for transactions, used by a thread of its own: the engine decides between two
//! queries, and nothing else could use the connection meanwhile.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::failure::Failure;
use crate::postgres::connections::connect::{
    Session, Target, described, failure, is_passing, silent, unavailable,
};
use crate::postgres::connections::deadline::wait_for;
use crate::set_aside::guarded;

/// How many times a transaction that collided with another is tried.
const TRIES: usize = 5;
/// How many times a transaction that finds out it needs more begins anew: each time it has more
/// from the beginning.
const ROUNDS: usize = 20;

/// Every statement here finds its rows by a key, but without these settings PostgreSQL scans a
/// young table from end to end. One generic plan serves every turn.
const PLANS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET enable_bitmapscan = off; \
     SET plan_cache_mode = force_generic_plan";

/// A parameter that is owned, so that it can be sent later.
pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// A statement with its parameters or rows.
pub(crate) struct Query {
    sql: &'static str,
    with: With,
}

enum With {
    Params(Vec<Param>),
    Rows(Bytes),
}

impl Query {
    pub(crate) fn new(sql: &'static str, params: Vec<Param>) -> Query {
        Query { sql, with: With::Params(params) }
    }

    /// `COPY … FROM STDIN` with its rows.
    pub(crate) fn copy(sql: &'static str, rows: Bytes) -> Query {
        Query { sql, with: With::Rows(rows) }
    }
}

/// Boxes a value as a parameter.
pub(crate) fn param(value: impl ToSql + Sync + Send + 'static) -> Param {
    Box::new(value)
}

/// A connection that is opened again when it is lost.
pub(crate) struct TxConnection {
    target: Arc<Target>,
    runtime: tokio::runtime::Handle,
    client: Option<Session>,
    statements: HashMap<&'static str, Statement>,
    /// The last failure may be gone on a retry.
    is_passing: bool,
    /// The transaction begins anew with what it turned out to need.
    needs_more: bool,
    /// An earlier try of this transaction inserted a row that was there already.
    has_met_others: bool,
    /// The commit was sent, and no answer came.
    in_doubt: bool,
}

impl TxConnection {
    pub(crate) fn new(target: Arc<Target>, runtime: tokio::runtime::Handle) -> TxConnection {
        TxConnection {
            target,
            runtime,
            client: None,
            statements: HashMap::new(),
            is_passing: false,
            needs_more: false,
            has_met_others: false,
            in_doubt: false,
        }
    }

    /// Runs `work` in a transaction, which it must end with [`TxConnection::commit`]; an open one
    /// is rolled back. Work that collided with another transaction runs again from the beginning.
    pub(crate) fn transact<T>(
        &mut self,
        mut work: impl FnMut(&mut TxConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.has_met_others = false;
        let (mut collisions, mut rounds) = (1, 1);
        loop {
            let ended = self.attempt(&mut work);
            let Err(failure) = &ended else { return ended };
            let is_left = match (self.is_passing, self.needs_more) {
                (true, false) => collisions < TRIES,
                (true, true) => rounds < ROUNDS,
                (false, _) => false,
            };
            if !is_left {
                return ended;
            }
            tracing::debug!(%failure, "collided with another transaction, trying again");
            if self.needs_more {
                rounds += 1;
            } else {
                collisions += 1;
            }
        }
    }

    /// Whether the last transaction failed because every try of it collided with another one.
    pub(crate) fn has_only_collided(&self) -> bool {
        self.is_passing
    }

    fn attempt<T>(
        &mut self,
        work: &mut impl FnMut(&mut TxConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        (self.is_passing, self.needs_more, self.in_doubt) = (false, false, false);
        self.connected()?;
        let ended = guarded(|| work(self));
        match ended {
            Ok(done) => Ok(done),
            Err(Failure::Unavailable(why)) if self.in_doubt => {
                self.client = None;
                Err(Failure::Unknown(why))
            }
            Err(failure) => {
                self.undo();
                Err(failure)
            }
        }
    }

    fn undo(&mut self) {
        let Some(client) = &self.client else { return };
        if client.is_closed() {
            self.client = None;
            return;
        }
        match wait_for(client.batch_execute("ROLLBACK"), self.target.silence()) {
            Some(Ok(())) => {}
            Some(Err(_)) => self.client = None,
            None => self.give_up(),
        }
    }

    /// Gives up a connection that does not answer; the next transaction opens another one.
    fn give_up(&mut self) {
        if let Some(session) = self.client.take() {
            session.give_up();
        }
    }

    fn connected(&mut self) -> Result<(), Failure> {
        if self.client.as_ref().is_some_and(Session::is_trusted) {
            return Ok(());
        }
        self.statements.clear();
        let target = self.target.clone();
        self.client = None;
        let client = self.runtime.block_on(async move {
            let client = target.connect().await?;
            match tokio::time::timeout(target.patience(), client.batch_execute(PLANS)).await {
                Ok(said) => said.map_err(unavailable)?,
                Err(_) => {
                    client.give_up();
                    return Err(silent(target.patience()));
                }
            }
            Ok::<_, Failure>(client)
        })?;
        self.client = Some(client);
        Ok(())
    }

    /// Sends all statements at once and returns the rows of each. The first failure counts.
    pub(crate) fn ask(&mut self, queries: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        self.send(None, queries, None)
    }

    /// As [`TxConnection::ask`], at the beginning of a transaction.
    pub(crate) fn begin(&mut self, queries: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        self.send(Some("BEGIN"), queries, None)
    }

    /// As [`TxConnection::ask`], at the end of a transaction: it is committed when this returns.
    pub(crate) fn commit(&mut self, queries: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        self.send(None, queries, Some("COMMIT"))
    }

    pub(crate) fn one(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, Failure> {
        Ok(self.ask(vec![Query::new(sql, params)])?.pop().unwrap_or_default())
    }

    fn send(
        &mut self,
        before: Option<&'static str>,
        queries: Vec<Query>,
        after: Option<&'static str>,
    ) -> Result<Vec<Vec<Row>>, Failure> {
        for queries in &queries {
            self.prepare(queries.sql)?;
        }
        let Some(client) = &self.client else { return Err(closed()) };
        let mut sent: Vec<Answer<'_>> = Vec::with_capacity(queries.len() + 2);
        sent.extend(before.map(|sql| plain(client, sql)));
        for queries in &queries {
            let statement = &self.statements[queries.sql];
            sent.push(Box::pin(answer(client, statement, &queries.with)));
        }
        sent.extend(after.map(|sql| plain(client, sql)));
        let answers = wait_for(in_order(sent), self.target.silence());
        let Some(mut answers) = answers else {
            // If the commit was among them, its outcome is not known.
            self.in_doubt = after.is_some();
            self.give_up();
            return Err(silent(self.target.silence()));
        };
        let ended = if after.is_some() { answers.pop() } else { None };
        let mut rows = Vec::with_capacity(answers.len());
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if before.is_some() && failed.is_none() {
            rows.remove(0);
        }
        if let Some(error) = failed {
            // If a statement is answered with an error, the commit behind it rolls back. If it is
            // not answered at all, the outcome is not known.
            self.in_doubt = after.is_some() && error.as_db_error().is_none();
            // After a failed copy, the next message on the connection may answer an earlier
            // statement, so the connection is dropped.
            if queries.iter().any(|queries| matches!(queries.with, With::Rows(_))) {
                self.client = None;
            }
            return Err(self.failed(&error));
        }
        if let Some(Err(error)) = ended {
            self.in_doubt = error.as_db_error().is_none_or(|db| db.code().code().starts_with("57"));
            return Err(self.failed(&error));
        }
        Ok(rows)
    }

    /// A failure that makes the transaction begin anew.
    pub(crate) fn again(&mut self, why: &str) -> Failure {
        (self.is_passing, self.needs_more) = (true, true);
        Failure::Unavailable(why.to_owned())
    }

    /// Whether an earlier try of this transaction inserted a row that was there already.
    pub(crate) fn has_met_others(&self) -> bool {
        self.has_met_others
    }

    fn failed(&mut self, error: &tokio_postgres::Error) -> Failure {
        self.has_met_others |= error.code() == Some(&SqlState::UNIQUE_VIOLATION);
        self.is_passing = is_passing(error);
        // A constraint violation (class 23) will happen again on every retry.
        let breaks_a_rule = error.code().is_some_and(|code| code.code().starts_with("23"));
        if breaks_a_rule {
            Failure::Undecidable { what: None, why: described(error) }
        } else {
            failure(error)
        }
    }

    fn prepare(&mut self, sql: &'static str) -> Result<(), Failure> {
        if self.statements.contains_key(sql) {
            return Ok(());
        }
        let Some(client) = &self.client else { return Err(closed()) };
        let silence = self.target.silence();
        let prepared = wait_for(client.prepare(sql), silence);
        let statement = match prepared {
            Some(Ok(statement)) => statement,
            Some(Err(error)) => return Err(self.failed(&error)),
            None => {
                self.give_up();
                return Err(silent(silence));
            }
        };
        self.statements.insert(sql, statement);
        Ok(())
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + 'a>>;

async fn answer(
    client: &Client,
    statement: &Statement,
    with: &With,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match with {
        With::Params(params) => {
            let params: Vec<&(dyn ToSql + Sync)> =
                params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
            client.query(statement, &params).await
        }
        With::Rows(rows) => {
            let mut sink = pin!(client.copy_in(statement).await?);
            sink.send(rows.clone()).await?;
            sink.as_mut().finish().await.map(|_| Vec::new())
        }
    }
}

fn plain<'a>(client: &'a Client, sql: &'static str) -> Answer<'a> {
    Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) })
}

/// Each future sends its statement when it is first polled, so all are sent in this order before
/// the first answer.
async fn in_order(mut sent: Vec<Answer<'_>>) -> Vec<Result<Vec<Row>, tokio_postgres::Error>> {
    let mut answers: Vec<Option<_>> = sent.iter().map(|_| None).collect();
    poll_fn(move |context| {
        for (answer, slot) in sent.iter_mut().zip(&mut answers) {
            if slot.is_none()
                && let Poll::Ready(done) = answer.as_mut().poll(context)
            {
                *slot = Some(done);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(answers.iter_mut().filter_map(Option::take).collect())
        } else {
            Poll::Pending
        }
    })
    .await
}

fn closed() -> Failure {
    Failure::Unavailable("the connection is lost".to_owned())
}
