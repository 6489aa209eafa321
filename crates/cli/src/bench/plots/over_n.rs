//! Gold accuracy and the reward model's own score over N, a panel for each run.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::bench::over_n::{OverN as Curve, Point, Share};
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look, text};

/// Panels side by side.
const ACROSS: usize = 4;

/// Most panels of a figure.
const MOST: usize = 12;

/// The figure of one set.
pub struct OverN {
    set: String,
    curves: Vec<Curve>,
    left_out: usize,
}

/// A line of a panel.
type Of = fn(&Point) -> Share;

impl OverN {
    /// `None` without a run of several N that a reward model chose in.
    pub fn new(set: &str, runs: &[&str], curves: &[&Curve]) -> Option<Self> {
        let of_runs = curves.iter().filter(|of| runs.contains(&of.run.as_str()));
        let mut curves: Vec<Curve> = of_runs.map(|&of| of.clone()).collect();
        let left_out = curves.len().saturating_sub(MOST);
        curves.truncate(MOST);
        (!curves.is_empty()).then(|| Self {
            set: set.to_owned(),
            curves,
            left_out,
        })
    }

    fn heading(&self) -> String {
        format!("Gold accuracy and reward over N ({})", self.set)
    }

    fn lines() -> [(Look, &'static str, Of); 2] {
        [
            (Look::of(1), "gold accuracy, %", |point| point.accuracy),
            (Look::of(2), "reward \u{d7} 100", |point| point.reward),
        ]
    }

    fn legend(&self) -> Legend {
        let mut entries: Legend = Self::lines()
            .into_iter()
            .map(|(look, name, _)| (Some(look), name.to_owned()))
            .collect();
        entries.push((None, "bars: 95 %".to_owned()));
        if self.curves.iter().any(|curve| curve.turning.is_some()) {
            entries.push((None, "line: turning point".to_owned()));
        } else {
            entries.push((None, "no turning point".to_owned()));
        }
        if self.left_out > 0 {
            entries.push((None, format!("{} more runs left out", self.left_out)));
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
        let across = self.curves.len().min(ACROSS);
        let panels = plot.split_evenly((self.curves.len().div_ceil(across), across));
        for (panel, curve) in panels.iter().zip(&self.curves) {
            self.panel(area, panel, curve, scale)?;
        }
        Ok(())
    }

    /// The least that any line or bar of the figure shows, so that all panels have the same axis.
    fn least(&self) -> f64 {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let ends = points.flat_map(|point| [point.accuracy.low, point.reward.low]);
        (100.0 * ends.fold(1.0, f64::min) - 3.0).max(0.0)
    }

    fn panel<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        panel: &DrawingArea<DB, Shift>,
        curve: &Curve,
        scale: u32,
    ) -> anyhow::Result<()> {
        let pixels = |points: i32| points * scale as i32;
        let (ink, pale) = (RGBColor(30, 30, 30), RGBColor(225, 225, 225));
        let x = |n: usize| (n.max(1) as f64).log2();
        let ends = (curve.points.first(), curve.points.last());
        let (first, last) = ends.0.zip(ends.1).map_or((1, 1), |(a, b)| (a.n, b.n));
        let bottom = self.least();
        let mut chart = ChartBuilder::on(panel)
            .caption(&curve.run, text(14, scale, ink))
            .margin(6 * scale)
            .x_label_area_size(40 * scale)
            .y_label_area_size(34 * scale)
            .build_cartesian_2d(x(first) - 0.4..x(last) + 0.4, bottom..102.0)
            .map_err(fault)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(6)
            .light_line_style(WHITE)
            .bold_line_style(pale)
            .axis_style(ink)
            .x_desc("N (log)")
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(text(12, scale, ink))
            .axis_desc_style(text(13, scale, ink))
            .draw()
            .map_err(fault)?;
        let at = |n: usize, percent: f64| chart.backend_coord(&(x(n), percent));
        if let Some(turning) = curve.turning {
            let line = vec![at(turning.n, bottom), at(turning.n, 102.0)];
            area.draw(&PathElement::new(line, ink.stroke_width(scale)))
                .map_err(fault)?;
            let (left, y) = at(turning.n, bottom);
            let style = text(12, scale, ink).pos(Pos::new(HPos::Left, VPos::Bottom));
            let words = format!("best: {}", turning.n);
            let label = Text::new(words, (left + pixels(4), y - pixels(4)), style);
            area.draw(&label).map_err(fault)?;
        }
        for point in &curve.points {
            let (middle, y) = at(point.n, bottom);
            let style = text(12, scale, ink).pos(Pos::new(HPos::Center, VPos::Top));
            let label = Text::new(point.n.to_string(), (middle, y + pixels(6)), style);
            area.draw(&label).map_err(fault)?;
        }
        for (number, (look, _, of)) in Self::lines().into_iter().enumerate() {
            // Bars of one N side by side.
            let shift = pixels(4) * (2 * number as i32 - 1);
            let place = |n: usize, share: f64| {
                let (x, y) = at(n, 100.0 * share);
                (x + shift, y)
            };
            let mut marks = Vec::new();
            for point in &curve.points {
                let share = of(point);
                marks.push(place(point.n, share.value));
                let ends = vec![place(point.n, share.low), place(point.n, share.high)];
                let style = look.colour.mix(0.5).stroke_width(scale);
                area.draw(&PathElement::new(ends, style)).map_err(fault)?;
            }
            look.line(area, &marks, scale)?;
            for mark in marks {
                look.mark(area, mark, scale)?;
            }
        }
        Ok(())
    }
}

figure!(OverN);
