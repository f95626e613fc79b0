//! Routes lines between boxes, sets the height of layers, and puts parts side by side.

use super::{Course, LOOP_REACH, Layered, Link, Point, Route, Size, Stand};

/// The least distance between two layers with boxes; wide steps to the side get more.
const LAYER_GAP: f64 = 36.0;
/// The distance between a layer with boxes and one with only labels.
const LABEL_GAP: f64 = 18.0;
/// The largest distance between layers, however wide the steps are.
const WIDEST_GAP: f64 = 110.0;
/// The distance between lines at the side.
const LANE: f64 = 14.0;
/// The distance between unconnected parts.
const PART_GAP: f64 = 40.0;
/// The width at which another row of parts begins, unless one part is wider.
const ROW_WIDTH: f64 = 1100.0;
/// The distance between the ends of lines at one edge of a box, if there is room.
const END_GAP: f64 = 14.0;

/// The layout of a part, with its upper left corner at 0, 0.
pub(super) struct Laid {
    pub(super) size: Size,
    pub(super) corners: Vec<Point>,
    pub(super) routes: Vec<(usize, Route)>,
}

/// Layers with their heights.
struct Grid<'a> {
    layered: &'a Layered,
    xs: &'a [f64],
    /// The top and bottom of each layer.
    bands: Vec<(f64, f64)>,
    layer_of: Vec<usize>,
}

/// Lays out one part.
pub(super) fn lay(layered: &Layered, xs: &[f64], links: &[Link]) -> Laid {
    let mut layer_of = vec![0; layered.spots.len()];
    for (number, layer) in layered.layers.iter().enumerate() {
        layer.iter().for_each(|&spot| layer_of[spot] = number);
    }
    let grid = Grid { layered, xs, bands: bands(layered, xs), layer_of };
    let mut routes = grid.down();
    let spots = || xs.iter().zip(&layered.spots);
    let mut left = spots().map(|(x, spot)| x - spot.left).fold(f64::INFINITY, f64::min);
    let mut right = spots().map(|(x, spot)| x + spot.right).fold(f64::NEG_INFINITY, f64::max);
    let mut top = 0.0_f64;
    grid.aside(links, &mut routes, &mut left, &mut right);
    for point in routes.iter().flat_map(|(_, route)| &route.points) {
        top = top.min(point.y);
    }
    let bottom = grid.bands.last().map_or(0.0, |band| band.1);
    let moved = |at: Point| Point { x: at.x - left, y: at.y - top };
    for (_, route) in &mut routes {
        route.points.iter_mut().for_each(|point| *point = moved(*point));
        route.label = route.label.map(moved);
    }
    let corners = (0..layered.members.len())
        .map(|spot| moved(Point { x: xs[spot] - layered.spots[spot].left, y: grid.top(spot) }))
        .collect();
    Laid { size: Size { width: right - left, height: bottom - top }, corners, routes }
}

fn bands(layered: &Layered, xs: &[f64]) -> Vec<(f64, f64)> {
    let mut bands = Vec::new();
    let mut y = 0.0;
    for layer in &layered.layers {
        let spots = || layer.iter().map(|&spot| &layered.spots[spot]);
        let height = spots().map(|spot| spot.height).fold(0.0, f64::max);
        bands.push((y, y + height));
        let has_boxes = spots().any(|spot| spot.stand == Stand::Box);
        let below = || spots().flat_map(|spot| &spot.below);
        let meets_boxes = below().any(|&spot| layered.spots[spot].stand == Stand::Box);
        let sideways = layer
            .iter()
            .flat_map(|&spot| layered.spots[spot].below.iter().map(move |&b| (spot, b)))
            .map(|(spot, below)| (xs[spot] - xs[below]).abs())
            .fold(0.0, f64::max);
        let least = if has_boxes && meets_boxes { LAYER_GAP } else { LABEL_GAP };
        y += height + (sideways / 7.0).clamp(least, WIDEST_GAP);
    }
    bands
}

impl Grid<'_> {
    /// The top of a spot, which is centred in its layer.
    fn top(&self, spot: usize) -> f64 {
        let (top, bottom) = self.bands[self.layer_of[spot]];
        (top + bottom - self.layered.spots[spot].height) / 2.0
    }

    fn bottom(&self, spot: usize) -> f64 {
        self.top(spot) + self.layered.spots[spot].height
    }

    /// Half of the width of a box, without the space beside it.
    fn half(&self, spot: usize) -> f64 {
        self.layered.spots[spot].left
    }

    /// The lines that lead down.
    fn down(&self) -> Vec<(usize, Route)> {
        let chains = &self.layered.chains;
        let begins = self.ends(|chain| (chain[0], chain[1]));
        let ends = self.ends(|chain| (chain[chain.len() - 1], chain[chain.len() - 2]));
        let routes = chains.iter().enumerate().map(|(at, (number, chain))| {
            let (from, to) = (chain[0], chain[chain.len() - 1]);
            let mut points = vec![Point { x: begins[at], y: self.bottom(from) }];
            let mut label = None;
            for &spot in &chain[1..chain.len() - 1] {
                let (top, bottom) = self.bands[self.layer_of[spot]];
                let x = self.xs[spot];
                points.extend([Point { x, y: top }, Point { x, y: bottom }]);
                if self.layered.spots[spot].stand == Stand::Label {
                    label = Some(Point { x, y: (top + bottom) / 2.0 });
                }
            }
            points.push(Point { x: ends[at], y: self.top(to) });
            (*number, Route { course: Course::Down, points, label })
        });
        routes.collect()
    }

    /// The horizontal position of each line's end at its box. Ends are side by side, in the order
    /// of where the lines come from.
    fn ends(&self, end: impl Fn(&[usize]) -> (usize, usize)) -> Vec<f64> {
        let chains = &self.layered.chains;
        let mut at_box = vec![Vec::new(); self.layered.members.len()];
        for (at, (_, chain)) in chains.iter().enumerate() {
            let (spot, other) = end(chain);
            at_box[spot].push((self.xs[other], at));
        }
        let mut xs = vec![0.0; chains.len()];
        for (spot, mut lines) in at_box.into_iter().enumerate() {
            lines.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let room = self.half(spot) * 1.5;
            let gap = END_GAP.min(room / lines.len().max(1) as f64);
            let first = self.xs[spot] - gap * (lines.len().saturating_sub(1)) as f64 / 2.0;
            for (index, (_, at)) in lines.into_iter().enumerate() {
                xs[at] = first + gap * index as f64;
            }
        }
        xs
    }

    /// The lines that lead back, each in its own lane at the side with fewer obstacles.
    fn aside(
        &self,
        links: &[Link],
        routes: &mut Vec<(usize, Route)>,
        left: &mut f64,
        right: &mut f64,
    ) {
        let mut sides: [Vec<Return>; 2] = [Vec::new(), Vec::new()];
        for &(number, from, to) in &self.layered.aside {
            let label = links[number].label.map_or(0.0, |size| size.width + 4.0);
            if from == to {
                routes.push((number, self.around(from, label)));
                continue;
            }
            let in_the_way = |is_right| self.beyond(from, is_right) + self.beyond(to, is_right);
            let is_right = in_the_way(true) <= in_the_way(false);
            let back = Return { number, from, to, label, is_right };
            sides[usize::from(is_right)].push(back);
        }
        for (side, reach) in sides.into_iter().zip([left, right]) {
            self.lanes(side, reach, routes);
        }
    }

    /// Assigns lanes to the lines of one side: short lines inside, and none across another.
    fn lanes(&self, mut side: Vec<Return>, reach: &mut f64, routes: &mut Vec<(usize, Route)>) {
        let span = |back: &Return| {
            let (a, b) = (self.top(back.from), self.top(back.to));
            (a.min(b) - LANE, a.max(b) + LAYER_GAP + LANE)
        };
        side.sort_by(|a, b| {
            let height = |back| span(back).1 - span(back).0;
            height(a).total_cmp(&height(b)).then(a.number.cmp(&b.number))
        });
        let mut lanes: Vec<Vec<Return>> = Vec::new();
        for back in side {
            let (top, bottom) = span(&back);
            let is_free = |lane: &Vec<Return>| {
                lane.iter().map(span).all(|(above, below)| bottom < above || below < top)
            };
            match lanes.iter().position(is_free) {
                Some(lane) => lanes[lane].push(back),
                None => lanes.push(vec![back]),
            }
        }
        for (number, lane) in lanes.into_iter().enumerate() {
            let widest = lane.iter().map(|back| back.label).fold(0.0, f64::max);
            let Some(out) = lane.first().map(|back| if back.is_right { 1.0 } else { -1.0 }) else {
                continue;
            };
            let x = *reach + out * LANE;
            for back in lane {
                routes.push((back.number, self.back(&back, x, number)));
            }
            *reach = x + out * (widest + 2.0);
        }
    }

    /// A line from a lower box to an upper one through the lane at `x`.
    fn back(&self, back: &Return, x: f64, lane: usize) -> Route {
        let mut points = self.way_out(back.from, back.is_right, 0.75, lane);
        let mut way_in = self.way_out(back.to, back.is_right, 0.25, lane);
        way_in.reverse();
        let (out_y, in_y) = (points[points.len() - 1].y, way_in[0].y);
        points.extend([Point { x, y: out_y }, Point { x, y: in_y }]);
        points.extend(way_in);
        let beside = (3.0 + back.label / 2.0) * if back.is_right { 1.0 } else { -1.0 };
        let label = (back.label > 0.0).then_some(Point { x: x + beside, y: (out_y + in_y) / 2.0 });
        Route { course: Course::Aside, points, label }
    }

    /// The points from the side of a box to free space: straight, or over its neighbours.
    fn way_out(&self, spot: usize, is_right: bool, share: f64, lane: usize) -> Vec<Point> {
        let out = if is_right { 1.0 } else { -1.0 };
        let x = self.xs[spot] + out * self.half(spot);
        let y = self.top(spot) + self.layered.spots[spot].height * share;
        let mut points = vec![Point { x, y }];
        if self.beyond(spot, is_right) > 0 {
            let x = x + out * 8.0;
            let above = self.bands[self.layer_of[spot]].0 - 7.0 - 4.0 * (lane % 4) as f64;
            points.extend([Point { x, y }, Point { x, y: above }]);
        }
        points
    }

    /// The number of boxes and labels of the layer that are further out.
    fn beyond(&self, spot: usize, is_right: bool) -> usize {
        let others = self.layered.layers[self.layer_of[spot]].iter();
        others
            .filter(|&&other| self.layered.spots[other].stand != Stand::Bend)
            .filter(|&&other| {
                if is_right {
                    self.xs[other] > self.xs[spot]
                } else {
                    self.xs[other] < self.xs[spot]
                }
            })
            .count()
    }

    fn around(&self, spot: usize, label: f64) -> Route {
        let x = self.xs[spot] + self.half(spot);
        let y = self.top(spot) + self.layered.spots[spot].height / 2.0;
        let points = vec![
            Point { x, y: y - 8.0 },
            Point { x: x + LOOP_REACH, y: y - 16.0 },
            Point { x: x + LOOP_REACH, y: y + 16.0 },
            Point { x, y: y + 8.0 },
        ];
        let label = (label > 0.0).then_some(Point { x: x + LOOP_REACH + label / 2.0 - 2.0, y });
        Route { course: Course::Around, points, label }
    }
}

/// A link that leads back.
struct Return {
    number: usize,
    from: usize,
    to: usize,
    label: f64,
    is_right: bool,
}

/// Arranges parts side by side, in several rows if one would be too wide.
#[derive(Default)]
pub(super) struct Shelf {
    x: f64,
    y: f64,
    row_height: f64,
    width: f64,
}

impl Shelf {
    /// The corner of the next part.
    pub(super) fn take(&mut self, size: Size, widest: f64) -> Point {
        if self.x > 0.0 && self.x + size.width > widest.max(ROW_WIDTH) {
            self.y += self.row_height + PART_GAP;
            self.x = 0.0;
            self.row_height = 0.0;
        }
        let corner = Point { x: self.x, y: self.y };
        self.x += size.width + PART_GAP;
        self.width = self.width.max(corner.x + size.width);
        self.row_height = self.row_height.max(size.height);
        corner
    }

    pub(super) fn size(&self) -> Size {
        Size { width: self.width, height: self.y + self.row_height }
    }
}
