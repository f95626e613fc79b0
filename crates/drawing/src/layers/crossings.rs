//! Orders the spots inside layers: by barycentres from layer to layer, down and up, and by swapping
//! neighbours where that helps. The best order found is kept.

use super::Layered;

/// Sweeps over all layers, each down or up. More of them change little.
const SWEEPS: usize = 16;
/// The number of sweeps without an improvement after which the search ends.
const PATIENCE: usize = 5;
/// The most pairs of lines that are compared for swaps: a bound for dense graphs.
const COMPARISONS: usize = 400_000;

pub(super) fn reduce(layered: &mut Layered) {
    let mut at = vec![0; layered.spots.len()];
    begin(layered, &mut at);
    let mut comparisons = COMPARISONS;
    let mut best = layered.layers.clone();
    let mut fewest = crossings(layered, &at);
    let mut in_vain = 0;
    for sweep in 0..SWEEPS {
        if fewest == 0 || in_vain == PATIENCE {
            break;
        }
        reorder(layered, &mut at, sweep % 2 == 0, sweep % 4 >= 2);
        change_places(layered, &mut at, &mut comparisons);
        let now = crossings(layered, &at);
        in_vain += 1;
        if now < fewest {
            fewest = now;
            best.clone_from(&layered.layers);
            in_vain = 0;
        }
    }
    layered.layers = best;
}

/// Orders spots as a search from above finds them, so that those declared first are to the left.
fn begin(layered: &mut Layered, at: &mut [usize]) {
    let mut is_found = vec![false; layered.spots.len()];
    let mut layer_of = vec![0; layered.spots.len()];
    for (number, layer) in layered.layers.iter().enumerate() {
        for &spot in layer {
            layer_of[spot] = number;
        }
    }
    let mut layers = vec![Vec::new(); layered.layers.len()];
    for &first in layered.layers.iter().flatten() {
        let mut path = vec![first];
        while let Some(spot) = path.pop() {
            if std::mem::replace(&mut is_found[spot], true) {
                continue;
            }
            layers[layer_of[spot]].push(spot);
            path.extend(layered.spots[spot].below.iter().rev());
        }
    }
    layered.layers = layers;
    for layer in &layered.layers {
        note(layer, at);
    }
}

fn note(layer: &[usize], at: &mut [usize]) {
    for (index, &spot) in layer.iter().enumerate() {
        at[spot] = index;
    }
}

/// Orders each layer by the average position of its neighbours in the previous layer.
fn reorder(layered: &mut Layered, at: &mut [usize], is_down: bool, later_first: bool) {
    let count = layered.layers.len();
    for step in 1..count {
        let number = if is_down { step } else { count - 1 - step };
        let mut keyed: Vec<(f64, usize)> = layered.layers[number]
            .iter()
            .map(|&spot| {
                let spots = &layered.spots[spot];
                let beside = if is_down { &spots.above } else { &spots.below };
                let sum: usize = beside.iter().map(|&other| at[other]).sum();
                let mean = sum as f64 / beside.len() as f64;
                (if beside.is_empty() { at[spot] as f64 } else { mean }, spot)
            })
            .collect();
        if later_first {
            keyed.reverse();
        }
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        layered.layers[number] = keyed.into_iter().map(|(_, spot)| spot).collect();
        note(&layered.layers[number], at);
    }
}

/// Swaps neighbours as long as that removes crossings.
fn change_places(layered: &mut Layered, at: &mut [usize], comparisons: &mut usize) {
    for _round in 0..8 {
        let mut is_better = false;
        for number in 0..layered.layers.len() {
            for left in 1..layered.layers[number].len() {
                let (a, b) = (layered.layers[number][left - 1], layered.layers[number][left]);
                let (one, other) = (&layered.spots[a], &layered.spots[b]);
                let cost =
                    one.above.len() * other.above.len() + one.below.len() * other.below.len();
                let Some(rest) = comparisons.checked_sub(cost) else { return };
                *comparisons = rest;
                let gain = inversions(&one.above, &other.above, at)
                    + inversions(&one.below, &other.below, at);
                if gain > 0 {
                    layered.layers[number].swap(left - 1, left);
                    (at[a], at[b]) = (at[b], at[a]);
                    is_better = true;
                }
            }
        }
        if !is_better {
            return;
        }
    }
}

/// How many crossings a swap of the two spots would remove.
fn inversions(left: &[usize], right: &[usize], at: &[usize]) -> i64 {
    let mut gain = 0;
    for &l in left {
        for &r in right {
            gain += i64::from(at[l] > at[r]) - i64::from(at[l] < at[r]);
        }
    }
    gain
}

/// The number of crossing lines between all layers.
pub(super) fn crossings(layered: &Layered, at: &[usize]) -> usize {
    let mut total = 0;
    for pair in layered.layers.windows(2) {
        let width = pair[1].len();
        // A Fenwick tree: how many lines so far end at or before a position.
        let mut sums = vec![0usize; width + 1];
        let mut so_far = 0;
        let mut ends = Vec::new();
        for &spot in &pair[0] {
            ends.clear();
            ends.extend(layered.spots[spot].below.iter().map(|&below| at[below]));
            for &end in &ends {
                let mut node = end + 1;
                let mut before = 0;
                while node > 0 {
                    before += sums[node];
                    node &= node - 1;
                }
                total += so_far - before;
            }
            for &end in &ends {
                let mut node = end + 1;
                while node <= width {
                    sums[node] += 1;
                    node += node & node.wrapping_neg();
                }
            }
            so_far += ends.len();
        }
    }
    total
}
