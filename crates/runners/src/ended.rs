//! The result of an attempt, and the codes of failures.

use serde_json::Value;

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    Succeeded {
        output: Value,
    },
    /// The work was not done, or its result does not count as a success.
    Failed {
        /// The kind of failure, for programs. See [`code`].
        code: &'static str,
        /// The cause and the remedy, for people.
        message: String,
        /// Whether a retry may succeed.
        retryable: bool,
        /// The partial result, if there is one.
        output: Option<Value>,
    },
    /// The attempt exceeded its timeout.
    TimedOut {
        /// What the attempt was doing, for people.
        message: String,
    },
    /// The attempt was cancelled.
    Cancelled {
        /// What the attempt was doing, for people.
        message: String,
    },
}

impl Ended {
    pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Ended {
        Ended::Failed { code, message: message.into(), retryable: true, output: None }
    }

    /// A failure that a retry would only repeat.
    pub(crate) fn for_good(code: &'static str, message: impl Into<String>) -> Ended {
        Ended::Failed { code, message: message.into(), retryable: false, output: None }
    }
}

/// The codes of failures, as programs see them.
pub mod code {
    /// Nodes do not perform steps of this type.
    pub const NOT_OURS: &str = "not_performed_here";
    /// The URL cannot be parsed, or is neither `http` nor `https`.
    pub const INVALID_URL: &str = "invalid_url";
    /// The HTTP method is not valid.
    pub const INVALID_METHOD: &str = "invalid_method";
    /// A header is not valid, or a definition may not set it.
    pub const INVALID_HEADER: &str = "invalid_header";
    /// The egress policy does not admit the address.
    pub const EGRESS_REFUSED: &str = "egress_refused";
    /// The host name did not resolve.
    pub const DNS: &str = "dns";
    /// No connection could be established.
    pub const CONNECT: &str = "connect";
    /// The connection broke before the response's headers were received.
    pub const REQUEST: &str = "request";
    /// The response's body ended early or could not be decompressed.
    pub const BODY: &str = "body";
    /// The response's status is not an expected one.
    pub const HTTP_STATUS: &str = "http_status";
    /// A redirect has no usable target, or leads from `https` to `http`.
    pub const REDIRECT_REFUSED: &str = "redirect_refused";
    /// There were more redirects than the action allows.
    pub const TOO_MANY_REDIRECTS: &str = "too_many_redirects";
    pub use language::definition::EXEC_NOT_ALLOWED;

    /// The command is not valid: it is empty, or a variable has no proper name.
    pub const INVALID_COMMAND: &str = "invalid_command";
    /// The command could not be started.
    pub const EXEC_START: &str = "exec_start";
    /// The node lost track of the command.
    pub const EXEC_WAIT: &str = "exec_wait";
    /// The command exited with a code other than 0.
    pub const EXIT_CODE: &str = "exit_code";
    /// A signal ended the command.
    pub const SIGNAL: &str = "signal";
    /// The attempt exceeded its timeout, and has an output to report beside that.
    pub const TIMEOUT: &str = "timeout";
    /// This node is not set up to send notifications.
    pub const NOTIFIER_MISSING: &str = "notifier_missing";
    /// This node has no secret to sign a webhook with.
    pub const WEBHOOK_KEY_MISSING: &str = "webhook_key_missing";
    /// This node has no mail server configured.
    pub const MAIL_NOT_SET_UP: &str = "mail_not_set_up";
    /// The text is not a mail address.
    pub const INVALID_ADDRESS: &str = "invalid_address";
    /// The mail server refused the message.
    pub const MAIL_REFUSED: &str = "mail_refused";
    /// The mail server could not be reached, or the connection broke.
    pub const MAIL: &str = "mail";
}
