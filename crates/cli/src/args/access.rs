//! `punctual token …` and `punctual audit`.

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual token …`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual token create`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown this once
    #[command(after_help = "\
Roles: viewer sees; operator sees, starts, pauses, cancels; approver sees and decides what people are
asked; designer sees and declares; worker claims attempts; admin does everything. The first token that is
ever made needs the role admin: from then on nobody may do anything without one.
Examples:
  punctual token create ada --role admin
  punctual token create ci --role designer --role operator --expires 90d
  punctual token create mailer --role worker --queue mail")]
    Create {
        /// What its holder is called in the audit log
        name: String,
        /// What it is for; may be given several times
        #[arg(long, required = true, value_name = "ROLE")]
        role: Vec<String>,
        /// For the role worker: a queue that it claims from, and no other; may be given several times
        #[arg(long, value_name = "QUEUE")]
        queue: Vec<String>,
        /// How long it is good, such as 90d; for ever if left out
        #[arg(long, value_name = "DURATION")]
        expires: Option<String>,
    },
    /// Every token that was ever made
    List,
    /// A token is good no more: its holders are signed out, and what they have open ends
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
    /// Only what this one has done
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// From here on, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// How many, and from where
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
}
