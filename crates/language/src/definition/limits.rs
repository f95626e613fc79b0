//! The limits of a definition, each with its reason. What is over them is refused before anything
//! large is built from it.

use jiff::SignedDuration;

/// Longest text of a definition, in bytes: a thousand steps fit into it many times over.
pub const TEXT_BYTES: usize = 1 << 20;
/// Most values in a text. It bounds the memory that a megabyte of `[],[],[],` can take.
pub const VALUES: usize = 250_000;
/// Deepest nesting: reading follows it by recursion, and payloads of people are far flatter.
pub const DEPTH: usize = 64;
/// Longest single text, in bytes: larger data belongs behind a URL or into a file.
pub const SCALAR_BYTES: usize = 64 << 10;
/// Most steps: a larger process is better cut into several.
pub const STEPS: usize = 1_000;
/// Most triggers: each is a schedule with its own row and its own next time.
pub const TRIGGERS: usize = 1_000;
/// Most calendars in one definition: more are shared, and declared outside of it.
pub const CALENDARS: usize = 100;
/// Most dependencies, counted over all steps: deciding what is ready looks at each.
pub const DEPENDENCIES: usize = 100_000;
/// Longest name or id, in characters: they become parts of ids, labels and URLs.
pub const NAME_LENGTH: usize = 64;
/// Longest line for people, such as a step's `name`, in characters.
pub const TITLE_LENGTH: usize = 200;
/// Longest URL, in bytes: what servers commonly take.
pub const URL_BYTES: usize = 8 << 10;
/// Most headers of a request, variables of a command, words of a command.
pub const ENTRIES: usize = 1_000;
/// Largest payload and largest output of a step, in bytes: it is stored with every run.
pub const PAYLOAD_BYTES: usize = 256 << 10;
/// Longest duration: ten years. Sums of a few of them are far from any overflow.
pub const DURATION: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);
/// Most attempts of a step: with the default delays, days of trying.
pub const ATTEMPTS: u64 = 100;
/// Most runs of one workflow at a time: above it the node's own ceiling decides anyway.
pub const CONCURRENCY: u64 = 10_000;
/// Most names in all conditions and templates together: each is looked up when the text is read.
pub const REFERENCES: usize = 20_000;
/// Longest name of a queue or agent, in characters.
pub const QUEUE_LENGTH: usize = 200;
/// Most people who may decide.
pub const ASSIGNEES: usize = 100;
/// Most channels that one message goes to: to reach more people is what a mailing list is for.
pub const CHANNELS: usize = 50;
/// Most actions around one deadline: each is a wakeup of its own.
pub const DEADLINE_ACTIONS: usize = 50;
/// Most items of a `for_each` that are written out, and most that it works on.
pub const ITEMS: usize = 10_000;
/// Most outputs of a workflow.
pub const OUTPUTS: usize = 100;
/// Most redirects that a request follows.
pub const REDIRECTS: u64 = 10;
/// Most flaws told at once: nobody reads more, and finding the nearest name has a price.
pub const FLAWS: usize = 100;

/// Most topics of a definition.
pub const TOPICS: usize = 100;
/// Most producers and consumers of a definition, together: they take turns.
pub const HANDLERS: usize = 100;
/// Most secrets that scripts of a definition may ask for.
pub const SECRETS: usize = 100;
/// Most times that an event is given back before it is skipped: more would be a loop.
pub const EVENT_ATTEMPTS: u64 = 1_000;
/// Longest name of a topic, in characters.
pub const TOPIC_LENGTH: usize = 128;
/// Longest id of a message, in bytes: it is looked up with every publish.
pub const MESSAGE_ID_BYTES: usize = 512;
/// Most causes of an event.
pub const CAUSES: usize = 100;
/// Most events that one run publishes or reserves: they are written with one decision.
pub const EVENTS: usize = 10_000;

/// Whether this can be the name of a topic; if not, why.
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

/// Whether an event may say this; if not, why.
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

/// Bytes of a step's output.
pub const OUTPUT_BYTES: usize = 256 << 10;

/// Runs of a handler that failed in passing are tried again this often.
pub const HANDLER_RETRIES: u32 = 5;
/// An event is given back this often before it counts as one that nobody can work on.
pub const DEFAULT_EVENT_ATTEMPTS: u32 = 10;
