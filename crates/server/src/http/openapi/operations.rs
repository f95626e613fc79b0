//! Adds to every operation what request handlers do not declare: an id, the access it needs (from
//! the table in `access/rules.rs`), the problems that any request can meet, and the headers that go
//! with them.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::fields::without_null;
use crate::http::access::{FORM_KEY, Need, Permission, Role, Ruled, SIGN_IN, ruled};

const PROBLEM: &str = "application/problem+json";
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// Completes every operation, and declares the security schemes.
pub(super) fn complete(document: &mut Value) {
    document["components"]["securitySchemes"] = security_schemes();
    document["servers"] = json!([{ "url": "/", "description": "This node" }]);
    let paths = document["paths"].as_object_mut();
    for (path, item) in paths.into_iter().flatten() {
        for method in METHODS {
            let operation = item.get_mut(method).and_then(Value::as_object_mut);
            let Some(fields) = operation else { continue };
            Operation { path, method, fields }.complete();
        }
    }
}

fn security_schemes() -> Value {
    json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token, as `Authorization: Bearer TOKEN`. A node on which nobody has made \
                tokens listens on loopback only, and needs none.",
        },
        "session": {
            "type": "apiKey", "in": "cookie", "name": SIGN_IN,
            "description": "The cookie of somebody who has signed in on the pages.",
        },
        "form_key": {
            "type": "apiKey", "in": "header", "name": "X-Form-Key",
            "description": "The key that pages send with each change, beside the cookie.",
        },
        "webhook_signature": {
            "type": "apiKey", "in": "header", "name": "webhook-signature",
            "description": "A signature with the trigger's secret, as Standard Webhooks says, beside \
                `webhook-id` and `webhook-timestamp`.",
        },
    })
}

/// One operation of the document.
struct Operation<'a> {
    path: &'a str,
    method: &'static str,
    fields: &'a mut Map<String, Value>,
}

impl Operation<'_> {
    fn complete(mut self) {
        let words = self.path.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let id = format!("{}_{}", self.method, words.join("_"));
        self.fields.insert("operationId".to_owned(), json!(id));
        self.secure();
        self.take_body();
        self.describe_responses();
        self.add_problems();
        self.add_headers();
    }

    fn is_api(&self) -> bool {
        self.path.starts_with("/api/")
    }

    fn need(&self) -> Need {
        let method = Method::from_bytes(self.method.to_ascii_uppercase().as_bytes());
        match method.map(|method| ruled(&method, self.path)) {
            Ok(Ruled::Needs(need)) => need,
            // A test checks that every route has a rule.
            _ => Need::Permission(Permission::Administer),
        }
    }

    /// Declares how to authenticate. A cookie is enough to read; a change also needs the form key.
    fn secure(&mut self) {
        let session = match self.method {
            "get" => json!({ "session": [] }),
            _ => json!({ "session": [], "form_key": [] }),
        };
        let need = self.need();
        let security = match need {
            Need::Public => json!([]),
            Need::Hook => json!([{ "webhook_signature": [] }, { "token": [] }, session]),
            Need::Somebody | Need::Permission(_) => json!([{ "token": [] }, session]),
        };
        self.fields.insert("security".to_owned(), security);
        if let Need::Permission(permission) = need {
            self.fields.insert("x-permission".to_owned(), json!(permission.name()));
        }
    }

    /// Declares the idempotency key and the body of a POST, if only an empty one.
    fn take_body(&mut self) {
        if self.method == "post" && !self.fields.contains_key("requestBody") {
            let schema = json!({ "$ref": "#/components/schemas/Nothing" });
            let body = json!({
                "description": "Nothing, or an empty object",
                "required": false,
                "content": { "application/json": { "schema": schema } },
            });
            self.fields.insert("requestBody".to_owned(), body);
        }
        if let Some(body) = self.fields.get_mut("requestBody") {
            make_optional(body);
        }
        // Tokens are made without an idempotency key: a repeated response would contain the secret.
        if self.method != "post" || self.path == "/api/v1/tokens" {
            return;
        }
        let parameters = self.fields.entry("parameters").or_insert_with(|| json!([]));
        let Some(parameters) = parameters.as_array_mut() else { return };
        parameters.retain(|parameter| parameter["name"] != "Idempotency-Key");
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Asking twice with the same key does once",
            "required": false,
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        }));
    }

    fn responses(&mut self) -> &mut Map<String, Value> {
        let responses = self.fields.entry("responses").or_insert_with(|| json!({}));
        if !responses.is_object() {
            *responses = json!({});
        }
        responses.as_object_mut().unwrap_or_else(|| unreachable!("it is an object"))
    }

    /// Adds what request handlers leave out: descriptions of statuses, and the content type of
    /// problems.
    fn describe_responses(&mut self) {
        for (status, response) in self.responses() {
            let said = response.get("description").and_then(Value::as_str);
            if said.unwrap_or_default().is_empty() {
                response["description"] = json!(words(status));
            }
            let content = response.get_mut("content").and_then(Value::as_object_mut);
            let Some(content) = content else { continue };
            let is_problem = content
                .get("application/json")
                .is_some_and(|content| content["schema"]["$ref"] == "#/components/schemas/Problem");
            if is_problem && let Some(problem) = content.remove("application/json") {
                content.insert(PROBLEM.to_owned(), problem);
            }
        }
    }

    /// Adds the problems that any request can meet.
    fn add_problems(&mut self) {
        let mut problems = vec![("500", String::new()), ("503", String::new())];
        let need = self.need();
        if need != Need::Public || self.is_api() {
            problems.push(("400", String::new()));
            problems.push(("401", String::new()));
            problems.push(("429", String::new()));
            problems.push(("403", forbidden(need)));
        }
        if !matches!(self.path, "/healthz" | "/readyz") {
            problems.push(("421", String::new()));
        }
        let reads = matches!(need, Need::Public | Need::Permission(Permission::Read));
        if self.method != "get" && !reads {
            problems.push(("409", String::new()));
        }
        if self.path.contains('{') {
            problems.push(("404", String::new()));
        }
        if self.fields.contains_key("requestBody") {
            problems.extend(["408", "413", "415", "422"].map(|status| (status, String::new())));
        }
        for (status, description) in problems {
            let said = if description.is_empty() { words(status).to_owned() } else { description };
            self.responses().entry(status).or_insert_with(|| {
                let schema = json!({ "$ref": "#/components/schemas/Problem" });
                json!({ "description": said, "content": { PROBLEM: { "schema": schema } } })
            });
        }
    }

    fn add_headers(&mut self) {
        let is_post = self.method == "post";
        for (status, response) in self.responses() {
            let header = |description: &str, schema: Value| json!({ "description": description, "schema": schema });
            let text = || json!({ "type": "string" });
            let mut add = |name: &str, header: Value| response["headers"][name] = header;
            match status.as_str() {
                "401" => add("WWW-Authenticate", header("How to show who one is", text())),
                "429" | "503" => {
                    let seconds = json!({ "type": "integer", "minimum": 0 });
                    add("Retry-After", header("After how many seconds to ask again", seconds));
                }
                "201" => {
                    add("Location", header("The path of what was created, if it has one", text()))
                }
                _ => {}
            }
            if is_post && status.starts_with('2') {
                let replayed = json!({ "type": "string", "enum": ["true"] });
                let said = "The answer is to an earlier request with the same Idempotency-Key";
                add("Idempotency-Replayed", header(said, replayed));
            }
        }
    }
}

/// Makes a body optional instead of `null`.
fn make_optional(body: &mut Value) {
    let kinds = body.get_mut("content").and_then(Value::as_object_mut);
    let schemas = kinds.into_iter().flatten().filter_map(|(_, kind)| kind.get_mut("schema"));
    let was_optional = schemas.map(without_null).fold(false, |was, is| was | is);
    if was_optional {
        body["required"] = json!(false);
    }
}

fn forbidden(need: Need) -> String {
    let permission = match need {
        Need::Permission(permission) => permission,
        Need::Hook => Permission::Operate,
        Need::Public | Need::Somebody => return words("403").to_owned(),
    };
    let roles: Vec<&str> =
        Role::ALL.into_iter().filter(|role| role.allows(permission)).map(Role::name).collect();
    format!("It needs the permission {}: role {}", permission.name(), roles.join(" or "))
}

/// The description of a status that a route does not describe.
fn words(status: &str) -> &'static str {
    match status {
        "200" => "It is done, or what was asked for",
        "201" => "It was created",
        "202" => "It was taken, and is done later",
        "204" => "It is done; there is nothing to say",
        "400" => "It cannot be read, has an unknown parameter, or is not possible in this status",
        "401" => "Nobody is known: the token is missing or wrong",
        "403" => "Not for this caller",
        "404" => "There is no such thing",
        "408" => "The body did not arrive in time",
        "409" => "It does not fit what is there",
        "413" => "The body, or a part of it, is too large",
        "415" => "The body has another content type than is taken",
        "421" => "Without tokens a node answers to loopback names only",
        "422" => "It can be read, and is wrong: see `errors`",
        "429" => "Too many wrong tokens came from this address",
        "500" => "A mistake in Punctual",
        "503" => "Not available now: try again",
        _ => "See the status",
    }
}

/// The document writes the header's name in mixed case.
const _: () = assert!(FORM_KEY.len() == "X-Form-Key".len());
