//! Views of tokens, sign-ins, and the audit log.

use crate::access::{
    AuditQuery, AuditView, SecretHash, SignInView, SignedInWith, TokenRow, TokenView, position,
};
use crate::failure::Failure;
use crate::rows::{self, audit_columns, sign_in_columns, token_columns};
use crate::stored::ms;
use crate::view::{self, Cursor, Page};
use crate::views::{Reader, params};

macro_rules! tokens_where {
    ($rest:literal) => {
        concat!("SELECT ", token_columns!(), " FROM tokens t ", $rest)
    };
}

pub(crate) const TOKEN: &str = tokens_where!("WHERE id = $1");

pub(crate) async fn tokens(reader: &impl Reader) -> Result<Vec<TokenRow>, Failure> {
    reader.all(tokens_where!("ORDER BY id"), &[], |row| rows::token_row(row)).await
}

pub(crate) async fn token(reader: &impl Reader, id: i64) -> Result<Option<TokenView>, Failure> {
    reader.one(TOKEN, &params![id], |row| rows::token_view(row)).await
}

pub(crate) async fn token_by_hash(
    reader: &impl Reader,
    hash: &SecretHash,
) -> Result<Option<TokenView>, Failure> {
    let sql = tokens_where!("WHERE hash = $1");
    reader.one(sql, &params![hash.as_slice()], |row| rows::token_view(row)).await
}

pub(crate) async fn sign_in(
    reader: &impl Reader,
    hash: &SecretHash,
) -> Result<Option<SignInView>, Failure> {
    let sql = concat!("SELECT ", sign_in_columns!(), " FROM sign_ins i WHERE hash = $1");
    let found = reader.one(sql, &params![hash.as_slice()], |row| rows::sign_in_view(row)).await?;
    let Some(view) = found else { return Ok(None) };
    let token = match view.with {
        SignedInWith::Token(id) => token(reader, id).await?,
        SignedInWith::Node(_) => None,
    };
    Ok(Some(SignInView { token, ..view }))
}

pub(crate) async fn audit<R: Reader>(
    reader: &R,
    query: &AuditQuery,
) -> Result<Page<AuditView>, Failure> {
    let (at, key) = position(query.after.as_ref());
    let since = query.since.map_or(i64::MIN, ms);
    let mut params = params![at, key, since, query.limit.saturating_add(1)].to_vec();
    let (index, of_one) = match &query.who {
        None => ("audit_by_time", ""),
        Some(who) => {
            params.push(who.into());
            ("audit_by_who", "who = $5 AND")
        }
    };
    let sql = format!(
        "SELECT {} FROM audit a {} WHERE {of_one} (at, key) < ($1, $2) AND at >= $3
         ORDER BY at DESC, key DESC LIMIT $4",
        audit_columns!(),
        R::indexed_by(index)
    );
    let found = reader.all(&sql, &params, |row| Ok(rows::audit_view(row))).await?;
    let cursor = |view: &AuditView| Cursor::Instant(ms(view.at), view.key);
    view::readable_page(found, query.limit, query.after.is_none(), cursor)
}
