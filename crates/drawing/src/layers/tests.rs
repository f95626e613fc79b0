use super::*;

/// Parses links from a text such as `a>b b>c`, over as many boxes as there are letters.
fn links(text: &str) -> (usize, Vec<Link>) {
    let number = |letter: &str| usize::from(letter.as_bytes()[0] - b'a');
    let links: Vec<Link> = text
        .split_whitespace()
        .map(|pair| {
            let (from, to) = pair.split_once('>').expect("from>to");
            link(number(from), number(to))
        })
        .collect();
    let count = links.iter().map(|l| l.from.max(l.to) + 1).max().unwrap_or(0);
    (count, links)
}

fn link(from: usize, to: usize) -> Link {
    Link { from, to, label: None, is_back: false }
}

fn sizes(count: usize) -> Vec<Size> {
    (0..count).map(|n| Size { width: 90.0 + (n * 37 % 130) as f64, height: 46.0 }).collect()
}

/// Lays out a graph and checks what must hold for any graph.
fn check(count: usize, links: &[Link]) -> Placed {
    let sizes = sizes(count);
    let placed = place(&sizes, links);
    let is_back = backward(count, links);
    assert_eq!((placed.corners.len(), placed.routes.len()), (count, links.len()));
    for a in 0..count {
        let (at, size) = (placed.corners[a], sizes[a]);
        assert!(at.x >= -0.01 && at.x + size.width <= placed.size.width + 0.01, "{a} is outside");
        assert!(at.y >= -0.01 && at.y + size.height <= placed.size.height + 0.01, "{a} is outside");
        for (b, (other, far)) in placed.corners.iter().zip(&sizes).enumerate().take(a) {
            let beside = at.x + size.width < other.x || other.x + far.width < at.x;
            let below = at.y + size.height < other.y || other.y + far.height < at.y;
            assert!(beside || below, "{a} and {b} overlap");
        }
    }
    for (number, link) in links.iter().enumerate() {
        let route = &placed.routes[number];
        assert!(route.points.len() > 1, "{link:?} has a line");
        assert_eq!(route.label.is_some(), link.label.is_some());
        if is_back[number] {
            runs_around(route, link, &placed, &sizes);
            continue;
        }
        let (from, to) = (placed.corners[link.from], placed.corners[link.to]);
        assert!(from.y + sizes[link.from].height < to.y, "{link:?} leads down");
        assert!(route.points.windows(2).all(|pair| pair[0].y <= pair[1].y), "{link:?}");
        let ends = [link.from, link.to];
        for other in (0..count).filter(|other| !ends.contains(other)) {
            let (corner, size) = (placed.corners[other], sizes[other]);
            for straight in route.points[1..].chunks(2).filter(|pair| pair.len() == 2) {
                let is_beside = straight[0].x < corner.x || straight[0].x > corner.x + size.width;
                let is_apart = straight[1].y < corner.y || straight[0].y > corner.y + size.height;
                assert!(is_beside || is_apart, "{link:?} runs over {other}");
            }
        }
    }
    placed
}

/// Checks that a line at the side touches no box but its own.
fn runs_around(route: &Route, link: &Link, placed: &Placed, sizes: &[Size]) {
    for pair in route.points.windows(2).filter(|_| route.course == Course::Aside) {
        let (left, right) = (pair[0].x.min(pair[1].x), pair[0].x.max(pair[1].x));
        let (top, bottom) = (pair[0].y.min(pair[1].y), pair[0].y.max(pair[1].y));
        for (other, (corner, size)) in placed.corners.iter().zip(sizes).enumerate() {
            let beside = right <= corner.x || left >= corner.x + size.width;
            let apart = bottom <= corner.y || top >= corner.y + size.height;
            assert!(beside || apart, "{link:?} runs over {other}");
        }
    }
}

/// The number of crossing lines in all parts of a graph.
fn crossing_lines(count: usize, links: &[Link]) -> usize {
    let is_back = backward(count, links);
    let sizes = sizes(count);
    let each = parts(count, links).into_iter().map(|part| {
        let mut layered = Layered::new(&part, &sizes, links, &is_back);
        crossings::reduce(&mut layered);
        let mut at = vec![0; layered.spots.len()];
        for layer in &layered.layers {
            layer.iter().enumerate().for_each(|(index, &spot)| at[spot] = index);
        }
        let counted = crossings::crossings(&layered, &at);
        assert_eq!(counted, slow_crossings(&layered, &at));
        counted
    });
    each.sum()
}

/// Counts crossings by comparing every two lines between two layers.
fn slow_crossings(layered: &Layered, at: &[usize]) -> usize {
    let mut crossed = 0;
    for layer in &layered.layers {
        let lines: Vec<_> = layer
            .iter()
            .flat_map(|&up| layered.spots[up].below.iter().map(move |&down| (at[up], at[down])))
            .collect();
        for (number, a) in lines.iter().enumerate() {
            let crosses =
                |b: &&(usize, usize)| (a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1);
            crossed += lines[..number].iter().filter(crosses).count();
        }
    }
    crossed
}

/// Pseudo-random numbers that are always the same.
fn chance(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

fn random_graph(count: usize, per_box: usize, seed: u64) -> Vec<Link> {
    let mut below = chance(seed);
    (1..count).flat_map(|to| (0..per_box).map(move |_| to)).map(|to| link(below(to), to)).collect()
}

#[test]
fn known_graphs_have_no_crossings() {
    let cases = [
        ("a>b b>c c>d", 0),
        ("a>b a>c b>d c>d", 0),
        // Two diamonds, declared crosswise.
        ("a>d a>c a>b b>g c>f d>e e>h f>h g>h", 0),
        // A tree needs no crossing.
        ("a>b a>c b>d b>e c>f c>g d>h e>i f>j g>k", 0),
        // Pairs that have to be swapped.
        ("a>e b>d c>f d>g e>h f>i", 0),
        // A long line beside a chain, and one that skips layers.
        ("a>b b>c c>d d>e a>e b>e", 0),
        ("a>c a>d b>c b>d", 1),
        // Three boxes each connected with three: at best, nine pairs of lines cross.
        ("a>d a>e a>f b>d b>e b>f c>d c>e c>f", 9),
    ];
    for (text, expected) in cases {
        let (count, links) = links(text);
        check(count, &links);
        assert_eq!(crossing_lines(count, &links), expected, "{text}");
    }
}

#[test]
fn a_diamond_is_even() {
    let (count, links) = links("a>b a>c b>d c>d");
    let size = Size { width: 100.0, height: 46.0 };
    let placed = place(&vec![size; count], &links);
    let [a, b, c, d] = placed.corners[..] else { panic!("four boxes") };
    assert_eq!((a.x, b.y), (d.x, c.y));
    assert_eq!(b.x + c.x, 2.0 * a.x);
}

#[test]
fn a_chain_is_straight() {
    let links: Vec<Link> = (1..200).map(|to| link(to - 1, to)).collect();
    let placed = place(&vec![Size { width: 100.0, height: 46.0 }; 200], &links);
    assert!(placed.corners.iter().all(|corner| corner.x == 0.0));
    check(200, &links);
}

#[test]
fn a_ladder_of_two_hundred() {
    let rungs = (0..100).flat_map(|n| [(2 * n, 2 * n + 2), (2 * n + 1, 2 * n + 3)]);
    let links: Vec<Link> =
        rungs.filter(|&(_, to)| to < 200).map(|(from, to)| link(from, to)).collect();
    let across: Vec<Link> = (0..99).map(|n| link(2 * n, 2 * n + 3)).collect();
    let all = [links, across].concat();
    check(200, &all);
    assert_eq!(crossing_lines(200, &all), 0);
}

#[test]
fn fan_outs_and_joins() {
    let mut links = Vec::new();
    for item in 1..=60 {
        links.extend([link(0, item), link(item, 61)]);
    }
    links.extend((62..=100).map(|item| link(61, item)));
    check(101, &links);
    assert_eq!(crossing_lines(101, &links), 0);
}

#[test]
fn parts_stand_apart() {
    let (count, links) = links("a>b c>d e>f g>g h>i i>h");
    let placed = check(count + 3, &links);
    assert!(placed.size.width < 1400.0, "rows: {}", placed.size.width);
    check(150, &[]);
}

#[test]
fn cycles_and_loops_are_drawn_aside() {
    let cases = ["a>b b>c c>a", "a>a", "a>b b>a", "a>b b>b b>c c>b c>a", "a>b a>c b>a c>a a>a"];
    for text in cases {
        let (count, links) = links(text);
        let placed = check(count, &links);
        let aside = placed.routes.iter().filter(|route| route.course != Course::Down).count();
        let expected = backward(count, &links).iter().filter(|&&back| back).count();
        assert_eq!(aside, expected, "{text}");
        assert!(expected > 0, "{text}");
    }
}

#[test]
fn what_leads_back_on_purpose_does_not_pull_down() {
    let (count, mut graph) = links("a>b b>c c>b");
    graph[2].is_back = true;
    let placed = check(count, &graph);
    assert_eq!(placed.routes[2].course, Course::Aside);
    // This holds even for the only link between two boxes.
    let only = [Link { is_back: true, ..link(0, 1) }];
    check(2, &only);
}

#[test]
fn labels_have_room() {
    let label = Some(Size { width: 120.0, height: 16.0 });
    let (count, mut graph) = links("a>b a>c a>d b>e c>e d>e e>a e>e a>e");
    graph.iter_mut().for_each(|link| link.label = label);
    let placed = check(count, &graph);
    let middles: Vec<Point> = placed.routes.iter().filter_map(|route| route.label).collect();
    for (number, a) in middles.iter().enumerate() {
        for b in &middles[..number] {
            assert!((a.x - b.x).abs() >= 120.0 || (a.y - b.y).abs() >= 16.0, "{a:?} {b:?}");
        }
        for (corner, size) in placed.corners.iter().zip(sizes(count)) {
            let beside = a.x + 60.0 <= corner.x || a.x - 60.0 >= corner.x + size.width;
            let apart = a.y + 8.0 <= corner.y || a.y - 8.0 >= corner.y + size.height;
            assert!(beside || apart, "{a:?} lies on {corner:?}");
        }
    }
}

#[test]
fn the_same_line_twice() {
    let (count, links) = links("a>b a>b a>b b>c");
    check(count, &links);
}

#[test]
fn two_hundred_at_random() {
    for seed in 0..3 {
        let links = random_graph(200, 2, seed);
        let one = check(200, &links);
        let again = place(&sizes(200), &links);
        assert_eq!(one.corners, again.corners, "the same graph, the same drawing");
    }
    for seed in 0..200 {
        let mut below = chance(seed + 99);
        let count = 2 + below(14);
        let mut links: Vec<Link> =
            (0..count * 2).map(|_| link(below(count), below(count))).collect();
        for link in &mut links {
            link.is_back = below(9) == 0;
            link.label = (below(4) == 0).then_some(Size { width: 60.0, height: 16.0 });
        }
        check(count, &links);
    }
}

#[test]
fn a_large_graph_is_not_torn_apart() {
    let mut below = chance(7);
    let steps = (1..200_usize).flat_map(|to| [to, to]);
    let links: Vec<Link> = steps.map(|to| link(to - 1 - below(to.min(12)), to)).collect();
    let placed = check(200, &links);
    assert!(placed.size.width < 2500.0, "{} wide", placed.size.width);
}

#[test]
fn nothing_at_all() {
    let placed = place(&[], &[]);
    assert_eq!(placed.size, Size { width: 0.0, height: 0.0 });
}
