//! Moves columns closer together where straight lines made a large graph too wide.
//!
//! Layer by layer, every spot is pulled towards its neighbours in other layers, as far as the spots
//! beside it allow. Then lines that can be straight are straightened again.

use super::columns::apart;
use super::{Layered, Stand};

/// Drawings up to this width, which fits on most screens, are not narrowed.
const WIDE: f64 = 1000.0;
/// The widest drawing, as a multiple of its widest layer.
const TOO_WIDE: f64 = 1.3;
/// Passes over all layers, each down and up. More of them change little.
const ROUNDS: usize = 8;

/// Narrows a drawing that is too wide.
pub(super) fn narrow(layered: &Layered, xs: &mut [f64]) {
    let widest = layered.layers.iter().map(|layer| natural(layered, layer)).fold(0.0, f64::max);
    let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most - least < (widest * TOO_WIDE).max(WIDE) {
        return;
    }
    for _round in 0..ROUNDS {
        for layer in layered.layers.iter().chain(layered.layers.iter().rev()) {
            pull(layered, layer, xs);
        }
    }
    straighten(layered, xs);
}

/// The width of a layer with only the required gaps.
fn natural(layered: &Layered, layer: &[usize]) -> f64 {
    layer.windows(2).map(|pair| apart(layered, pair[0], pair[1])).sum()
}

/// Moves each spot of a layer as near as possible to its neighbours in other layers, in the sense
/// of least squares. The order stays the same and nothing overlaps: spots that would collide move
/// as one.
fn pull(layered: &Layered, layer: &[usize], xs: &mut [f64]) {
    struct Group {
        weight: f64,
        mean: f64,
        count: usize,
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(layer.len());
    for (index, &spot) in layer.iter().enumerate() {
        if index > 0 {
            offset += apart(layered, layer[index - 1], spot);
        }
        offsets.push(offset);
        let (weight, wanted) = wanted(layered, spot, xs);
        let mut group = Group { weight, mean: wanted - offset, count: 1 };
        while let Some(before) = groups.pop_if(|before| before.mean > group.mean) {
            let weight = before.weight + group.weight;
            let sum = before.mean * before.weight + group.mean * group.weight;
            group = Group { weight, mean: sum / weight, count: before.count + group.count };
        }
        groups.push(group);
    }
    let means = groups.iter().flat_map(|group| std::iter::repeat_n(group.mean, group.count));
    for ((&spot, offset), mean) in layer.iter().zip(offsets).zip(means) {
        xs[spot] = mean + offset;
    }
}

/// The position that a spot prefers, and the weight of that preference.
fn wanted(layered: &Layered, spot: usize, xs: &[f64]) -> (f64, f64) {
    let is_line = |spot: usize| layered.spots[spot].stand != Stand::Box;
    let (mut weights, mut sum) = (0.0, 0.0);
    let one = &layered.spots[spot];
    for &other in one.above.iter().chain(&one.below) {
        // A bend in a long line is worse than one between boxes.
        let weight = match (is_line(spot), is_line(other)) {
            (true, true) => 6.0,
            (false, false) => 1.0,
            _ => 2.0,
        };
        weights += weight;
        sum += weight * xs[other];
    }
    if weights > 0.0 { (weights, sum / weights) } else { (0.1, xs[spot]) }
}

/// Gives all spots of a line, or of a chain of boxes, the same column, if there is one that is free
/// for all.
fn straighten(layered: &Layered, xs: &mut [f64]) {
    let count = layered.spots.len();
    let mut sides = vec![(None, None); count];
    for pair in layered.layers.iter().flat_map(|layer| layer.windows(2)) {
        let apart = apart(layered, pair[0], pair[1]);
        sides[pair[0]].1 = Some((pair[1], apart));
        sides[pair[1]].0 = Some((pair[0], apart));
    }
    let mut runs = runs(layered);
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    for run in runs {
        let (mut least, mut most, mut sum) = (f64::NEG_INFINITY, f64::INFINITY, 0.0);
        for &spot in &run {
            if let Some((left, apart)) = sides[spot].0 {
                least = least.max(xs[left] + apart);
            }
            if let Some((right, apart)) = sides[spot].1 {
                most = most.min(xs[right] - apart);
            }
            sum += xs[spot];
        }
        if least <= most {
            let middle = (sum / run.len() as f64).clamp(least, most);
            run.iter().for_each(|&spot| xs[spot] = middle);
        }
    }
}

/// Chains of spots, from top to bottom, that are connected only to each other; and the parts of
/// each chain that are lines without boxes.
fn runs(layered: &Layered) -> Vec<Vec<usize>> {
    let follower = |spot: usize| match layered.spots[spot].below.as_slice() {
        [below] if layered.spots[*below].above.len() == 1 => Some(*below),
        _ => None,
    };
    let mut runs = Vec::new();
    for first in 0..layered.spots.len() {
        let is_inside =
            matches!(layered.spots[first].above[..], [above] if follower(above).is_some());
        if is_inside {
            continue;
        }
        let run: Vec<usize> = std::iter::successors(Some(first), |&spot| follower(spot)).collect();
        let is_box = |&spot: &usize| layered.spots[spot].stand == Stand::Box;
        runs.extend(run.split(is_box).filter(|line| line.len() > 1).map(<[usize]>::to_vec));
        runs.push(run);
    }
    runs.retain(|run| run.len() > 1);
    runs
}
