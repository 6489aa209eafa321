//! Positions of labels and bars in pixels, chosen so that labels cover neither each other nor a marker.

/// A box with its edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

impl Rect {
    /// Returns the box with this centre, width and height; odd sizes extend to the right and down.
    pub(super) fn around((x, y): (i32, i32), (width, height): (i32, i32)) -> Self {
        Self {
            left: x - width / 2,
            top: y - height / 2,
            right: x + width - width / 2,
            bottom: y + height - height / 2,
        }
    }

    pub(super) fn centre(self) -> (i32, i32) {
        ((self.left + self.right) / 2, (self.top + self.bottom) / 2)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn is_within(self, other: Self) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }

    /// Returns whether a segment passes through the box (Liang and Barsky, 1984).
    fn is_crossed_by(self, [(x, y), (to_x, to_y)]: Segment) -> bool {
        let (dx, dy) = (f64::from(to_x - x), f64::from(to_y - y));
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (step, room) in [
            (-dx, x - self.left),
            (dx, self.right - x),
            (-dy, y - self.top),
            (dy, self.bottom - y),
        ] {
            let room = f64::from(room);
            // A segment parallel to this edge is entirely on one side of it.
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                enters = enters.max(room / step);
            } else {
                leaves = leaves.min(room / step);
            }
        }
        enters <= leaves
    }
}

/// The two ends of a line.
pub(super) type Segment = [(i32, i32); 2];

/// The number of distances from a marker at which a label is tried.
const RINGS: i32 = 16;

/// The directions from a marker in which a label is tried, preferred ones first.
const DIRECTIONS: [(f64, f64); 12] = [
    (0.8, -1.0),
    (0.8, 1.0),
    (-0.8, -1.0),
    (-0.8, 1.0),
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (0.4, -0.9),
    (0.4, 0.9),
    (-0.4, -0.9),
    (-0.4, 0.9),
];

/// The obstacles that labels should avoid.
pub(super) struct Around<'a> {
    /// The boxes of markers, which a label covers only if every position covers something.
    pub markers: &'a [Rect],
    /// The lines, which a label crosses only if all near positions are occupied.
    pub lines: &'a [Segment],
    /// The plotting area, which a label leaves only if every position is occupied.
    pub area: Rect,
}

/// Returns a box of the given size for the label of each marker, as near to the marker as possible.
pub(super) fn place(markers: &[Rect], sizes: &[(i32, i32)], around: &Around<'_>) -> Vec<Rect> {
    let mut placed: Vec<Rect> = Vec::with_capacity(markers.len());
    for (&marker, &size) in markers.iter().zip(sizes) {
        let best = candidates(marker, size).min_by_key(|&(rect, nearness): &(Rect, i32)| {
            // Labels that have a position are obstacles for the following ones.
            let covered = around.markers.iter().chain(&placed);
            let covered = covered.filter(|other| rect.overlaps(**other)).count() as i32;
            let crossed = around
                .lines
                .iter()
                .filter(|line| rect.is_crossed_by(**line));
            let outside = i32::from(!rect.is_within(around.area));
            // Covering or leaving costs more than any distance. Crossing a line costs about as much as two rings.
            10_000 * (covered + outside) + 40 * crossed.count() as i32 + nearness
        });
        placed.push(best.map_or(marker, |(rect, _)| rect));
    }
    placed
}

/// Returns possible boxes for the label of a marker, each with the cost of its distance and direction.
fn candidates(marker: Rect, size: (i32, i32)) -> impl Iterator<Item = (Rect, i32)> {
    let (x, y) = marker.centre();
    (0..RINGS).flat_map(move |ring| {
        let reach = (marker.right - marker.left) / 2 + 1 + ring * size.1 / 2;
        let directions = DIRECTIONS.iter().zip(0..);
        directions.map(move |(&(right, down), number)| {
            let along = |share: f64, extent: i32| {
                (share * f64::from(reach) + share * f64::from(extent) / 2.0).round() as i32
            };
            let centre = (x + along(right, size.0), y + along(down, size.1));
            // One ring costs more than all directions, so nearer rings are preferred.
            (Rect::around(centre, size), 24 * ring + number)
        })
    })
}

/// Returns the horizontal shift of each bar after which overlapping bars are `apart` pixels from each other. A group
/// of overlapping bars keeps its centre and its order.
pub(super) fn side_by_side(bars: &[Rect], apart: i32) -> Vec<i32> {
    // Bars are in one group if they overlap, directly or through other bars.
    let mut group: Vec<usize> = (0..bars.len()).collect();
    for (at, bar) in bars.iter().enumerate() {
        for other in 0..at {
            if bar.overlaps(bars[other]) {
                // This bar connects two groups, which become one.
                let (from, to) = (group[at], group[other]);
                group
                    .iter_mut()
                    .filter(|of| **of == from)
                    .for_each(|of| *of = to);
            }
        }
    }
    (0..bars.len())
        .map(|at| {
            let of_group = (0..bars.len()).filter(|&other| group[other] == group[at]);
            let members: Vec<usize> = of_group.collect();
            let place = members.iter().position(|&member| member == at).unwrap_or(0) as i32;
            (2 * place - (members.len() as i32 - 1)) * apart / 2
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AREA: Rect = Rect {
        left: 60,
        top: 40,
        right: 860,
        bottom: 560,
    };

    fn marker(at: (i32, i32)) -> Rect {
        Rect::around(at, (10, 10))
    }

    proptest! {
        /// Up to 30 markers are placed at random, as many as in the fullest figure of the reports. Some have the same
        /// position, and lines join them.
        #[test]
        fn labels_cover_no_marker_and_no_other_label(
            mut at in proptest::collection::vec((70..850_i32, 50..550_i32), 1..24),
            digits in proptest::collection::vec(1..5_i32, 30),
            twins in 0..6_usize,
        ) {
            let again: Vec<(i32, i32)> = at.iter().copied().take(twins).collect();
            at.extend(again);
            let markers: Vec<Rect> = at.iter().copied().map(marker).collect();
            let sizes: Vec<(i32, i32)> = digits[..at.len()].iter().map(|n| (7 * n, 13)).collect();
            let lines: Vec<Segment> = at.windows(2).map(|ends| [ends[0], ends[1]]).collect();
            let around = Around { markers: &markers, lines: &lines, area: AREA };
            let labels = place(&markers, &sizes, &around);
            prop_assert_eq!(labels.len(), at.len());
            for (number, label) in labels.iter().enumerate() {
                prop_assert!(label.is_within(AREA), "{label:?}");
                prop_assert!(!markers.iter().any(|marker| label.overlaps(*marker)), "{label:?}");
                prop_assert!(!labels[..number].iter().any(|other| label.overlaps(*other)));
            }
        }
    }

    #[test]
    fn a_label_is_next_to_its_marker_if_there_is_room() {
        let markers = [marker((100, 100))];
        let around = Around {
            markers: &markers,
            lines: &[],
            area: AREA,
        };
        let label = place(&markers, &[(14, 13)], &around)[0];
        assert!(
            label.left > 100 && label.right < 125 && label.bottom < 100,
            "{label:?}"
        );
        let line = [[(90, 110), (140, 60)]];
        let around = Around {
            lines: &line,
            ..around
        };
        let label = place(&markers, &[(14, 13)], &around)[0];
        assert!(!label.is_crossed_by(line[0]), "{label:?}");
    }

    fn bar(x: i32, top: i32) -> Rect {
        Rect {
            left: x - 2,
            top,
            right: x + 2,
            bottom: top + 50,
        }
    }

    #[test]
    fn only_bars_that_touch_are_moved() {
        let bars = [bar(100, 0), bar(300, 0), bar(101, 20), bar(102, 200)];
        assert_eq!(side_by_side(&bars, 10), [-5, 0, 5, 0]);
        assert_eq!(side_by_side(&[bar(0, 0); 3], 10), [-10, 0, 10]);
        assert_eq!(side_by_side(&[], 10), [0; 0]);
    }
}
