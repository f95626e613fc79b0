//! Assigns a column to every spot in a layer, by Brandes and Köpf, "Fast and Simple Horizontal
//! Coordinate Assignment": four layouts, each pushed to another corner, and their average.

use std::collections::HashSet;

use super::{Layered, Stand};

/// The space between two boxes of a layer.
const BOX_GAP: f64 = 28.0;
/// The space between a box and a line, or between two lines.
const LINE_GAP: f64 = 14.0;

/// The centre of each spot. Neighbours in a layer never overlap.
pub(super) fn assign(layered: &Layered) -> Vec<f64> {
    let conflicts = conflicts(layered);
    let mut drawings = Vec::new();
    for is_down in [true, false] {
        for is_mirrored in [false, true] {
            drawings.push(corner(layered, &conflicts, is_down, is_mirrored));
        }
    }
    let reach = |xs: &[f64]| {
        let spots = || xs.iter().zip(&layered.spots);
        let least = spots().map(|(x, spot)| x - spot.left).fold(f64::INFINITY, f64::min);
        let most = spots().map(|(x, spot)| x + spot.right).fold(f64::NEG_INFINITY, f64::max);
        (least, most)
    };
    let narrowest = drawings
        .iter()
        .map(|xs| reach(xs))
        .min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
        .unwrap_or((0.0, 0.0));
    for (number, xs) in drawings.iter_mut().enumerate() {
        let (least, most) = reach(xs);
        let shift = if number % 2 == 0 { narrowest.0 - least } else { narrowest.1 - most };
        xs.iter_mut().for_each(|x| *x += shift);
    }
    let middle = |spot: usize| {
        let mut four: Vec<f64> = drawings.iter().map(|xs| xs[spot]).collect();
        four.sort_by(f64::total_cmp);
        (four[1] + four[2]) / 2.0
    };
    (0..layered.spots.len()).map(middle).collect()
}

/// Lines that cross a long line and would bend it. These are not drawn straight.
fn conflicts(layered: &Layered) -> HashSet<(usize, usize)> {
    let is_line = |spot: usize| layered.spots[spot].stand != Stand::Box;
    let mut at = vec![0; layered.spots.len()];
    let mut found = HashSet::new();
    for pair in layered.layers.windows(2) {
        for (index, &spot) in pair[0].iter().enumerate() {
            at[spot] = index;
        }
        let (mut from, mut scanned) = (0, 0);
        for (index, &spot) in pair[1].iter().enumerate() {
            let inner = layered.spots[spot].above.iter().find(|&&up| is_line(spot) && is_line(up));
            if inner.is_none() && index + 1 < pair[1].len() {
                continue;
            }
            let to = inner.map_or(pair[0].len(), |&up| at[up]);
            for &below in &pair[1][scanned..=index] {
                for &up in &layered.spots[below].above {
                    if (at[up] < from || at[up] > to) && !(is_line(up) && is_line(below)) {
                        found.insert((up, below));
                    }
                }
            }
            scanned = index + 1;
            from = to;
        }
    }
    found
}

/// One of the four layouts: aligned with the layer above or below, and pushed to the left, or, by
/// mirroring it, to the right.
fn corner(
    layered: &Layered,
    conflicts: &HashSet<(usize, usize)>,
    is_down: bool,
    is_mirrored: bool,
) -> Vec<f64> {
    let mut layers = layered.layers.clone();
    if !is_down {
        layers.reverse();
    }
    if is_mirrored {
        layers.iter_mut().for_each(|layer| layer.reverse());
    }
    let root = align(layered, &layers, conflicts, is_down);
    let mut xs = compact(layered, &layers, &root, is_mirrored);
    if is_mirrored {
        xs.iter_mut().for_each(|x| *x = -*x);
    }
    xs
}

/// Aligns spots in columns. Returns for each spot the first one of its column.
fn align(
    layered: &Layered,
    layers: &[Vec<usize>],
    conflicts: &HashSet<(usize, usize)>,
    is_down: bool,
) -> Vec<usize> {
    let count = layered.spots.len();
    let mut at = vec![0; count];
    let mut root: Vec<usize> = (0..count).collect();
    for layer in layers {
        let mut taken = None;
        for &spot in layer {
            let beside =
                if is_down { &layered.spots[spot].above } else { &layered.spots[spot].below };
            let mut sorted: Vec<(usize, usize)> = beside.iter().map(|&o| (at[o], o)).collect();
            sorted.sort_unstable();
            let medians = match sorted.len() {
                0 => continue,
                n => [(n - 1) / 2, n / 2],
            };
            for median in medians {
                let (index, other) = sorted[median];
                let line = if is_down { (other, spot) } else { (spot, other) };
                let is_free = taken.is_none_or(|taken| taken < index);
                if root[spot] == spot && is_free && !conflicts.contains(&line) {
                    root[spot] = root[other];
                    taken = Some(index);
                }
            }
        }
        for (index, &spot) in layer.iter().enumerate() {
            at[spot] = index;
        }
    }
    root
}

/// Pushes columns to the left as far as possible, then each back to the right as far as its
/// neighbours allow, so that connected columns stay together.
fn compact(
    layered: &Layered,
    layers: &[Vec<usize>],
    root: &[usize],
    is_mirrored: bool,
) -> Vec<f64> {
    let count = layered.spots.len();
    let mut right_of: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count];
    let mut waits_for = vec![0; count];
    for pair in layers.iter().flat_map(|layer| layer.windows(2)) {
        let (left, right) = if is_mirrored { (pair[1], pair[0]) } else { (pair[0], pair[1]) };
        let apart = apart(layered, left, right);
        right_of[root[pair[0]]].push((root[pair[1]], apart));
        waits_for[root[pair[1]]] += 1;
    }
    let is_ready = |&spot: &usize| root[spot] == spot && waits_for[spot] == 0;
    let mut order: Vec<usize> = (0..count).filter(is_ready).collect();
    let mut xs = vec![0.0_f64; count];
    let mut looked_at = 0;
    while let Some(&column) = order.get(looked_at) {
        looked_at += 1;
        for &(next, apart) in &right_of[column] {
            xs[next] = xs[next].max(xs[column] + apart);
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                order.push(next);
            }
        }
    }
    for &column in order.iter().rev() {
        let room = right_of[column].iter().map(|&(next, apart)| xs[next] - apart);
        let room = room.fold(f64::INFINITY, f64::min);
        if room.is_finite() {
            xs[column] = xs[column].max(room);
        }
    }
    (0..count).map(|spot| xs[root[spot]]).collect()
}

/// The least distance between the centres of two neighbours.
pub(super) fn apart(layered: &Layered, left: usize, right: usize) -> f64 {
    let (left, right) = (&layered.spots[left], &layered.spots[right]);
    let are_boxes = left.stand == Stand::Box && right.stand == Stand::Box;
    left.right + right.left + if are_boxes { BOX_GAP } else { LINE_GAP }
}
