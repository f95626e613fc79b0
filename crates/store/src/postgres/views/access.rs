//! Tokens, sign-ins, and the audit log.

use deadpool_postgres::Client;
use engine::NodeId;
use jiff::Timestamp;
use tokio_postgres::Row;

use crate::access::{
    AUDIT_KEPT, AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView,
    SignedInWith, TokenView, name_taken, place,
};
use crate::failure::Failure;
use crate::postgres::connections::query::{ask, is_storable, many};
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::nodes::clock::given_or_now;
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{damaged, get};
use crate::postgres::transaction::core::Core;
use crate::request::Call;
use crate::stored::{json, milliseconds, ms};
use crate::view::{self, Cursor, Page};

/// The sender of notifications about access. It is no node's id, so every node acts on them,
/// including the one that made the change.
const EVERYONE: NodeId = NodeId(-1);

const TOKEN: &str = "SELECT id, name, roles, queues, created_at, created_by,
     expires_at, revoked_at
     FROM tokens WHERE id = $1";
const TOKEN_BY_HASH: &str = "SELECT id, name, roles, queues, created_at, created_by,
     expires_at, revoked_at
     FROM tokens WHERE hash = $1";
const TOKENS: &str = "SELECT id, name, roles, queues, created_at, created_by,
     expires_at, revoked_at
     FROM tokens ORDER BY id";

fn read_token(row: &Row) -> Result<TokenView, Failure> {
    Ok(TokenView {
        id: get(row, 0)?,
        name: get(row, 1)?,
        roles: decode::json(row, 2)?,
        queues: decode::maybe_json(row, 3)?,
        created_at: decode::instant(row, 4)?,
        created_by: get(row, 5)?,
        expires_at: decode::maybe_instant(row, 6)?,
        revoked_at: decode::maybe_instant(row, 7)?,
    })
}

pub(crate) async fn tokens(client: &Client) -> Result<Vec<TokenView>, Failure> {
    ask(client, TOKENS, &[]).await?.iter().map(read_token).collect()
}

pub(crate) async fn token_by_hash(
    client: &Client,
    hash: SecretHash,
) -> Result<Option<TokenView>, Failure> {
    ask(client, TOKEN_BY_HASH, &[&hash.as_slice()]).await?.first().map(read_token).transpose()
}

pub(crate) async fn sign_in(
    client: &Client,
    hash: SecretHash,
) -> Result<Option<SignInView>, Failure> {
    let sql = "SELECT token, node, created_at, expires_at FROM sign_ins WHERE hash = $1";
    let found = ask(client, sql, &[&hash.as_slice()]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let (with, token) = match get::<Option<i64>>(row, 0)? {
        Some(id) => {
            let token = ask(client, TOKEN, &[&id]).await?.first().map(read_token).transpose()?;
            (SignedInWith::Token(id), token)
        }
        None => {
            let node = get::<&[u8]>(row, 1)?.try_into().map_err(|_| damaged(1, "no hash"))?;
            (SignedInWith::Node(node), None)
        }
    };
    let (created_at, expires_at) = (decode::instant(row, 2)?, decode::instant(row, 3)?);
    Ok(Some(SignInView { with, token, created_at, expires_at }))
}

pub(crate) async fn audit(client: &Client, query: AuditQuery) -> Result<Page<AuditView>, Failure> {
    let of_all = "SELECT key, at, who, from_address, action, target, detail FROM audit
         WHERE (at, key) < ($1, $2) AND at >= $3
         ORDER BY at DESC, key DESC LIMIT $4";
    let of_one = "SELECT key, at, who, from_address, action, target, detail FROM audit
         WHERE who = $5 AND (at, key) < ($1, $2) AND at >= $3
         ORDER BY at DESC, key DESC LIMIT $4";
    let (at, key) = place(query.after.as_ref());
    let since = query.since.map_or(i64::MIN, ms);
    let limit = many(query.limit.saturating_add(1));
    let found = match query.who {
        None => ask(client, of_all, &[&at, &key, &since, &limit]).await?,
        Some(who) if is_storable(&who) => {
            ask(client, of_one, &[&at, &key, &since, &limit, &who]).await?
        }
        Some(_) => Vec::new(),
    };
    let found = found.iter().map(read_audit).collect::<Result<Vec<AuditView>, _>>()?;
    let cursor = |view: &AuditView| Cursor::Instant(ms(view.at), view.key);
    Ok(view::page(found, query.limit, query.after.is_none(), cursor))
}

fn read_audit(row: &Row) -> Result<AuditView, Failure> {
    let entry = AuditEntry {
        who: get(row, 2)?,
        from: get(row, 3)?,
        action: get(row, 4)?,
        target: get(row, 5)?,
        detail: get(row, 6)?,
    };
    Ok(AuditView { key: get(row, 0)?, at: decode::instant(row, 1)?, entry })
}

/// The insert of an audit row, to be sent with the change. Without `at` the row gets the database's
/// time.
pub(crate) fn ask_audit(audit: Option<&AuditEntry>, at: Option<i64>) -> Option<Query> {
    let AuditEntry { who, from, action, target, detail } = audit?.clone();
    let sql = concat!(
        "INSERT INTO audit (at, who, from_address, action, target, detail) VALUES (",
        given_or_now!("$1"),
        ", $2, $3, $4, $5, $6)"
    );
    // PostgreSQL cannot store the character NUL.
    let detail = detail.map(|detail| detail.replace('\0', "\u{fffd}"));
    let params =
        vec![param(at), param(who), param(from), param(action), param(target), param(detail)];
    Some(Query::new(sql, params))
}

impl Core {
    pub(crate) fn create_token(
        &mut self,
        new: &NewToken,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<TokenView, Failure> {
        let taken = "SELECT 1 FROM tokens WHERE name = $1";
        let insert = concat!(
            "INSERT INTO tokens (name, hash, roles, created_at, created_by, expires_at, queues)
             VALUES ($1, $2, $3, ",
            given_or_now!("$4"),
            ", $5, $6, $7)
             RETURNING id, name, roles, queues, created_at, created_by, expires_at, revoked_at"
        );
        let roles = json(&new.roles)?;
        let queues = new.queues.as_ref().map(json).transpose()?;
        let shared = self.shared.clone();
        let now = self.shared.given(now);
        self.tx.transact(|tx| {
            let found = tx.begin(vec![Query::new(taken, vec![param(new.name.clone())])])?;
            if !found[0].is_empty() {
                return Err(name_taken(&new.name));
            }
            let params = vec![
                param(new.name.clone()),
                param(new.hash.to_vec()),
                param(roles.clone()),
                param(now),
                param(new.created_by.clone()),
                param(new.expires_at.map(ms)),
                param(queues.clone()),
            ];
            let mut queries = vec![Query::new(insert, params)];
            queries.push(shared.ask_call(Call::Access, EVERYONE));
            queries.extend(ask_audit(audit, now));
            let made = tx.commit(queries)?;
            let made = made.first().and_then(|rows| rows.first());
            made.map(read_token)
                .unwrap_or_else(|| Err(Failure::Damaged("a token is gone".to_owned())))
        })
    }

    pub(crate) fn revoke_token(
        &mut self,
        id: i64,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<Option<TokenView>, Failure> {
        let revoke = concat!(
            "UPDATE tokens SET revoked_at = ",
            given_or_now!("$2"),
            " WHERE id = $1 AND revoked_at IS NULL RETURNING id"
        );
        let end = "DELETE FROM sign_ins WHERE token = $1";
        let now = self.shared.given(now);
        let shared = self.shared.clone();
        self.tx.transact(|tx| {
            let revoked = tx.begin(vec![Query::new(revoke, vec![param(id), param(now)])])?;
            let mut queries = vec![Query::new(TOKEN, vec![param(id)])];
            if !revoked[0].is_empty() {
                queries.push(Query::new(end, vec![param(id)]));
                queries.push(shared.ask_call(Call::Access, EVERYONE));
                queries.extend(ask_audit(audit, now));
            }
            let found = tx.commit(queries)?;
            found.first().and_then(|rows| rows.first()).map(read_token).transpose()
        })
    }

    pub(crate) fn begin_sign_in(
        &mut self,
        new: &NewSignIn,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<(), Failure> {
        let (token, node) = match &new.with {
            SignedInWith::Token(id) => (Some(*id), None),
            SignedInWith::Node(hash) => (None, Some(hash.to_vec())),
        };
        let sql = concat!(
            "INSERT INTO sign_ins (hash, token, node, created_at, expires_at) VALUES ($1, $2, $3, ",
            given_or_now!("$4"),
            ", $5)"
        );
        let now = self.shared.given(now);
        self.tx.transact(|tx| {
            let params = vec![
                param(new.hash.to_vec()),
                param(token),
                param(node.clone()),
                param(now),
                param(ms(new.expires_at)),
            ];
            tx.begin(vec![Query::new(sql, params)])?;
            tx.commit(ask_audit(audit, now).into_iter().collect())?;
            Ok(())
        })
    }

    pub(crate) fn end_sign_in(&mut self, hash: &SecretHash) -> Result<bool, Failure> {
        let sql = "DELETE FROM sign_ins WHERE hash = $1 RETURNING 1";
        let shared = self.shared.clone();
        self.tx.transact(|tx| {
            let ended = tx.begin(vec![Query::new(sql, vec![param(hash.to_vec())])])?;
            tx.commit(vec![shared.ask_call(Call::Access, EVERYONE)])?;
            Ok(!ended[0].is_empty())
        })
    }
}

/// The statements that remove a batch of old audit rows and ended sign-ins.
pub(crate) fn ask_expired(now: i64, limit: usize) -> [Query; 2] {
    let audit = "DELETE FROM audit WHERE key IN (SELECT key FROM audit WHERE at < $1
                 ORDER BY at LIMIT $2) RETURNING 1";
    let before = now.saturating_sub(milliseconds(AUDIT_KEPT));
    let sign_ins = "DELETE FROM sign_ins WHERE hash IN (SELECT hash FROM sign_ins
                    WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
                    FOR UPDATE SKIP LOCKED) RETURNING 1";
    [
        Query::new(audit, vec![param(before), param(many(limit))]),
        Query::new(sign_ins, vec![param(now), param(many(limit))]),
    ]
}
