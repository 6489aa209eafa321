//! The figure of right answers and of those by sound chains, with a bar for each cell.

use crate::bench::measured::Measured;
use crate::bench::soundness::sound;
use crate::report::chart::{Chart, HPos, Item, VPos, at, axis, panel};
use crate::report::style::{INK, Look, named};

/// The largest number of bars; further cells are left out.
const MOST: usize = 24;

/// Makes the figure of a set, or returns `None` if no cell of these runs was audited.
pub(super) fn soundness(set: &str, runs: &[&str], cells: &[&Measured<'_>]) -> Option<Chart> {
    let of_runs = cells
        .iter()
        .filter(|cell| runs.contains(&cell.cell.run.as_str()));
    let audited = of_runs.filter_map(|cell| Some((cell, sound(cell)?)));
    let audited: Vec<_> = audited.take(MOST).collect();
    if audited.is_empty() {
        return None;
    }
    let [merely, whole] = [5, 6].map(Look::bars);
    let mut items = Vec::new();
    for (number, (cell, found)) in audited.iter().enumerate() {
        // The axis points up, and the first cell is shown at the top.
        let y = (audited.len() - number) as f64;
        // The second bar covers the start of the first one, since sound answers are among the right ones.
        for (look, share) in [(merely, cell.accuracy().mean), (whole, found.share.share)] {
            let ends = [at(0.0, y - 0.35), at(100.0 * share, y + 0.35)];
            items.push(Item::Block(look.colour, ends));
        }
        let anchor = (HPos::Left, VPos::Center);
        let name = cell.cell.label();
        items.push(Item::Text(at(0.0, y).moved(6, 0), name, 13, INK, anchor));
    }
    let x = axis(0.0..100.0, "problems, %", None, 0);
    let y = axis(0.4..audited.len() as f64 + 0.6, "", Some(0), 0);
    let legend = vec![
        named(whole, "right and sound"),
        named(merely, "right, a step is wrong"),
    ];
    let title = format!("Right, and right by a sound chain ({set})");
    Some(Chart::one(title, legend, panel(x, y, items)))
}
