//! What each probe does to the chains' scores.

use beamgen::eval::probes::{Effect, ProbeReport, Wanted};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{INK, PALE, heading};
use crate::eval_prm::probes::SetProbes;
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look, text};

pub struct Probes {
    set: String,
    threshold: f64,
    lines: Vec<Line>,
}

/// A probe.
struct Line {
    name: &'static str,
    words: String,
    look: Look,
    before: f64,
    after: f64,
    /// The ends of the change's interval, put at the mean score before.
    ends: Option<(f64, f64)>,
}

/// How the scores after each kind of change are drawn.
const KINDS: [(Wanted, &str); 3] = [
    (Wanted::Falls, "after: should fall"),
    (Wanted::NoGain, "after: should not rise"),
    (Wanted::Same, "after: should stay"),
];

impl Probes {
    /// `None` if no probe had a chain.
    pub fn of(set: &str, probes: &SetProbes, threshold: f32) -> Option<Self> {
        let line = |probe: &ProbeReport| {
            let kind = KINDS
                .iter()
                .position(|(wanted, _)| *wanted == probe.wanted)?;
            let before = probe.effects.get(Effect::Before)?.value;
            let change = probe.effects.get(Effect::Change)?;
            Some(Line {
                name: probe.name,
                words: probe.verdict.words.clone(),
                look: Look::points(kind + 1),
                before,
                after: before + change.value,
                ends: change
                    .interval
                    .map(|(low, high)| (before + low, before + high)),
            })
        };
        let lines: Vec<Line> = probes.probes.iter().filter_map(line).collect();
        (!lines.is_empty()).then(|| Self {
            set: set.to_owned(),
            threshold: f64::from(threshold),
            lines,
        })
    }

    fn heading(&self) -> String {
        heading("Scores of chains before and after a change", &self.set)
    }
    fn legend(&self) -> Legend {
        let mut entries: Legend = vec![(Some(Look::points(0)), "before".to_owned())];
        for (kind, (_, name)) in KINDS.iter().enumerate() {
            entries.push((Some(Look::points(kind + 1)), (*name).to_owned()));
        }
        entries.push((None, "bars: 95 % of the change".to_owned()));
        entries.push((
            None,
            format!("line: the threshold, {}", self.threshold as f32),
        ));
        entries
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
        let pixels = |points: i32| points * scale as i32;
        let count = self.lines.len() as f64;
        // The first probe on top.
        let mut chart = ChartBuilder::on(plot)
            .caption(self.heading(), text(18, scale, INK))
            .margin(10 * scale)
            .x_label_area_size(42 * scale)
            .y_label_area_size(230 * scale)
            .build_cartesian_2d(-0.02..1.02, -count..0.0)
            .map_err(fault)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .light_line_style(WHITE)
            .bold_line_style(PALE)
            .axis_style(INK)
            .x_labels(11)
            .x_desc("mean score of the chains")
            .x_label_formatter(&|x| format!("{x:.1}"))
            .label_style(text(13, scale, INK))
            .axis_desc_style(text(14, scale, INK))
            .draw()
            .map_err(fault)?;
        let line = vec![(self.threshold, -count), (self.threshold, 0.0)];
        let line = PathElement::new(line, INK.stroke_width(scale));
        chart.draw_series([line]).map_err(fault)?;
        for (number, of) in self.lines.iter().enumerate() {
            let at = |score: f64| chart.backend_coord(&(score, -0.5 - number as f64));
            let (before, after) = (at(of.before), at(of.after));
            area.draw(&PathElement::new(
                vec![before, after],
                PALE.stroke_width(2 * scale),
            ))
            .map_err(fault)?;
            if let Some((low, high)) = of.ends {
                let ends = vec![at(low.max(0.0)), at(high.min(1.0))];
                let style = of.look.colour.mix(0.5).stroke_width(2 * scale);
                area.draw(&PathElement::new(ends, style)).map_err(fault)?;
            }
            Look::points(0).mark(area, before, scale)?;
            of.look.mark(area, after, scale)?;
            let (left, y) = at(-0.02);
            for (words, up, size, ink) in [
                (of.name, 7, 13, INK),
                (of.words.as_str(), -8, 11, of.look.colour),
            ] {
                let style = text(size, scale, ink).pos(Pos::new(HPos::Right, VPos::Center));
                let label = Text::new(words.to_owned(), (left - pixels(8), y - pixels(up)), style);
                area.draw(&label).map_err(fault)?;
            }
        }
        Ok(())
    }
}

figure!(Probes);
