//! Arguments of `punctual token …` and `punctual audit`.

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual token …`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual token create`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token; its secret is shown only this once
    #[command(after_help = "\
Roles: viewer sees; operator sees, starts, pauses, cancels; approver sees and decides what people are
asked; designer sees and declares; worker claims attempts; admin does everything. The first token that is
ever made needs the role admin: from then on nobody may do anything without one.
Examples:
  punctual token create ada --role admin
  punctual token create ci --role designer --role operator --expires 90d
  punctual token create mailer --role worker --queue mail")]
    Create {
        /// The name of its holder in the audit log
        name: String,
        /// A role of the token; may be given several times
        #[arg(long, required = true, value_name = "ROLE")]
        role: Vec<String>,
        /// For the role worker: a queue from which the token may claim attempts; may be given
        /// several times
        #[arg(long, value_name = "QUEUE")]
        queue: Vec<String>,
        /// How long the token is valid, such as 90d; for ever if left out
        #[arg(long, value_name = "DURATION")]
        expires: Option<String>,
    },
    /// List all tokens, including revoked and expired ones
    List,
    /// Revoke a token: its holders are signed out, and their open connections end
    Revoke {
        /// Id or name
        token: String,
    },
}

/// `punctual audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual audit --who ada --limit 20
  punctual audit --since 2026-03-01T00:00:00Z --json")]
pub(crate) struct AuditArgs {
    /// Only changes made under this name
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// Only changes from this time on, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Page size and cursor
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
