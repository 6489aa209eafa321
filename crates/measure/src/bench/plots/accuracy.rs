//! The figure of accuracy over cost, with a line for each run. The points of a line are its cells, one for each N.

use crate::bench::against::Axis;
use crate::bench::measured::{Measured, mean};
use crate::grouped;
use crate::report::chart::{self, Chart, HPos, Item, Numbered, VPos, at, panel};
use crate::report::style::{INK, Look, PALE, named, note};

/// Makes the figure of a set for the kind of cost `over`.
pub(super) fn accuracy(set: &str, over: Axis, runs: &[&str], cells: &[&Measured<'_>]) -> Chart {
    let costs = cells
        .iter()
        .filter(|cell| runs.contains(&cell.cell.run.as_str()))
        .map(|cell| (mean(over.of(cell)), cell.accuracy()))
        .filter(|&(cost, _)| cost > 0.0);
    let costs: Vec<_> = costs.collect();
    let (mut lines, mut legend) = (Vec::new(), Vec::new());
    for (number, &run) in runs.iter().enumerate() {
        let of_run = cells.iter().filter(|cell| cell.cell.run == run);
        let mut points: Vec<Numbered> = of_run.filter_map(|cell| point(cell, over)).collect();
        // The line follows N, although the cost may not rise with N.
        points.sort_by_key(|point| point.number);
        if !points.is_empty() {
            legend.push(named(Look::of(number), run));
            lines.push((Look::of(number), points));
        }
    }
    legend.extend(["numbers: N", "bars: 95 %", "equal costs: side by side"].map(note));
    // A logarithmic axis needs a positive range even if there are no costs.
    let most = costs
        .iter()
        .map(|of| of.0)
        .fold(f64::MIN_POSITIVE, f64::max);
    let least = costs.iter().map(|of| of.0).fold(most, f64::min);
    let top = costs.iter().map(|of| of.1.high).fold(0.0, f64::max);
    let bottom = costs.iter().map(|of| of.1.low).fold(top, f64::min);
    let y = (bottom * 100.0 - 3.0).max(0.0)..(top * 100.0 + 3.0).min(101.0);
    // The ticks of the library are too dense within a decade, so the figure draws its own.
    let mut items = Vec::new();
    // The factor 1.3 leaves room for markers at both ends.
    for tick in ticks(least / 1.3, most * 1.3) {
        let ends = [y.start, y.end].map(|y| at(tick.log10(), y));
        items.push(Item::Stroke(PALE.into(), 0, ends));
        let anchor = (HPos::Center, VPos::Top);
        items.push(Item::Text(
            ends[0].moved(0, 7),
            short(tick),
            13,
            INK,
            anchor,
        ));
    }
    items.push(Item::Crowd(lines));
    let (before, unit) = match over {
        Axis::Seconds => ("wall-clock ", ""),
        Axis::Flops => ("", ""),
        Axis::Generated | Axis::Tokens => ("", "tokens "),
    };
    let heading = format!("{unit}{}", over.name());
    let name = format!("{before}{heading} a problem (log)");
    let x = (least / 1.3).log10()..(most * 1.3).log10();
    let x = chart::axis(x, name, Some(0), 0);
    let y = chart::axis(y, "accuracy, %", None, 0);
    let heading = format!("Accuracy over {heading} ({set})");
    Chart::one(heading, legend, panel(x, y, items))
}

/// Returns the point of a cell, or `None` for a cost of 0, which a logarithmic axis cannot show.
fn point(cell: &Measured<'_>, over: Axis) -> Option<Numbered> {
    let (cost, share) = (mean(over.of(cell)), cell.accuracy());
    (cost > 0.0).then(|| Numbered {
        number: cell.n(),
        x: cost.log10(),
        y: share.mean * 100.0,
        bar: (share.low * 100.0, share.high * 100.0),
    })
}

/// Returns 1, 2 and 5 of each decade between `from` and `to`, or only 1 if the range is long.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
    // Over more than 3.5 decades, three labels for each decade would overlap.
    let steps: &[f64] = if to / from > 3e3 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    all.filter(|tick| (from..=to).contains(tick)).collect()
}

/// Formats a tick, for example as `1 000` or `0.02`.
fn short(tick: f64) -> String {
    match tick {
        // The operations of a search have too many digits to write them all.
        large if large >= 1e7 => format!("{large:e}"),
        whole if whole >= 1.0 => grouped(whole.round() as u64),
        small => {
            // The number of digits up to the first significant one.
            let digits = (-small.log10()).ceil() as usize;
            format!("{small:.digits$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_in_the_range() {
        let labels = |from, to| ticks(from, to).into_iter().map(short).collect::<Vec<_>>();
        assert_eq!(
            labels(60.0, 3000.0),
            ["100", "200", "500", "1 000", "2 000"]
        );
        assert_eq!(
            labels(0.004, 0.3),
            ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2"]
        );
        assert_eq!(
            labels(50.0, 200_000.0),
            ["100", "1 000", "10 000", "100 000"]
        );
    }
}
