//! Tokens saved by pruning, by the depth of the step, against best-of-N with as many chains.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::bench::measured::Measured;
use crate::bench::outline::Outline;
use crate::bench::outline::is_plain;
use crate::bench::row::{Depths, Row};
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look, text};

/// The figure of one set.
pub struct Saved {
    set: String,
    baseline: String,
    n: usize,
    lines: Vec<Line>,
    /// Most tokens the baseline spends on one depth, in the generator and in the scorer.
    largest: [f64; 2],
    /// Of generator and scorer those in which there is something to see.
    panels: Vec<usize>,
}

/// The two sides of a search that spend tokens.
const SIDES: [&str; 2] = ["generated", "scored"];

/// Differences below this share of what the baseline spends on its dearest step are nothing to see.
const LEAST: f64 = 0.05;

struct Line {
    run: String,
    look: Look,
    /// Mean tokens a problem saved in the generator and in the scorer, by depth.
    saved: [Vec<f64>; 2],
}

impl Saved {
    /// At the N that most runs share with the baseline, the largest of several; `None` if none
    /// does, or if none differs from the baseline by as much as can be seen.
    pub fn new(
        set: &str,
        outline: &Outline,
        runs: &[&str],
        cells: &[&Measured<'_>],
    ) -> Option<Self> {
        let baseline_run = outline.baseline.as_deref()?;
        // What shares the baseline's samples saves nothing in the generator and is no pruning.
        let prunes = |cell: &&&Measured<'_>| {
            runs.contains(&cell.cell.run.as_str()) && !is_plain(&cell.cell.config) && cell.n() > 1
        };
        let at = |n: usize| {
            cells
                .iter()
                .filter(prunes)
                .filter(move |cell| cell.n() == n)
        };
        let baselines = cells.iter().filter(|cell| cell.cell.run == baseline_run);
        let baseline = baselines
            .filter(|cell| at(cell.n()).next().is_some())
            .max_by_key(|cell| (at(cell.n()).count(), cell.n()))?;
        let spent = [
            by_depth(baseline, |depths| &depths.sampled),
            by_depth(baseline, |depths| &depths.scored),
        ];
        let line = |cell: &&Measured<'_>| {
            let own = [
                by_depth(cell, |depths| &depths.sampled),
                by_depth(cell, |depths| &depths.scored),
            ];
            let number = runs
                .iter()
                .position(|&run| run == cell.cell.run)
                .unwrap_or(0);
            let saved = |which: usize| {
                let depths = spent[which].len().max(own[which].len());
                let of = |tokens: &[f64], depth: usize| tokens.get(depth).copied().unwrap_or(0.0);
                (0..depths)
                    .map(|depth| of(&spent[which], depth) - of(&own[which], depth))
                    .collect()
            };
            Line {
                run: cell.cell.run.clone(),
                look: Look::of(number),
                saved: [saved(0), saved(1)],
            }
        };
        let mut lines: Vec<Line> = at(baseline.n()).map(line).collect();
        let largest = [0, 1].map(|which| spent[which].iter().copied().fold(1.0, f64::max));
        let most = |which: usize| {
            let all = lines.iter().flat_map(|line: &Line| &line.saved[which]);
            all.fold(0.0, |most, saved| f64::max(most, saved.abs()))
        };
        let is_seen = |&which: &usize| most(which) >= largest[which] * LEAST;
        let panels: Vec<usize> = (0..SIDES.len()).filter(is_seen).collect();
        if panels.is_empty() {
            return None;
        }
        // Deep steps that hardly any chain has.
        for (which, largest) in largest.iter().enumerate() {
            let ends = lines.iter().map(|line| {
                let seen = |saved: &f64| saved.abs() >= largest * LEAST / 10.0;
                line.saved[which]
                    .iter()
                    .rposition(seen)
                    .map_or(0, |at| at + 1)
            });
            let end = ends.max().unwrap_or(0).max(1);
            lines
                .iter_mut()
                .for_each(|line| line.saved[which].truncate(end));
        }
        Some(Self {
            set: set.to_owned(),
            baseline: baseline.cell.label(),
            n: baseline.n(),
            lines,
            largest,
            panels,
        })
    }

    fn heading(&self) -> String {
        format!(
            "Tokens saved by step against {} ({})",
            self.baseline, self.set
        )
    }
    fn legend(&self) -> Legend {
        let mut entries: Legend = self
            .lines
            .iter()
            .map(|line| (Some(line.look), format!("{}@{}", line.run, self.n)))
            .collect();
        for (which, side) in SIDES.iter().enumerate() {
            if !self.panels.contains(&which) {
                let share = LEAST * 100.0;
                entries.push((None, format!("{side}: all within {share:.0} %")));
            }
        }
        entries
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
        let plot = plot
            .margin(8 * scale, 0, 0, 0)
            .titled(&self.heading(), text(18, scale, RGBColor(30, 30, 30)))
            .map_err(fault)?;
        let panels = plot.split_evenly((1, self.panels.len()));
        for (panel, &which) in panels.iter().zip(&self.panels) {
            self.panel(area, panel, which, SIDES[which], scale)?;
        }
        Ok(())
    }

    fn panel<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        panel: &DrawingArea<DB, Shift>,
        which: usize,
        name: &str,
        scale: u32,
    ) -> anyhow::Result<()> {
        let values = || {
            self.lines
                .iter()
                .flat_map(|line| &line.saved[which])
                .copied()
        };
        let depths = self
            .lines
            .iter()
            .map(|line| line.saved[which].len())
            .max()
            .unwrap_or(1);
        let (least, most) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        // Differences that are small beside what is spent are to look small.
        let most = most.max(self.largest[which] * 0.1);
        let least = least.min(-self.largest[which] * 0.1);
        let room = (most - least) * 0.05;
        let (ink, pale) = (RGBColor(30, 30, 30), RGBColor(225, 225, 225));
        let mut chart = ChartBuilder::on(panel)
            .margin(10 * scale)
            .x_label_area_size(42 * scale)
            .y_label_area_size(58 * scale)
            .build_cartesian_2d(0.5..depths as f64 + 0.5, least - room..most + room)
            .map_err(fault)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(pale)
            .axis_style(ink)
            .x_labels(depths.min(16))
            .x_desc("step")
            .y_desc(format!("{name} tokens saved a problem"))
            .x_label_formatter(&|depth| format!("{depth:.0}"))
            .y_label_formatter(&|tokens| format!("{tokens:.0}"))
            .label_style(text(13, scale, ink))
            .axis_desc_style(text(14, scale, ink))
            .draw()
            .map_err(fault)?;
        let zero = vec![(0.5, 0.0), (depths as f64 + 0.5, 0.0)];
        chart
            .draw_series([PathElement::new(zero, ink.stroke_width(scale))])
            .map_err(fault)?;
        for line in &self.lines {
            let at = |(i, &saved): (usize, &f64)| chart.backend_coord(&((i + 1) as f64, saved));
            let pixels: Vec<(i32, i32)> = line.saved[which].iter().enumerate().map(at).collect();
            line.look.line(area, &pixels, scale)?;
            for &point in &pixels {
                line.look.mark(area, point, scale)?;
            }
        }
        Ok(())
    }
}

figure!(Saved);

/// Mean tokens a problem at each depth.
fn by_depth(cell: &Measured<'_>, of: impl Fn(&Depths) -> &Vec<u32>) -> Vec<f64> {
    let rows = || cell.rows.iter().flatten();
    let depths = rows().map(|row| of(&row.depths).len()).max().unwrap_or(0);
    (0..depths)
        .map(|depth| {
            cell.mean(|row: &Row| {
                of(&row.depths)
                    .get(depth)
                    .map_or(0.0, |&tokens| f64::from(tokens))
            })
        })
        .collect()
}
