//! Lays out the boxes of a graph in layers, so that every edge leads down and few edges cross.
//!
//! This is Sugiyama's method. This file sets aside edges that close a cycle and gives every box a
//! layer; `crossings.rs` orders the boxes inside layers; `columns.rs` and `narrow.rs` give each box
//! a column; `routes.rs` draws the lines. Connected parts of the graph are laid out separately and
//! then put side by side. The same graph always gives the same drawing, and every loop is bounded.

mod columns;
mod crossings;
mod narrow;
mod routes;

use std::collections::VecDeque;

/// The room that a box needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// An edge between two boxes, by their indexes.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The room that its label needs.
    pub(crate) label: Option<Size>,
    /// Whether the edge leads back on purpose. Such an edge is drawn at the side and does not
    /// affect layers.
    pub(crate) is_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The shape of a line through its points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Course {
    /// Curves from the first point to the second, straight to the third, and so on; ends downward.
    Down,
    /// Straight with round corners, around the boxes; ends to the left or right.
    Aside,
    /// From a box to itself.
    Around,
}

/// The line of one link.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) course: Course,
    pub(crate) points: Vec<Point>,
    /// The centre of its label.
    pub(crate) label: Option<Point>,
}

/// A graph with its layout.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) size: Size,
    /// The upper left corner of each box.
    pub(crate) corners: Vec<Point>,
    /// One route for each link.
    pub(crate) routes: Vec<Route>,
}

impl Placed {
    /// Rounds to whole pixels, which makes lines sharper and the SVG shorter.
    pub(crate) fn round(&mut self) {
        let points = self.routes.iter_mut().flat_map(|route| &mut route.points);
        for point in self.corners.iter_mut().chain(points) {
            (point.x, point.y) = (point.x.round(), point.y.round());
        }
        (self.size.width, self.size.height) = (self.size.width.ceil(), self.size.height.ceil());
    }
}

/// Lays out boxes and links. Links must refer to existing boxes.
pub(crate) fn place(sizes: &[Size], links: &[Link]) -> Placed {
    let is_back = backward(sizes.len(), links);
    let mut corners = vec![Point { x: 0.0, y: 0.0 }; sizes.len()];
    let nowhere = Route { course: Course::Down, points: Vec::new(), label: None };
    let mut drawn = vec![nowhere; links.len()];
    let mut shelf = routes::Shelf::default();
    let parts: Vec<_> = parts(sizes.len(), links)
        .into_iter()
        .map(|part| {
            let mut layered = Layered::new(&part, sizes, links, &is_back);
            crossings::reduce(&mut layered);
            let mut columns = columns::assign(&layered);
            narrow::narrow(&layered, &mut columns);
            (routes::lay(&layered, &columns, links), layered)
        })
        .collect();
    let widest = parts.iter().map(|(laid, _)| laid.size.width).fold(0.0, f64::max);
    for (laid, layered) in parts {
        let corner = shelf.take(laid.size, widest);
        let moved = |at: Point| Point { x: at.x + corner.x, y: at.y + corner.y };
        for (&number, &at) in layered.members.iter().zip(&laid.corners) {
            corners[number] = moved(at);
        }
        for (number, route) in laid.routes {
            drawn[number] = Route {
                points: route.points.into_iter().map(moved).collect(),
                label: route.label.map(moved),
                ..route
            };
        }
    }
    Placed { size: shelf.size(), corners, routes: drawn }
}

/// Which links lead back: those marked so, those that would close a cycle, and loops.
fn backward(count: usize, links: &[Link]) -> Vec<bool> {
    let mut is_back: Vec<bool> = links.iter().map(|l| l.is_back || l.from == l.to).collect();
    let mut leaving = vec![Vec::new(); count];
    let mut entered = vec![false; count];
    for (number, link) in links.iter().enumerate().filter(|(n, _)| !is_back[*n]) {
        leaving[link.from].push(number);
        entered[link.to] = true;
    }
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let mut seen = vec![Seen::No; count];
    let beginnings = (0..count).filter(|&n| !entered[n]).chain((0..count).filter(|&n| entered[n]));
    for beginning in beginnings {
        let mut path = vec![(beginning, 0)];
        while let Some((at, next)) = path.last_mut() {
            if *next == 0 && seen[*at] != Seen::No {
                path.pop();
                continue;
            }
            seen[*at] = Seen::Open;
            let Some(&number) = leaving[*at].get(*next) else {
                seen[*at] = Seen::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match seen[links[number].to] {
                Seen::No => path.push((links[number].to, 0)),
                Seen::Open => is_back[number] = true,
                Seen::Done => {}
            }
        }
    }
    is_back
}

/// The connected parts of the graph, in the order of the first box of each.
fn parts(count: usize, links: &[Link]) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); count];
    for link in links {
        neighbours[link.from].push(link.to);
        neighbours[link.to].push(link.from);
    }
    let mut is_taken = vec![false; count];
    let mut parts = Vec::new();
    for first in 0..count {
        if is_taken[first] {
            continue;
        }
        is_taken[first] = true;
        let mut part = vec![first];
        let mut looked_at = 0;
        while let Some(&at) = part.get(looked_at) {
            looked_at += 1;
            for &next in &neighbours[at] {
                if !is_taken[next] {
                    is_taken[next] = true;
                    part.push(next);
                }
            }
        }
        part.sort_unstable();
        parts.push(part);
    }
    parts
}

/// The content of a spot in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Box,
    /// The label of a link.
    Label,
    /// A link that passes to a lower layer.
    Bend,
}

/// One spot in a layer, with the room it needs on both sides of its centre.
#[derive(Clone, Debug)]
struct Spot {
    stand: Stand,
    left: f64,
    right: f64,
    height: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// A part of a graph in layers, in which every link leads from one layer to the next.
struct Layered {
    /// The boxes of this part. Their spots come first, in this order.
    members: Vec<usize>,
    spots: Vec<Spot>,
    layers: Vec<Vec<usize>>,
    /// Links that lead down, each with all of its spots from end to end.
    chains: Vec<(usize, Vec<usize>)>,
    /// Links that lead back, and loops, with the spots of both ends.
    aside: Vec<(usize, usize, usize)>,
}

/// How far a loop extends from its box.
const LOOP_REACH: f64 = 24.0;

impl Layered {
    fn new(members: &[usize], sizes: &[Size], links: &[Link], is_back: &[bool]) -> Layered {
        let local = |number: usize| members.binary_search(&number).ok();
        let mut aside = Vec::new();
        let mut down = Vec::new();
        for (number, link) in links.iter().enumerate() {
            let (Some(from), Some(to)) = (local(link.from), local(link.to)) else { continue };
            if is_back[number] { &mut aside } else { &mut down }.push((number, from, to));
        }
        let mut spots: Vec<Spot> =
            members.iter().map(|&n| Spot::new(Stand::Box, sizes[n])).collect();
        for &(number, from, to) in &aside {
            if from == to {
                let label = links[number].label.map_or(0.0, |size| size.width + 4.0);
                let half = spots[from].left;
                spots[from].right = spots[from].right.max(half + LOOP_REACH + label);
            }
        }
        let spans: Vec<_> = down
            .iter()
            .map(|&(n, from, to)| (from, to, if links[n].label.is_some() { 2 } else { 1 }))
            .collect();
        let heights = heights(members.len(), &spans);
        let mut layers = vec![Vec::new(); heights.iter().max().map_or(0, |most| most + 1)];
        for (spot, &layer) in heights.iter().enumerate() {
            layers[layer].push(spot);
        }
        let mut layered =
            Layered { members: members.to_vec(), spots, layers, chains: Vec::new(), aside };
        for (number, from, to) in down {
            let chain = layered.chain(from, to, &heights, links[number].label);
            layered.chains.push((number, chain));
        }
        layered
    }

    /// Adds the spots between the ends of a link, one in each layer.
    fn chain(&mut self, from: usize, to: usize, at: &[usize], label: Option<Size>) -> Vec<usize> {
        let mut chain = vec![from];
        // The label is as near to the beginning of the link as possible, because it says which way
        // is taken.
        for layer in at[from] + 1..at[to] {
            let spot = match label.filter(|_| layer == at[from] + 1) {
                Some(size) => Spot::new(Stand::Label, size),
                None => Spot::new(Stand::Bend, Size { width: 2.0, height: 0.0 }),
            };
            chain.push(self.spots.len());
            self.layers[layer].push(self.spots.len());
            self.spots.push(spot);
        }
        chain.push(to);
        for pair in chain.windows(2) {
            self.spots[pair[0]].below.push(pair[1]);
            self.spots[pair[1]].above.push(pair[0]);
        }
        chain
    }
}

impl Spot {
    fn new(stand: Stand, size: Size) -> Spot {
        let half = size.width / 2.0;
        let (above, below) = (Vec::new(), Vec::new());
        Spot { stand, left: half, right: half, height: size.height, above, below }
    }
}

/// The layer of each box: below everything that leads to it, and otherwise as near as possible to
/// what it leads to. Spans are (from, to, least number of layers).
fn heights(count: usize, spans: &[(usize, usize, usize)]) -> Vec<usize> {
    let mut leaving = vec![Vec::new(); count];
    let mut waits_for = vec![0; count];
    for &(from, to, span) in spans {
        leaving[from].push((to, span));
        waits_for[to] += 1;
    }
    let entering = waits_for.clone();
    let mut ready: VecDeque<usize> = (0..count).filter(|&n| waits_for[n] == 0).collect();
    let mut order = Vec::with_capacity(count);
    let mut height = vec![0; count];
    while let Some(at) = ready.pop_front() {
        order.push(at);
        for &(to, span) in &leaving[at] {
            height[to] = height[to].max(height[at] + span);
            waits_for[to] -= 1;
            if waits_for[to] == 0 {
                ready.push_back(to);
            }
        }
    }
    // Boxes with more leaving than entering links move down, which makes their lines shorter.
    for &at in order.iter().rev().filter(|&&at| leaving[at].len() > entering[at]) {
        if let Some(lowest) = leaving[at].iter().map(|&(to, span)| height[to] - span).min() {
            height[at] = height[at].max(lowest);
        }
    }
    height
}

#[cfg(test)]
mod tests;
