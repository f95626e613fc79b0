//! Tokens, sign-ins, and the audit log.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::access::{
    AUDIT_KEPT, AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView,
    SignedInWith, TokenView, name_taken, place,
};
use crate::failure::Failure;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::ms;
use crate::sqlite::transaction::core::Core;
use crate::stored::{json, milliseconds};
use crate::view::{self, Cursor, Page};

const TOKEN: &str = "SELECT id, name, roles, queues, created_at, created_by,
     expires_at, revoked_at
     FROM tokens WHERE id = ?1";
const TOKEN_BY_HASH: &str = "SELECT id, name, roles, queues, created_at, created_by,
     expires_at, revoked_at
     FROM tokens WHERE hash = ?1";
const TOKENS: &str = "SELECT id, name, roles, queues, created_at, created_by,
     expires_at, revoked_at
     FROM tokens ORDER BY id";

fn read_token(row: &Row<'_>) -> rusqlite::Result<TokenView> {
    Ok(TokenView {
        id: row.get(0)?,
        name: row.get(1)?,
        roles: decode::json(row, 2)?,
        queues: decode::maybe_json(row, 3)?,
        created_at: decode::instant(row, 4)?,
        created_by: row.get(5)?,
        expires_at: decode::maybe_instant(row, 6)?,
        revoked_at: decode::maybe_instant(row, 7)?,
    })
}

pub(crate) fn tokens(connection: &Connection) -> Result<Vec<TokenView>, Failure> {
    let mut statement = connection.prepare_cached(TOKENS)?;
    Ok(statement.query_map([], read_token)?.collect::<Result<_, _>>()?)
}

fn token(connection: &Connection, id: i64) -> Result<Option<TokenView>, Failure> {
    Ok(connection.prepare_cached(TOKEN)?.query_row([id], read_token).optional()?)
}

pub(crate) fn token_by_hash(
    connection: &Connection,
    hash: &SecretHash,
) -> Result<Option<TokenView>, Failure> {
    Ok(connection.prepare_cached(TOKEN_BY_HASH)?.query_row([hash], read_token).optional()?)
}

pub(crate) fn sign_in(
    connection: &Connection,
    hash: &SecretHash,
) -> Result<Option<SignInView>, Failure> {
    let sql = "SELECT token, node, created_at, expires_at FROM sign_ins WHERE hash = ?1";
    let read = |row: &Row<'_>| {
        let token: Option<i64> = row.get(0)?;
        let with = match token {
            Some(id) => SignedInWith::Token(id),
            None => SignedInWith::Node(row.get(1)?),
        };
        let (created_at, expires_at) = (decode::instant(row, 2)?, decode::instant(row, 3)?);
        Ok(SignInView { with, token: None, created_at, expires_at })
    };
    let found = connection.prepare_cached(sql)?.query_row([hash], read).optional()?;
    let Some(view) = found else { return Ok(None) };
    let token = match view.with {
        SignedInWith::Token(id) => token(connection, id)?,
        SignedInWith::Node(_) => None,
    };
    Ok(Some(SignInView { token, ..view }))
}

pub(crate) fn audit(
    connection: &Connection,
    query: &AuditQuery,
) -> Result<Page<AuditView>, Failure> {
    let of_all = "SELECT key, at, who, from_address, action, target, detail
         FROM audit INDEXED BY audit_by_time
         WHERE (at, key) < (?1, ?2) AND at >= ?3 AND ?5 IS NULL
         ORDER BY at DESC, key DESC LIMIT ?4";
    let of_one = "SELECT key, at, who, from_address, action, target, detail
         FROM audit INDEXED BY audit_by_who
         WHERE who = ?5 AND (at, key) < (?1, ?2) AND at >= ?3
         ORDER BY at DESC, key DESC LIMIT ?4";
    let (at, key) = place(query.after.as_ref());
    let since = query.since.map_or(i64::MIN, ms);
    let limit = query.limit.saturating_add(1);
    let sql = if query.who.is_some() { of_one } else { of_all };
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params![at, key, since, limit, query.who], read_audit)?;
    let found = found.collect::<Result<Vec<AuditView>, _>>()?;
    let cursor = |view: &AuditView| Cursor::Instant(ms(view.at), view.key);
    Ok(view::page(found, query.limit, query.after.is_none(), cursor))
}

fn read_audit(row: &Row<'_>) -> rusqlite::Result<AuditView> {
    let entry = AuditEntry {
        who: row.get(2)?,
        from: row.get(3)?,
        action: row.get(4)?,
        target: row.get(5)?,
        detail: row.get(6)?,
    };
    Ok(AuditView { key: row.get(0)?, at: decode::instant(row, 1)?, entry })
}

impl Core {
    pub(crate) fn create_token(
        &mut self,
        new: &NewToken,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<TokenView, Failure> {
        let taken = "SELECT 1 FROM tokens WHERE name = ?1";
        if self.connection.prepare_cached(taken)?.exists([&new.name])? {
            return Err(name_taken(&new.name));
        }
        let sql =
            "INSERT INTO tokens (name, hash, roles, created_at, created_by, expires_at, queues)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let expires_at = new.expires_at.map(ms);
        let roles = json(&new.roles)?;
        let queues = new.queues.as_ref().map(json).transpose()?;
        let params =
            params![new.name, new.hash, roles, ms(now), new.created_by, expires_at, queues];
        self.connection.prepare_cached(sql)?.execute(params)?;
        let id = self.connection.last_insert_rowid();
        self.write_audit(audit, now)?;
        let made = token(&self.connection, id)?;
        made.ok_or_else(|| Failure::Damaged(format!("token {id} is gone")))
    }

    pub(crate) fn revoke_token(
        &mut self,
        id: i64,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<Option<TokenView>, Failure> {
        let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        if self.connection.prepare_cached(sql)?.execute([id, ms(now)])? > 0 {
            let sql = "DELETE FROM sign_ins WHERE token = ?1";
            self.connection.prepare_cached(sql)?.execute([id])?;
            self.write_audit(audit, now)?;
        }
        token(&self.connection, id)
    }

    pub(crate) fn begin_sign_in(
        &mut self,
        new: &NewSignIn,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<(), Failure> {
        let (token, node) = match &new.with {
            SignedInWith::Token(id) => (Some(*id), None),
            SignedInWith::Node(hash) => (None, Some(hash)),
        };
        let sql = "INSERT INTO sign_ins (hash, token, node, created_at, expires_at)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let params = params![new.hash, token, node, ms(now), ms(new.expires_at)];
        self.connection.prepare_cached(sql)?.execute(params)?;
        self.write_audit(audit, now)
    }

    pub(crate) fn end_sign_in(&mut self, hash: &SecretHash) -> Result<bool, Failure> {
        let sql = "DELETE FROM sign_ins WHERE hash = ?1";
        Ok(self.connection.prepare_cached(sql)?.execute([hash])? > 0)
    }

    pub(crate) fn write_audit(
        &self,
        audit: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let Some(AuditEntry { who, from, action, target, detail }) = audit else { return Ok(()) };
        let sql = "INSERT INTO audit (at, who, from_address, action, target, detail)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let params = params![ms(now), who, from, action, target, detail];
        self.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    /// Removes old audit rows and ended sign-ins. Returns how many, and whether there may be more.
    pub(crate) fn expire_access(&self, now: i64, limit: usize) -> Result<(usize, bool), Failure> {
        let audit = "DELETE FROM audit WHERE key IN (SELECT key FROM audit INDEXED BY audit_by_time
                     WHERE at < ?1 ORDER BY at LIMIT ?2)";
        let before = now.saturating_sub(milliseconds(AUDIT_KEPT));
        let audit = self.connection.prepare_cached(audit)?.execute(params![before, limit])?;
        let sign_ins = "DELETE FROM sign_ins WHERE hash IN (SELECT hash FROM sign_ins
                        WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
        let sign_ins = self.connection.prepare_cached(sign_ins)?.execute(params![now, limit])?;
        Ok((audit + sign_ins, audit == limit || sign_ins == limit))
    }
}
