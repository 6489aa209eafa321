//! Which scores right and wrong steps get.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Axes, INK, heading};
use crate::eval_prm::results::SetReport;
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look};
use crate::table::grouped;

pub struct Scores {
    set: String,
    threshold: f64,
    /// Name, steps, and the share of them in each bin, in per cent: right ones, wrong ones.
    classes: [(&'static str, usize, Vec<f64>); 2],
}

impl Scores {
    /// `None` unless there are steps that are right or wrong.
    pub fn of(set: &SetReport, threshold: f32) -> Option<Self> {
        let class = |name, of: fn(&(usize, usize)) -> usize| {
            let all: usize = set.histogram.iter().map(of).sum();
            let share = |bin| 100.0 * of(bin) as f64 / all.max(1) as f64;
            (name, all, set.histogram.iter().map(share).collect())
        };
        let classes = [class("right", |bin| bin.0), class("wrong", |bin| bin.1)];
        (classes[0].1 + classes[1].1 > 0).then(|| Self {
            set: set.name.clone(),
            threshold: f64::from(threshold),
            classes,
        })
    }

    fn heading(&self) -> String {
        heading("Scores of right and of wrong steps", &self.set)
    }
    fn legend(&self) -> Legend {
        let mut entries: Legend = Vec::new();
        for (number, (name, all, _)) in self.classes.iter().enumerate() {
            let name = format!("{} {name} steps", grouped(*all as u64));
            entries.push((Some(Look::bars(number + 1)), name));
        }
        entries.push((
            None,
            format!("line: the threshold, {}", self.threshold as f32),
        ));
        entries
    }

    fn draw<DB: DrawingBackend>(
        &self,
        _area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
        let highest = self.classes.iter().flat_map(|class| &class.2).copied();
        let highest = highest.fold(1.0, f64::max);
        let axes = Axes {
            title: self.heading(),
            x: 0.0..1.0,
            y: 0.0..highest * 1.05,
            x_labels: 11,
            digits: (1, 0),
            described: ("score", "steps of the class, %"),
        };
        let mut chart = axes.draw(plot, scale)?;
        for (number, (_, _, shares)) in self.classes.iter().enumerate() {
            let style = Look::of(number + 1).colour.filled();
            let width = 1.0 / shares.len() as f64;
            let bar = |(bin, &share): (usize, &f64)| {
                // Two bars side by side with a little room around them.
                let left = (bin as f64 + 0.08 + 0.42 * number as f64) * width;
                Rectangle::new([(left, 0.0), (left + 0.42 * width, share)], style)
            };
            let bars = shares.iter().enumerate().map(bar);
            chart.draw_series(bars).map_err(fault)?;
        }
        let line = vec![(self.threshold, 0.0), (self.threshold, highest * 1.05)];
        let line = PathElement::new(line, INK.stroke_width(scale));
        chart.draw_series([line]).map_err(fault)?;
        Ok(())
    }
}

figure!(Scores);
