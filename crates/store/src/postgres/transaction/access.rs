//! Changes of tokens, sign-ins, and the audit log.

use jiff::Timestamp;

use crate::access::{
    AUDIT_KEPT, AuditEntry, NewSignIn, NewToken, SecretHash, SignedInWith, TokenRow, TokenView,
    name_taken,
};
use crate::failure::Failure;
use crate::postgres::connections::query::row_count;
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::nodes::clock::given_or_now;
use crate::postgres::transaction::core::Core;
use crate::request::Call;
use crate::rows::{self, token_columns};
use crate::stored::{json, milliseconds, ms};
use crate::views::access::TOKEN;

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
            "INSERT INTO tokens AS t (name, hash, roles, created_at, created_by, expires_at, queues)
             VALUES ($1, $2, $3, ",
            given_or_now!("$4"),
            ", $5, $6, $7) RETURNING ",
            token_columns!()
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
            queries.push(shared.ask_call(Call::Access, None));
            queries.extend(ask_audit(audit, now));
            let made = tx.commit(queries)?;
            let made = made.first().and_then(|rows| rows.first());
            made.map(rows::token_view)
                .unwrap_or_else(|| Err(Failure::Damaged("a token is gone".to_owned())))
        })
    }

    pub(crate) fn revoke_token(
        &mut self,
        id: i64,
        now: Timestamp,
        audit: Option<&AuditEntry>,
    ) -> Result<Option<TokenRow>, Failure> {
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
                queries.push(shared.ask_call(Call::Access, None));
                queries.extend(ask_audit(audit, now));
            }
            let found = tx.commit(queries)?;
            found.first().and_then(|rows| rows.first()).map(rows::token_row).transpose()
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
            tx.commit(vec![shared.ask_call(Call::Access, None)])?;
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
        Query::new(audit, vec![param(before), param(row_count(limit))]),
        Query::new(sign_ins, vec![param(now), param(row_count(limit))]),
    ]
}
