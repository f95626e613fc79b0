//! Fills in the templates of an action when an attempt begins.

use std::collections::BTreeMap;

use crate::definition::steps::{
    Action, AgentTask, Channel, ExecAction, HttpAction, Notification, WorkerAction,
};
use crate::expression::{ExpressionError, Scope, text, value};

type Filled<T> = Result<T, ExpressionError>;

impl Action {
    /// The action with its templates filled in. The engine itself fills in the actions that it
    /// decides without an attempt.
    pub fn filled(&self, scope: &Scope) -> Filled<Action> {
        Ok(match self {
            Action::Http(http) => Action::Http(http_filled(http, scope)?),
            Action::Exec(exec) => Action::Exec(exec_filled(exec, scope)?),
            Action::Worker(worker) => Action::Worker(WorkerAction {
                queue: worker.queue.clone(),
                input: worker.input.as_ref().map(|input| value(input, scope)).transpose()?,
            }),
            Action::AgentTask(task) => Action::AgentTask(AgentTask {
                message: text(&task.message, scope)?,
                ..task.clone()
            }),
            Action::Notification(told) => Action::Notification(told.filled(scope, scope)?),
            Action::Noop
            | Action::Script(_)
            | Action::Publish(_)
            | Action::WaitFor(_)
            | Action::Mutation
            | Action::Timer(_)
            | Action::HumanApproval(_)
            | Action::Gateway(_)
            | Action::SubProcess(_)
            | Action::ForEach(_) => self.clone(),
        })
    }
}

impl Notification {
    /// The notification with its templates filled in: its channels from one scope, and what it says
    /// from another one, because what people read may have less in it than an address.
    pub fn filled(&self, channels: &Scope, content: &Scope) -> Filled<Notification> {
        Ok(Notification {
            to: self.to.iter().map(|to| channel(to, channels)).collect::<Filled<_>>()?,
            subject: maybe(self.subject.as_deref(), content)?,
            message: text(&self.message, content)?,
            data: self.data.as_ref().map(|data| value(data, content)).transpose()?,
        })
    }
}

fn maybe(template: Option<&str>, scope: &Scope) -> Filled<Option<String>> {
    template.map(|template| text(template, scope)).transpose()
}

fn texts(templates: &BTreeMap<String, String>, scope: &Scope) -> Filled<BTreeMap<String, String>> {
    let filled = templates.iter().map(|(key, template)| Ok((key.clone(), text(template, scope)?)));
    filled.collect()
}

fn http_filled(http: &HttpAction, scope: &Scope) -> Filled<HttpAction> {
    Ok(HttpAction {
        url: text(&http.url, scope)?,
        headers: texts(&http.headers, scope)?,
        body: http.body.as_ref().map(|body| value(body, scope)).transpose()?,
        ..http.clone()
    })
}

fn exec_filled(exec: &ExecAction, scope: &Scope) -> Filled<ExecAction> {
    Ok(ExecAction {
        command: exec.command.iter().map(|part| text(part, scope)).collect::<Filled<_>>()?,
        env: texts(&exec.env, scope)?,
        cwd: maybe(exec.cwd.as_deref(), scope)?,
        stdin: maybe(exec.stdin.as_deref(), scope)?,
        ..exec.clone()
    })
}

fn channel(to: &Channel, scope: &Scope) -> Filled<Channel> {
    Ok(match to {
        Channel::Webhook(url) => Channel::Webhook(text(url, scope)?),
        Channel::Email(address) => Channel::Email(text(address, scope)?),
        Channel::Slack(url) => Channel::Slack(text(url, scope)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_text_is_filled_in_and_a_body_keeps_its_types() {
        let mut scope = Scope::default();
        scope.input(r#"{"id": 7, "tags": ["a"]}"#).unwrap();
        scope.secrets([("KEY", "s3cret")]);
        let action: Action = serde_json::from_value(json!({
            "type": "http", "method": "POST", "url": "https://example.com/{{ input.id }}",
            "headers": {"authorization": "Bearer {{ secrets.KEY }}"},
            "body": {"tags": "{{ input.tags }}", "n": "{{ input.payload.id }}"},
            "max_bytes": 1000,
        }))
        .unwrap();
        let Action::Http(http) = action.filled(&scope).unwrap() else { panic!("not http") };
        assert_eq!(http.url, "https://example.com/7");
        assert_eq!(http.headers["authorization"], "Bearer s3cret");
        assert_eq!(http.body.unwrap(), json!({"tags": ["a"], "n": 7}));
        let action: Action = serde_json::from_value(json!({
            "type": "exec", "command": ["echo", "{{ input.nobody }}"], "max_output": 10,
        }))
        .unwrap();
        let error = action.filled(&scope).unwrap_err().to_string();
        assert!(error.contains("nobody"), "{error}");
    }
}
