//! The result of an attempt, and the kinds of failures.

use language::definition::EXEC_NOT_ALLOWED;
use serde_json::Value;

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    Succeeded {
        output: Value,
    },
    /// The work was not done, or its result does not count as a success.
    Failed {
        /// The kind of failure, for programs.
        code: Code,
        /// The cause and the remedy, for people.
        message: String,
        /// Whether a retry may succeed.
        retryable: bool,
        /// The partial result, if there is one.
        output: Option<Value>,
    },
    /// The attempt exceeded its timeout.
    TimedOut {
        /// The activity of the attempt, for people.
        message: String,
    },
    /// The attempt was cancelled.
    Cancelled {
        /// The activity of the attempt, for people.
        message: String,
    },
}

impl Ended {
    pub(crate) fn failed(code: Code, message: impl Into<String>) -> Ended {
        Ended::Failed { code, message: message.into(), retryable: true, output: None }
    }

    /// A failure that a retry would only repeat.
    pub(crate) fn for_good(code: Code, message: impl Into<String>) -> Ended {
        Ended::Failed { code, message: message.into(), retryable: false, output: None }
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nodes do not perform steps of this type.
    NotOurs,
    /// The URL cannot be parsed, or is neither `http` nor `https`.
    InvalidUrl,
    /// The HTTP method is not valid.
    InvalidMethod,
    /// A header is not valid, or a definition may not set it.
    InvalidHeader,
    /// The egress policy does not admit the address.
    EgressRefused,
    /// The host name did not resolve.
    Dns,
    /// No connection could be established.
    Connect,
    /// The connection broke before the response's headers were received.
    Request,
    /// The response's body ended early or could not be decompressed.
    Body,
    /// The response's status is not an expected one.
    HttpStatus,
    /// A redirect has no usable target, or leads from `https` to `http`.
    RedirectRefused,
    /// There were more redirects than the action allows.
    TooManyRedirects,
    /// This node may not run the command.
    ExecNotAllowed,
    /// The command is not valid: it is empty, or a variable has no proper name.
    InvalidCommand,
    /// The command could not be started.
    ExecStart,
    /// The node lost track of the command.
    ExecWait,
    /// The command exited with a code other than 0.
    ExitCode,
    /// A signal ended the command.
    Signal,
    /// The attempt exceeded its timeout, and has an output to report beside that.
    Timeout,
    /// This node is not set up to send notifications.
    NotifierMissing,
    /// This node has no secret to sign a webhook with.
    WebhookKeyMissing,
    /// This node has no mail server configured.
    MailNotSetUp,
    /// The text is not a mail address.
    InvalidAddress,
    /// The mail server refused the message.
    MailRefused,
    /// The mail server could not be reached, or the connection broke.
    Mail,
}

impl Code {
    /// The code as programs see it.
    pub fn name(self) -> &'static str {
        match self {
            Code::NotOurs => "not_performed_here",
            Code::InvalidUrl => "invalid_url",
            Code::InvalidMethod => "invalid_method",
            Code::InvalidHeader => "invalid_header",
            Code::EgressRefused => "egress_refused",
            Code::Dns => "dns",
            Code::Connect => "connect",
            Code::Request => "request",
            Code::Body => "body",
            Code::HttpStatus => "http_status",
            Code::RedirectRefused => "redirect_refused",
            Code::TooManyRedirects => "too_many_redirects",
            Code::ExecNotAllowed => EXEC_NOT_ALLOWED,
            Code::InvalidCommand => "invalid_command",
            Code::ExecStart => "exec_start",
            Code::ExecWait => "exec_wait",
            Code::ExitCode => "exit_code",
            Code::Signal => "signal",
            Code::Timeout => "timeout",
            Code::NotifierMissing => "notifier_missing",
            Code::WebhookKeyMissing => "webhook_key_missing",
            Code::MailNotSetUp => "mail_not_set_up",
            Code::InvalidAddress => "invalid_address",
            Code::MailRefused => "mail_refused",
            Code::Mail => "mail",
        }
    }
}
