//! Parts of a path.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use engine::ScheduleId;

use super::problem::Problem;

/// The part called `id`, decoded. If it cannot be decoded, the response is 404.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathId(pub String);

/// The part called `id`, as the id of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulePath(pub ScheduleId);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathId, Problem> {
        part(parts, state, "id").await.map(PathId)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SchedulePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<SchedulePath, Problem> {
        let text = part(parts, state, "id").await?;
        let id = text.parse().map_err(|()| Problem::not_found("schedule", &text))?;
        Ok(SchedulePath(id))
    }
}

/// The part of the path with this name.
pub async fn part<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<String, Problem> {
    let unknown = Problem::not_found("route", parts.uri.path());
    let Ok(params) = RawPathParams::from_request_parts(parts, state).await else {
        return Err(unknown);
    };
    let found = params.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.to_owned()).ok_or(unknown)
}
