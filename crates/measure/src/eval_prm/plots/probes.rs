//! The figure of the probes' effects: each probe's mean score before and after its change.

use beamgen::eval::probes::{Effect, Wanted};

use super::{heading, threshold_note};
use crate::eval_prm::results::SetReport;
use crate::report::chart::{Chart, HPos, Item, VPos, at, axis, guide, panel};
use crate::report::style::{Color, INK, Look, PALE, named, note};

/// The wanted reactions, each with its entry in the legend.
const KINDS: [(Wanted, &str); 3] = [
    (Wanted::Falls, "after: should fall"),
    (Wanted::NoGain, "after: should not rise"),
    (Wanted::Same, "after: should stay"),
];

/// Makes the figure of a set, or returns `None` if no probe changed a chain.
pub(super) fn probes(set: &SetReport, threshold: f32) -> Option<Chart> {
    let mut rows = Vec::new();
    for probe in &set.probes.as_ref()?.probes {
        let kind = KINDS.iter().position(|kind| kind.0 == probe.wanted)?;
        let [before, change] = [Effect::Before, Effect::Change].map(|of| probe.effects.get(of));
        if let Some((before, change)) = before.zip(change) {
            rows.push((probe, Look::points(kind + 1), before.value, change));
        }
    }
    let (line, count) = (f64::from(threshold), rows.len() as f64);
    let mut items = vec![guide((line, -count), (line, 0.0))];
    // The vertical coordinate falls from 0, so the first probe is at the top.
    for (number, (probe, look, before, change)) in rows.iter().enumerate() {
        let place = |score: f64| at(score, -0.5 - number as f64);
        let ends = [place(*before), place(before + change.value)];
        items.push(Item::Stroke(PALE.into(), 2, ends));
        if let Some((low, high)) = change.interval {
            let ends = [(before + low).max(0.0), (before + high).min(1.0)].map(place);
            items.push(Item::Stroke(look.colour.mix(0.5), 2, ends));
        }
        items.push(Item::Mark(Look::points(0), ends[0]));
        items.push(Item::Mark(*look, ends[1]));
        let anchor = (HPos::Right, VPos::Center);
        let name = place(-0.02).moved(-8, -7);
        items.push(Item::Text(name, probe.name.to_owned(), 13, INK, anchor));
        let (verdict, words) = (place(-0.02).moved(-8, 8), probe.verdict.words.clone());
        items.push(Item::Text(verdict, words, 11, look.colour, anchor));
    }
    let mut legend = vec![named(Look::points(0), "before")];
    legend.extend(
        (1..)
            .zip(KINDS)
            .map(|(kind, (_, name))| named(Look::points(kind), name)),
    );
    legend.push(note("bars: 95 % of the change"));
    legend.push(threshold_note(threshold));
    let x = axis(-0.02..1.02, "mean score of the chains", Some(11), 1);
    let mut panel = panel(x, axis(-count..0.0, "", Some(0), 0), items);
    panel.sizes.y_area = 230;
    let heading = heading("Scores of chains before and after a change", set);
    (!rows.is_empty()).then(|| Chart::one(heading, legend, panel))
}
