//! Changes of tokens, sign-ins, and the audit log.

use jiff::Timestamp;
use rusqlite::params;

use crate::access::{
    AUDIT_KEPT, AuditEntry, NewSignIn, NewToken, SecretHash, SignedInWith, TokenRow, TokenView,
    name_taken,
};
use crate::failure::Failure;
use crate::rows;
use crate::sqlite::connections::query::{self, answer};
use crate::sqlite::transaction::core::Core;
use crate::stored::{json, milliseconds, ms};
use crate::views::access::{TOKEN, token};

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
        let made = answer(token(&self.connection, id))?;
        made.ok_or_else(|| Failure::Damaged(format!("token {id} is gone")))
    }

    pub(crate) fn revoke_token(
        &mut self,
        id: i64,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<Option<TokenRow>, Failure> {
        let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        if self.connection.prepare_cached(sql)?.execute([id, ms(now)])? > 0 {
            let sql = "DELETE FROM sign_ins WHERE token = ?1";
            self.connection.prepare_cached(sql)?.execute([id])?;
            self.write_audit(audit, now)?;
        }
        query::one(&self.connection, TOKEN, [id], |row| rows::token_row(row))
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
