//! Charts and graphs as text: SVG and tables that a page embeds unchanged.
//!
//! The crate is pure: no clock, no files, no script. It contains no text about what it draws beyond
//! the names and classes it is given. All input is escaped. A strict content security policy is
//! enough: there are no `style` attributes, no scripts and no `foreignObject`.
//!
//! Every drawing has a title and a sentence that describes it, every mark has a title, and marks
//! may be links. Drawings are as wide as their page. Where the page is too narrow, they scroll
//! sideways in a frame of their own while names stay visible: the graph has its own width, a
//! [`gantt`] and a [`timeline`] need 420 pixels beside their names, a [`series`] 260. Letters keep
//! their size.
//!
//! # Colours
//!
//! [`STYLE`] contains no colours. It uses the custom properties of the page: `--ok`, `--bad`,
//! `--warn`, `--run`, `--wait`, `--idle`, `--line`, `--text`, `--muted`, `--surface`, `--accent`. A
//! mark has the colour of its property `--mark`, which the class for its state sets:
//!
//! | class | colour |
//! |---|---|
//! | `is-ok`, `is-bad`, `is-warn`, `is-run`, `is-wait`, `is-idle` | the property of that name |
//! | `is-plain` | `--line`, for an unknown state |
//!
//! A page with other classes only has to give each of them a `--mark`: `.is-failed { --mark:
//! var(--bad) }`.
//!
//! # Classes
//!
//! | class | what |
//! |---|---|
//! | `drawing` | around everything; all style rules are below it |
//! | `drawing-graph`, `drawing-gantt`, `drawing-timeline`, `drawing-series`, `drawing-bar`, `drawing-meter`, `drawing-month`, `drawing-year` | which drawing |
//! | `drawing-empty`, `drawing-note` | a sentence if there is nothing to draw; a remark below |
//! | `drawing-columns`, `drawing-names`, `drawing-plot` | names that stay visible, and the part that scrolls |
//! | `drawing-legend`, `swatch`, `swatch-median`, `swatch-most` | what colours and lines mean |
//! | `drawing-unseen` | text for screen readers |
//! | `node`, `node-name`, `node-kind` | a box of the graph |
//! | `edge`, `edge-back`, `edge-label` | a line of the graph |
//! | `axis`, `axis-line`, `axis-label`, `axis-context` | scales |
//! | `row-name`, `row-below`, `row-band` | names of rows and lanes, and stripes behind rows |
//! | `bar`, `bar-open`, `bar-length` | a bar of the gantt, one that has not ended, and its length |
//! | `flag`, `flag-now` | a deadline; now |
//! | `bucket`, `stack`, `lane-line`, `mark`, `mark-coming` | the timeline |
//! | `dot`, `series-median`, `series-most` | the series |
//! | `deadline`, `track`, `fill`, `warning`, `due`, `now`, `meter`, `meter-numbers` | small bars |
//! | `days`, `week`, `day-outside`, `day-marked`, `day-title`, `day-marks`, `day-more`, `day-count` | tables of days |
//! | `day-working`, `day-weekend`, `day-holiday`, `day-today` | kinds of days, set by the caller |

mod axis;
pub mod bar;
pub mod days;
mod frame;
pub mod gantt;
pub mod graph;
mod layers;
pub mod series;
mod text;
pub mod timeline;

pub use axis::Wall;

/// The stylesheet of all drawings, without a colour of its own.
pub const STYLE: &str = include_str!("drawing.css");
