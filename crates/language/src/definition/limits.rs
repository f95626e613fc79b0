//! The limits of a definition, each with its reason. A definition that exceeds one is refused
//! before anything large is built from it.

use jiff::SignedDuration;

/// Longest text of a definition, in bytes. A thousand steps fit into it many times over.
pub const TEXT_BYTES: usize = 1 << 20;
/// Most values in a text. It bounds the memory that a megabyte of `[],[],[],` can take.
pub const VALUES: usize = 250_000;
/// Deepest nesting. Reading recurses this deep, and payloads that people write are far flatter.
pub const DEPTH: usize = 64;
/// Longest single text, in bytes. Larger data belongs behind a URL or into a file.
pub const SCALAR_BYTES: usize = 64 << 10;
/// Most steps. A larger process is better split into several.
pub const STEPS: usize = 1_000;
/// Most triggers. Each is a schedule with its own row and its own next time.
pub const TRIGGERS: usize = 1_000;
/// Most calendars in one definition. More than that should be shared and declared outside it.
pub const CALENDARS: usize = 100;
/// Most dependencies, counted over all steps. Deciding which step is ready looks at each of them.
pub const DEPENDENCIES: usize = 100_000;
/// Longest name or id, in characters. Names become parts of ids, labels and URLs.
pub const NAME_LENGTH: usize = 64;
/// Longest line for people, such as a step's `name`, in characters.
pub const TITLE_LENGTH: usize = 200;
/// Longest URL, in bytes. Servers commonly accept this much.
pub const URL_BYTES: usize = 8 << 10;
/// Most headers of a request, variables of a command, words of a command.
pub const ENTRIES: usize = 1_000;
/// Largest payload and largest output of a step, in bytes. It is stored with every run.
pub const PAYLOAD_BYTES: usize = 256 << 10;
/// Longest duration: ten years. Sums of a few of them are far from any overflow.
pub const DURATION: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);
/// Most attempts of a step. With the default delays, that is days of trying.
pub const ATTEMPTS: u64 = 100;
/// Most active runs of one workflow. Above that, the node's own limit decides anyway.
pub const CONCURRENCY: u64 = 10_000;
/// Most names in all conditions and templates together. Each is looked up when the text is read.
pub const REFERENCES: usize = 20_000;
/// Longest name of a queue or agent, in characters.
pub const QUEUE_LENGTH: usize = 200;
/// Most assignees of an approval.
pub const ASSIGNEES: usize = 100;
/// Most channels for one message. A mailing list reaches more people.
pub const CHANNELS: usize = 50;
/// Most actions of one deadline. Each is a wakeup of its own.
pub const DEADLINE_ACTIONS: usize = 50;
/// Most items that a `for_each` may list, and most that it works on.
pub const ITEMS: usize = 10_000;
/// Most outputs of a workflow.
pub const OUTPUTS: usize = 100;
/// Most redirects that a request follows.
pub const REDIRECTS: u64 = 10;
/// Most flaws that are reported at once. Nobody reads more, and finding the nearest name for a
/// suggestion is costly.
pub const FLAWS: usize = 100;

/// Most topics of a definition.
pub const TOPICS: usize = 100;
/// Most producers and consumers of a definition, together. They run one at a time.
pub const HANDLERS: usize = 100;
/// Most secrets that the scripts of a definition may read.
pub const SECRETS: usize = 100;
/// Most times that an event is returned before it is skipped. More would be a loop.
pub const EVENT_ATTEMPTS: u64 = 1_000;
/// Longest name of a topic, in characters.
pub const TOPIC_LENGTH: usize = 128;
/// Longest message id, in bytes. It is looked up with every publication.
pub const MESSAGE_ID_BYTES: usize = 512;
/// Most causes of an event.
pub const CAUSES: usize = 100;
/// Most events that one run publishes or reserves. They are written with one decision.
pub const EVENTS: usize = 10_000;

/// Checks that this can be the name of a topic; the error says why not.
pub fn check_topic_name(name: &str) -> Result<(), String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if begins && name.len() <= TOPIC_LENGTH && name.bytes().all(word) {
        return Ok(());
    }
    Err(format!(
        "a topic's name has letters, digits and _-., begins with a letter or digit, and has 1 to {TOPIC_LENGTH} characters"
    ))
}

/// Checks that an event may have this id, title and payload; the error says why not.
pub fn check_message(id: &str, title: Option<&str>, payload: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > MESSAGE_ID_BYTES || id.contains('\0') {
        return Err(format!("a message id has 1 to {MESSAGE_ID_BYTES} bytes, none of them 0"));
    }
    if title.is_some_and(|title| title.chars().count() > TITLE_LENGTH || title.contains('\0')) {
        return Err(format!("a title has at most {TITLE_LENGTH} characters, none of them 0"));
    }
    if payload.len() > PAYLOAD_BYTES {
        let bytes = payload.len();
        return Err(format!("the payload has {bytes} bytes, at most {PAYLOAD_BYTES} are kept"));
    }
    Ok(())
}

/// Largest output of a step, in bytes.
pub const OUTPUT_BYTES: usize = 256 << 10;

/// How often a handler's run is retried after transient failures.
pub const HANDLER_RETRIES: u32 = 5;
/// How often an event is returned by default before it is skipped as unprocessable.
pub const DEFAULT_EVENT_ATTEMPTS: u32 = 10;
