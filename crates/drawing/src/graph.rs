//! A graph, such as that of a workflow's steps: boxes in layers, lines down, and lines back at the
//! side.
//!
//! Letters keep their size, so a graph has its own width. Where the page is narrower, the graph
//! scrolls inside its frame.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use maud::{Markup, html};

use crate::frame;
use crate::layers::{self, Course, Link, Placed, Point, Route, Size};
use crate::text::{NAME_SIZE, NOTE_SIZE, Num, counted, cut, width};

/// A graph to draw.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The heading: a sentence or a name.
    pub title: String,
    /// The boxes, in the order of their declaration.
    pub nodes: Vec<Node>,
    /// The lines. A line that refers to a missing node is left out, and the drawing says so.
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The id that edges refer to. Of two nodes with the same id, edges refer to the first.
    pub id: String,
    /// The name for people.
    pub label: String,
    /// The kind of node, in small letters below the name.
    pub kind: String,
    /// A class for its state, such as `is-ok`.
    pub state: Option<String>,
    /// The target of its link.
    pub href: Option<String>,
    /// A remark, shown beside the kind.
    pub note: Option<String>,
}

/// A line from one box to another.
#[derive(Clone, Debug, Default)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// The text on the line. Edges with the same label and ends are drawn once.
    pub label: Option<String>,
    /// Whether the edge leads back on purpose. Other cycles are detected.
    pub is_back: bool,
    /// A class for its state, such as `is-ok`.
    pub state: Option<String>,
}

/// Names are bold, which is wider.
const BOLD_SIZE: f64 = NAME_SIZE * 1.13;
const NARROWEST: f64 = 96.0;
const WIDEST_TEXT: f64 = 190.0;
const WIDEST_LABEL: f64 = 150.0;
const BOX_HEIGHT: f64 = 46.0;
const LABEL_HEIGHT: f64 = 16.0;
const PADDING: f64 = 14.0;
/// With more lines than this, only the boxes describe where their lines come from: a title for each
/// line would be larger than the lines themselves.
const TOLD_LINES: usize = 100;
/// The margin around everything, for the width of lines.
const MARGIN: f64 = 6.0;

impl Graph {
    pub fn draw(&self) -> Markup {
        if self.nodes.is_empty() {
            return frame::empty("graph", &self.title, "There is nothing to draw.");
        }
        let (known, left_out) = self.known_edges();
        let sizes: Vec<Size> = self.nodes.iter().map(Node::size).collect();
        let links: Vec<Link> = known.iter().map(|(from, to, edge)| edge.link(*from, *to)).collect();
        let mut placed = layers::place(&sizes, &links);
        placed.round();
        let (wide, high) = (placed.size.width + 2.0 * MARGIN, placed.size.height + 2.0 * MARGIN);
        let description = self.description(known.len(), left_out);
        frame::scrolled(
            "graph",
            &self.title,
            html! {
                svg role="list" width=(Num(wide)) height=(Num(high))
                    viewBox={ "0 0 " (Num(wide)) " " (Num(high)) } {
                    title { (self.title) }
                    desc { (description) }
                    g transform={ "translate(" (Num(MARGIN)) " " (Num(MARGIN)) ")" } {
                        g aria-hidden="true" {
                            @for ((from, to, edge), route) in known.iter().zip(&placed.routes) {
                                @let ends = (&self.nodes[*from], &self.nodes[*to]);
                                (edge.draw(route, (known.len() <= TOLD_LINES).then_some(ends)))
                            }
                        }
                        @for (number, node) in self.nodes.iter().enumerate() {
                            @let next = self.next(number, &known);
                            (node.draw(sizes[number], placed.corners[number], &next))
                        }
                        // Labels are drawn last, because a line may pass behind the label of
                        // another.
                        g aria-hidden="true" { (labels(&known, &placed)) }
                    }
                }
                @if left_out > 0 { p class="drawing-note" { (left_out_sentence(left_out)) } }
            },
        )
    }

    /// The edges with the indexes of their nodes, each once, and how many edges refer to a missing
    /// node.
    fn known_edges(&self) -> (Vec<(usize, usize, &Edge)>, usize) {
        let mut numbers = HashMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            numbers.entry(node.id.as_str()).or_insert(number);
        }
        let mut seen = HashSet::new();
        let mut known = Vec::new();
        let mut left_out = 0;
        for edge in &self.edges {
            let ends = (numbers.get(edge.from.as_str()), numbers.get(edge.to.as_str()));
            let (Some(&from), Some(&to)) = ends else {
                left_out += 1;
                continue;
            };
            if seen.insert((from, to, edge.label.as_deref())) {
                known.push((from, to, edge));
            }
        }
        (known, left_out)
    }

    fn next(&self, number: usize, known: &[(usize, usize, &Edge)]) -> Vec<&str> {
        let leaving = known.iter().filter(|(from, ..)| *from == number);
        leaving.map(|(_, to, _)| self.nodes[*to].label.as_str()).collect()
    }

    fn description(&self, edges: usize, left_out: usize) -> String {
        let mut text = format!(
            "A graph of {} with {} between them.",
            counted(self.nodes.len(), "box", "boxes"),
            counted(edges, "line", "lines"),
        );
        if left_out > 0 {
            let _ = write!(text, " {}", left_out_sentence(left_out));
        }
        text
    }
}

fn left_out_sentence(left_out: usize) -> String {
    match left_out {
        1 => "1 line is left out: it names a box that is not here.".to_owned(),
        many => format!("{many} lines are left out: they name boxes that are not here."),
    }
}

impl Node {
    /// The kind and the note in one line.
    fn below(&self) -> String {
        match &self.note {
            Some(note) if self.kind.is_empty() => note.clone(),
            Some(note) => format!("{} · {note}", self.kind),
            None => self.kind.clone(),
        }
    }

    fn size(&self) -> Size {
        let name = width(&self.label, BOLD_SIZE).min(WIDEST_TEXT);
        let below = width(&self.below(), NOTE_SIZE).min(WIDEST_TEXT);
        Size { width: (name.max(below) + 2.0 * PADDING).ceil().max(NARROWEST), height: BOX_HEIGHT }
    }

    fn sentence(&self, next: &[&str]) -> String {
        let mut text = self.label.clone();
        if !self.kind.is_empty() {
            let _ = write!(text, " ({})", self.kind);
        }
        if let Some(note) = &self.note {
            let _ = write!(text, ": {note}");
        }
        if !next.is_empty() {
            let _ = write!(text, ". Then: {}", next.join(", "));
        }
        text
    }

    fn draw(&self, size: Size, corner: Point, next: &[&str]) -> Markup {
        let class = format!("node {}", self.state.as_deref().unwrap_or("is-plain"));
        let below = self.below();
        let middle = BOX_HEIGHT / 2.0;
        let name_y = if below.is_empty() { middle + 4.5 } else { middle - 3.0 };
        let inside = html! {
            title { (self.sentence(next)) }
            rect width=(Num(size.width)) height=(Num(size.height)) rx="8" {}
            path d={ "M4 8h4v" (Num(size.height - 16.0)) "h-4z" } {}
            text class="node-name" x=(Num(PADDING)) y=(Num(name_y)) {
                (cut(&self.label, BOLD_SIZE, WIDEST_TEXT))
            }
            @if !below.is_empty() {
                text class="node-kind" x=(Num(PADDING)) y=(Num(middle + 13.0)) {
                    (cut(&below, NOTE_SIZE, WIDEST_TEXT))
                }
            }
        };
        let transform = format!("translate({} {})", Num(corner.x), Num(corner.y));
        html! {
            g class=(class) transform=(transform) role="listitem" {
                (frame::linked(self.href.as_deref(), inside))
            }
        }
    }
}

impl Edge {
    fn link(&self, from: usize, to: usize) -> Link {
        let label = self.label.as_ref().map(|label| Size {
            width: width(label, NOTE_SIZE).min(WIDEST_LABEL) + 8.0,
            height: LABEL_HEIGHT,
        });
        Link { from, to, label, is_back: self.is_back }
    }

    fn draw(&self, route: &Route, told: Option<(&Node, &Node)>) -> Markup {
        let back = if route.course == Course::Down { "" } else { " edge-back" };
        let class = format!("edge{back} {}", self.state.as_deref().unwrap_or("is-plain"));
        html! {
            path class=(class) d=(line(route)) {
                @if let Some((from, to)) = told {
                    title {
                        (from.label) " → " (to.label)
                        @if let Some(label) = &self.label { ": " (label) }
                    }
                }
            }
        }
    }
}

fn labels(known: &[(usize, usize, &Edge)], placed: &Placed) -> Markup {
    html! {
        @for ((.., edge), route) in known.iter().zip(&placed.routes) {
            @if let (Some(text), Some(at)) = (&edge.label, route.label) {
                @let kept = cut(text, NOTE_SIZE, WIDEST_LABEL);
                @let wide = width(&kept, NOTE_SIZE) + 6.0;
                g class="edge-label" {
                    title { (text) }
                    rect x=(Num(at.x - wide / 2.0)) y=(Num(at.y - LABEL_HEIGHT / 2.0))
                        width=(Num(wide)) height=(Num(LABEL_HEIGHT)) rx="4" {}
                    text x=(Num(at.x)) y=(Num(at.y + 4.0)) { (kept) }
                }
            }
        }
    }
}

/// A line with the arrow at its end, in a single stroke.
fn line(route: &Route) -> String {
    let points = &route.points;
    let mut path = String::new();
    let Some(first) = points.first() else { return path };
    let _ = write!(path, "M{} {}", Num(first.x), Num(first.y));
    match route.course {
        Course::Down => curves(points, &mut path),
        Course::Aside => corners(points, &mut path),
        Course::Around => {
            let [_, a, b, end] = points.as_slice() else { return path };
            let _ = write!(path, "C{} {}", Num(a.x), Num(a.y));
            let _ = write!(path, " {} {} {} {}", Num(b.x), Num(b.y), Num(end.x), Num(end.y));
        }
    }
    path.push_str(tip(route));
    path
}

/// Curves between layers, and straight lines through them.
fn curves(points: &[Point], path: &mut String) {
    for (number, pair) in points.windows(2).enumerate() {
        let (from, to) = (pair[0], pair[1]);
        if number % 2 == 1 || (from.x - to.x).abs() < 0.5 {
            let _ = write!(path, "L{} {}", Num(to.x), Num(to.y));
            continue;
        }
        let middle = Num((from.y + to.y) / 2.0);
        let _ = write!(path, "C{} {middle}", Num(from.x));
        let _ = write!(path, " {} {middle} {} {}", Num(to.x), Num(to.x), Num(to.y));
    }
}

/// Straight lines with round corners.
fn corners(points: &[Point], path: &mut String) {
    for three in points.windows(3) {
        let (before, at, after) = (three[0], three[1], three[2]);
        let toward = |other: Point| {
            let far = (other.x - at.x).hypot(other.y - at.y);
            let share = if far > 0.0 { (far / 2.0).min(7.0) / far } else { 0.0 };
            Point { x: at.x + (other.x - at.x) * share, y: at.y + (other.y - at.y) * share }
        };
        let (enter, leave) = (toward(before), toward(after));
        let _ = write!(path, "L{} {}", Num(enter.x), Num(enter.y));
        let _ = write!(path, "Q{} {} {} {}", Num(at.x), Num(at.y), Num(leave.x), Num(leave.y));
    }
    if let Some(last) = points.last() {
        let _ = write!(path, "L{} {}", Num(last.x), Num(last.y));
    }
}

/// The arrow: from the end of the line back along both sides. Dashes begin anew on each side.
fn tip(route: &Route) -> &'static str {
    let [.., before, end] = route.points.as_slice() else { return "" };
    match route.course {
        Course::Down => "m0 0l-4-6m4 6l4-6",
        Course::Aside | Course::Around if before.x > end.x => "m0 0l6-4m-6 4l6 4",
        Course::Aside | Course::Around => "m0 0l-6-4m6 4l-6 4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::check;

    /// Builds a graph from a text such as `a>b b>c`.
    fn graph(nodes: &str, edges: &str) -> Graph {
        let node = |id: &str| Node { id: id.to_owned(), label: id.to_owned(), ..Node::default() };
        let edge = |pair: &str| {
            let (from, to) = pair.split_once('>').unwrap();
            Edge { from: from.to_owned(), to: to.to_owned(), ..Edge::default() }
        };
        Graph {
            title: "Steps".to_owned(),
            nodes: nodes.split_whitespace().map(node).collect(),
            edges: edges.split_whitespace().map(edge).collect(),
        }
    }

    #[test]
    fn two_boxes() {
        let mut graph = graph("a b", "a>b");
        graph.nodes[0].state = Some("is-ok".to_owned());
        graph.nodes[0].href = Some("/steps/a".to_owned());
        graph.nodes[1].kind = "http".to_owned();
        graph.edges[0].label = Some("then".to_owned());
        insta::assert_snapshot!(check(&graph.draw()), @r##"
        <div class="drawing drawing-graph" role="region" aria-label="Steps" tabindex="0">
          <svg role="list" width="108" height="156" viewBox="0 0 108 156">
            <title>Steps</title>
            <desc>A graph of 2 boxes with 1 line between them.</desc>
            <g transform="translate(6 6)">
              <g aria-hidden="true">
                <path class="edge is-plain" d="M48 46L48 64L48 80L48 98m0 0l-4-6m4 6l4-6">
                  <title>a → b: then</title></path></g>
              <g class="node is-ok" transform="translate(0 0)" role="listitem">
                <a href="/steps/a">
                  <title>a. Then: b</title>
                  <rect width="96" height="46" rx="8"></rect>
                  <path d="M4 8h4v30h-4z"></path>
                  <text class="node-name" x="14" y="27.5">a</text></a></g>
              <g class="node is-plain" transform="translate(0 98)" role="listitem">
                <title>b (http)</title>
                <rect width="96" height="46" rx="8"></rect>
                <path d="M4 8h4v30h-4z"></path>
                <text class="node-name" x="14" y="20">b</text>
                <text class="node-kind" x="14" y="36">http</text></g>
              <g aria-hidden="true">
                <g class="edge-label">
                  <title>then</title>
                  <rect x="33.12" y="64" width="29.76" height="16" rx="4"></rect>
                  <text x="48" y="76">then</text></g></g></g></svg></div>
        "##);
    }

    #[test]
    fn nothing_to_draw() {
        assert!(check(&graph("", "a>b").draw()).contains("There is nothing to draw."));
    }

    #[test]
    fn lines_to_nowhere_are_told() {
        let drawn = check(&graph("a b", "a>b a>c d>d").draw());
        assert_eq!(drawn.matches("<path class=\"edge ").count(), 1, "{drawn}");
        assert_eq!(drawn.matches("2 lines are left out").count(), 2, "{drawn}");
        let drawn = check(&graph("a b", "a>b a>c").draw());
        assert!(drawn.contains("1 line is left out: it names a box that is not here."), "{drawn}");
    }

    #[test]
    fn the_same_line_is_drawn_once() {
        let mut graph = graph("a b", "a>b a>b a>b");
        graph.edges[2].label = Some("else".to_owned());
        let drawn = check(&graph.draw());
        assert_eq!(drawn.matches("<path class=\"edge ").count(), 2, "{drawn}");
    }

    #[test]
    fn loops_and_cycles() {
        let drawn = check(&graph("a b c", "a>a a>b b>c c>a").draw());
        assert_eq!(drawn.matches("class=\"edge edge-back").count(), 2, "{drawn}");
    }

    #[test]
    fn long_names_are_cut_and_strange_ones_escaped() {
        let mut graph = graph("a b", "a>b");
        let name = "<b>&\"'</b> and a name that is much too long for any box of a graph";
        graph.nodes[0].label = name.to_owned();
        graph.edges[0].label = Some(name.repeat(3));
        let drawn = check(&graph.draw());
        assert!(!drawn.contains("<b>"), "{drawn}");
        let escaped = "&lt;b&gt;&amp;&quot;'&lt;/b&gt; and a name that is much too long";
        assert!(drawn.contains(&format!("<title>{escaped}")), "{drawn}");
        assert!(drawn.contains("…</text>"), "{drawn}");
        let boxes = drawn.split("<rect width=\"").skip(1);
        let widths = boxes.map(|piece| piece.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(widths.clone().all(|width| width <= WIDEST_TEXT + 2.0 * PADDING), "{drawn}");
    }
}
