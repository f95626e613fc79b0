//! The permission that each route needs. A route that is not listed here is denied.

use axum::http::Method;

use super::role::Permission;

/// What a route needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The route answers callers that nobody knows.
    Public,
    /// The route answers every caller with a token or a sign-in.
    Somebody,
    /// A caller with this permission.
    Permission(Permission),
    /// A signature, which the route checks; or a caller who may operate.
    Hook,
}

const PUBLIC: Need = Need::Public;
const READ: Need = Need::Permission(Permission::Read);
const OPERATE: Need = Need::Permission(Permission::Operate);
const APPROVE: Need = Need::Permission(Permission::Approve);
const DESIGN: Need = Need::Permission(Permission::Design);
const WORK: Need = Need::Permission(Permission::Work);
const ADMINISTER: Need = Need::Permission(Permission::Administer);

/// Every route. A rule for GET also applies to HEAD.
pub(crate) const RULES: &[(&str, &str, Need)] = &[
    // For health checks, and for programs that read the interface. These reveal nothing of the
    // stored data.
    ("GET", "/healthz", PUBLIC),
    ("GET", "/readyz", PUBLIC),
    ("GET", "/openapi.json", PUBLIC),
    ("GET", "/schema.json", PUBLIC),
    ("GET", "/punctual.d.ts", PUBLIC),
    ("GET", "/metrics", READ),
    // For every caller with a token or a sign-in.
    ("GET", "/api/v1/me", Need::Somebody),
    // What viewers may read.
    ("GET", "/api/v1/approvals", READ),
    ("GET", "/api/v1/calendars", READ),
    ("GET", "/api/v1/calendars/{id}", READ),
    ("POST", "/api/v1/calendars/{id}/add", READ),
    ("GET", "/api/v1/calendars/{id}/holidays", READ),
    ("GET", "/api/v1/calendars/{id}/ics", READ),
    ("GET", "/api/v1/calendars/{id}/is-working-day", READ),
    ("GET", "/api/v1/calendars/{id}/next-working-day", READ),
    ("GET", "/api/v1/calendars/{id}/working-days", READ),
    ("GET", "/api/v1/channels", READ),
    ("GET", "/api/v1/incidents", READ),
    ("GET", "/api/v1/nodes", READ),
    ("POST", "/api/v1/preview", READ),
    ("GET", "/api/v1/queues", READ),
    ("GET", "/api/v1/runs", READ),
    ("GET", "/api/v1/runs/{id}", READ),
    ("GET", "/api/v1/runs/{id}/explain", READ),
    ("GET", "/api/v1/runs/{id}/steps/{step}/output", READ),
    ("GET", "/api/v1/schedules", READ),
    ("GET", "/api/v1/schedules.ics", READ),
    ("GET", "/api/v1/schedules/{id}", READ),
    ("GET", "/api/v1/schedules/{id}/explain", READ),
    ("GET", "/api/v1/schedules/{id}/next", READ),
    ("GET", "/api/v1/schedules/{id}/occurrences", READ),
    ("GET", "/api/v1/stats", READ),
    ("GET", "/api/v1/stream", READ),
    ("GET", "/api/v1/topics", READ),
    ("GET", "/api/v1/topics/{topic}", READ),
    ("GET", "/api/v1/topics/{topic}/events", READ),
    ("GET", "/api/v1/topics/{topic}/events/{message_id}", READ),
    ("GET", "/api/v1/workflows", READ),
    ("GET", "/api/v1/workflows/{id}", READ),
    ("GET", "/api/v1/workflows/{id}/mutations", READ),
    ("GET", "/api/v1/workflows/{id}/versions", READ),
    ("GET", "/api/schedules", READ),
    ("GET", "/api/schedules/{id}", READ),
    // What operators may start, stop and change.
    ("POST", "/api/v1/runs/{id}/cancel", OPERATE),
    ("POST", "/api/v1/runs/{id}/resolve", OPERATE),
    ("POST", "/api/v1/runs/{id}/retry", OPERATE),
    ("POST", "/api/v1/schedules/batch-control", OPERATE),
    ("POST", "/api/v1/schedules/{id}/backfill", OPERATE),
    ("POST", "/api/v1/schedules/{id}/disable", OPERATE),
    ("POST", "/api/v1/schedules/{id}/enable", OPERATE),
    ("PUT", "/api/v1/schedules/{id}/occurrences/{nominal}", OPERATE),
    ("DELETE", "/api/v1/schedules/{id}/occurrences/{nominal}", OPERATE),
    ("POST", "/api/v1/schedules/{id}/pause", OPERATE),
    ("POST", "/api/v1/schedules/{id}/resume", OPERATE),
    ("POST", "/api/v1/schedules/{id}/revive", OPERATE),
    ("POST", "/api/v1/schedules/{id}/trigger", OPERATE),
    ("POST", "/api/v1/topics/{topic}/events", OPERATE),
    ("POST", "/api/v1/topics/{topic}/events/{message_id}/skip", OPERATE),
    ("POST", "/api/v1/workflows/{id}/pause", OPERATE),
    ("POST", "/api/v1/workflows/{id}/resume", OPERATE),
    ("POST", "/api/v1/workflows/{id}/runs", OPERATE),
    ("POST", "/api/schedules/{id}/disable", OPERATE),
    ("POST", "/api/schedules/{id}/enable", OPERATE),
    ("POST", "/api/schedules/{id}/trigger", OPERATE),
    // What approvers may decide.
    ("POST", "/api/v1/approvals/{run_id}/{step_id}/approve", APPROVE),
    ("POST", "/api/v1/approvals/{run_id}/{step_id}/reject", APPROVE),
    // What designers may declare.
    ("PUT", "/api/v1/calendars/{id}", DESIGN),
    ("POST", "/api/v1/channels/test", DESIGN),
    ("DELETE", "/api/v1/calendars/{id}", DESIGN),
    ("POST", "/api/v1/schedules", DESIGN),
    ("POST", "/api/v1/schedules/batch", DESIGN),
    ("POST", "/api/v1/schedules/batch-delete", DESIGN),
    ("PATCH", "/api/v1/schedules/{id}", DESIGN),
    ("DELETE", "/api/v1/schedules/{id}", DESIGN),
    ("POST", "/api/v1/workflows", DESIGN),
    ("POST", "/api/v1/workflows/validate", DESIGN),
    ("POST", "/api/v1/workflows/{id}/archive", DESIGN),
    ("POST", "/api/v1/workflows/{id}/publish", DESIGN),
    // Workers, and calls from outside.
    ("POST", "/api/v1/attempts/claim", WORK),
    ("POST", "/api/v1/attempts/{id}/complete", WORK),
    ("POST", "/api/v1/attempts/{id}/fail", WORK),
    ("POST", "/api/v1/attempts/{id}/heartbeat", WORK),
    ("POST", "/api/v1/hooks/{workflow}/{trigger}", Need::Hook),
    // The pages. When a form is sent, the API route that it calls checks its own permission.
    ("GET", "/assets/{hash}/{name}", PUBLIC),
    ("GET", "/sign-in", PUBLIC),
    ("POST", "/sign-in", PUBLIC),
    ("POST", "/sign-out", Need::Somebody),
    ("POST", "/forms/{*path}", Need::Somebody),
    ("GET", "/live", READ),
    ("GET", "/", READ),
    ("GET", "/schedules", READ),
    ("GET", "/schedules/month", READ),
    ("GET", "/schedules/new", DESIGN),
    ("POST", "/schedules/new", DESIGN),
    ("GET", "/schedules/preview", READ),
    ("GET", "/schedules/{id}", READ),
    ("GET", "/schedules/{id}/edit", DESIGN),
    ("POST", "/schedules/{id}/edit", DESIGN),
    ("GET", "/schedules/{id}/edit/preview", READ),
    ("GET", "/schedules/{id}/month", READ),
    ("GET", "/schedules/{id}/year", READ),
    ("GET", "/runs", READ),
    ("GET", "/runs/{id}", READ),
    ("GET", "/runs/{id}/steps/{step}", READ),
    ("GET", "/approvals", READ),
    ("GET", "/workflows", READ),
    ("GET", "/workflows/new", DESIGN),
    ("POST", "/workflows/check", DESIGN),
    ("GET", "/workflows/{id}", READ),
    ("GET", "/workflows/{id}/source", READ),
    ("GET", "/workflows/{id}/edit", DESIGN),
    ("GET", "/workflows/{id}/versions", READ),
    ("GET", "/workflows/{id}/run", OPERATE),
    ("GET", "/topics", READ),
    ("GET", "/topics/{topic}", READ),
    ("GET", "/calendars", READ),
    ("GET", "/calendars/new", DESIGN),
    ("GET", "/calendars/{id}", READ),
    ("GET", "/calendars/{id}/edit", DESIGN),
    ("GET", "/incidents", READ),
    ("GET", "/channels", READ),
    ("GET", "/nodes", READ),
    ("GET", "/settings", Need::Somebody),
    ("POST", "/settings", Need::Somebody),
    ("GET", "/docs", READ),
    ("GET", "/docs/{operation}", READ),
    ("POST", "/docs/{operation}", Need::Somebody),
    ("GET", "/tokens", ADMINISTER),
    ("POST", "/tokens", ADMINISTER),
    ("GET", "/audit", ADMINISTER),
    // What only administrators may see and change.
    ("GET", "/api/v1/audit", ADMINISTER),
    ("GET", "/api/v1/tokens", ADMINISTER),
    ("POST", "/api/v1/tokens", ADMINISTER),
    ("POST", "/api/v1/tokens/{id}/revoke", ADMINISTER),
];

/// What the table says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruled {
    Needs(Need),
    /// The route has other methods; the router answers 405 to a known caller.
    OtherMethod,
    /// The table does not list the route.
    Unknown,
}

/// What a request to a route needs.
pub(crate) fn ruled(method: &Method, route: &str) -> Ruled {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let mut of_route = RULES.iter().filter(|(_, known, _)| *known == route).peekable();
    if of_route.peek().is_none() {
        return Ruled::Unknown;
    }
    let rule = of_route.find(|(known, _, _)| *known == method);
    rule.map_or(Ruled::OtherMethod, |(_, _, need)| Ruled::Needs(*need))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_has_one_rule_and_every_rule_a_route() {
        let (_, document) = crate::http::routes().split_for_parts();
        let document: serde_json::Value = serde_json::to_value(&document).unwrap();
        let mut routes = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                routes.insert((method.to_uppercase(), path.clone()));
            }
        }
        assert!(routes.len() > 70, "{}", routes.len());
        // Pages are not part of the OpenAPI document.
        let is_documented =
            |path: &str| path.starts_with("/api/") || path.ends_with("z") || path.contains(".json");
        let rules: Vec<(String, String)> = RULES
            .iter()
            .filter(|(_, path, _)| is_documented(path) || routes.iter().any(|(_, of)| of == path))
            .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
            .collect();
        let known: BTreeSet<(String, String)> = rules.iter().cloned().collect();
        assert_eq!(known.len(), rules.len(), "a rule is there twice");
        let missing: Vec<_> = routes.symmetric_difference(&known).collect();
        assert!(missing.is_empty(), "a route without a rule, or the other way round: {missing:?}");
    }

    #[test]
    fn changes_need_more_than_reading() {
        let reading = ["/api/v1/preview", "/api/v1/calendars/{id}/add"];
        let is_page = |path: &str| !path.starts_with("/api/");
        for (method, path, need) in RULES {
            if *method != "GET" && !reading.contains(path) && !is_page(path) {
                assert!(!matches!(*need, PUBLIC | READ | Need::Somebody), "{method} {path}");
            }
        }
    }

    #[test]
    fn what_is_not_ruled_is_denied() {
        for (method, route, expected) in [
            (Method::GET, "/healthz", Ruled::Needs(PUBLIC)),
            (Method::HEAD, "/api/v1/runs", Ruled::Needs(READ)),
            (Method::GET, "/api/v1/runs/{id}/cancel", Ruled::OtherMethod),
            (Method::OPTIONS, "/api/v1/runs", Ruled::OtherMethod),
            (Method::GET, "/healthz/", Ruled::Unknown),
            (Method::GET, "", Ruled::Unknown),
        ] {
            assert_eq!(ruled(&method, route), expected, "{method} {route}");
        }
    }
}
