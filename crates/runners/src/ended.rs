//! How an attempt ended.

use serde_json::Value;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The work was done.
    Succeeded {
        /// What it gave.
        output: Value,
    },
    /// The work was not done, or its result is not a success.
    Failed {
        /// What kind of failure, for programs: see [`code`].
        code: &'static str,
        /// What was wrong and what to do, for people.
        message: String,
        /// Whether another attempt may end differently.
        retryable: bool,
        /// What there is of a result.
        output: Option<Value>,
    },
    /// The time of the attempt was over.
    TimedOut {
        /// What was going on, for people.
        message: String,
    },
    /// Somebody asked for the end.
    Cancelled {
        /// What was going on, for people.
        message: String,
    },
}

impl Ended {
    pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Ended {
        Ended::Failed { code, message: message.into(), retryable: true, output: None }
    }

    /// A failure that is the same however often it is tried.
    pub(crate) fn for_good(code: &'static str, message: impl Into<String>) -> Ended {
        Ended::Failed { code, message: message.into(), retryable: false, output: None }
    }
}

/// The codes of failures.
pub mod code {
    /// Steps of this type are not performed by nodes.
    pub const NOT_OURS: &str = "not_performed_here";
    /// The URL cannot be read, or is neither `http` nor `https`.
    pub const INVALID_URL: &str = "invalid_url";
    /// The method cannot be sent.
    pub const INVALID_METHOD: &str = "invalid_method";
    /// A header cannot be sent, or is not the definition's to set.
    pub const INVALID_HEADER: &str = "invalid_header";
    /// The egress policy does not admit the address.
    pub const EGRESS_REFUSED: &str = "egress_refused";
    /// The name did not resolve.
    pub const DNS: &str = "dns";
    /// No connection came about.
    pub const CONNECT: &str = "connect";
    /// The connection broke before the answer's head was there.
    pub const REQUEST: &str = "request";
    /// The answer's body broke off or could not be unpacked.
    pub const BODY: &str = "body";
    /// The answer's status is not a success.
    pub const HTTP_STATUS: &str = "http_status";
    /// A redirect leads nowhere or from `https` to `http`.
    pub const REDIRECT_REFUSED: &str = "redirect_refused";
    /// More redirects than allowed.
    pub const TOO_MANY_REDIRECTS: &str = "too_many_redirects";
    pub use language::definition::EXEC_NOT_ALLOWED;

    /// The command cannot be what was meant: it is empty, or a variable has no proper name.
    pub const INVALID_COMMAND: &str = "invalid_command";
    /// The command could not be started.
    pub const EXEC_START: &str = "exec_start";
    /// The node lost sight of the command.
    pub const EXEC_WAIT: &str = "exec_wait";
    /// The command ended with a code other than 0.
    pub const EXIT_CODE: &str = "exit_code";
    /// The command was ended by a signal.
    pub const SIGNAL: &str = "signal";
    /// The time of the attempt was over, and there is something to say beside that.
    pub const TIMEOUT: &str = "timeout";
    /// This node tells nobody.
    pub const NOTIFIER_MISSING: &str = "notifier_missing";
    /// This node has no secret to sign a webhook with.
    pub const WEBHOOK_KEY_MISSING: &str = "webhook_key_missing";
    /// This node has no mail server.
    pub const MAIL_NOT_SET_UP: &str = "mail_not_set_up";
    /// The text is not an address for mail.
    pub const INVALID_ADDRESS: &str = "invalid_address";
    /// The mail server said no.
    pub const MAIL_REFUSED: &str = "mail_refused";
    /// The mail server could not be reached, or the conversation broke off.
    pub const MAIL: &str = "mail";
}
