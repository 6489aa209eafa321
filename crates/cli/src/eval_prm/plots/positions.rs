//! Scores by the number of the step.

use beamgen::eval::quality::{Figure, Measure};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Axes, heading};
use crate::eval_prm::results::{Group, SetReport};
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look};

pub struct Positions {
    set: String,
    /// Name, and a figure at each position.
    lines: Vec<(&'static str, Vec<Option<Figure>>)>,
    /// What stands at each position.
    names: Vec<String>,
}

impl Positions {
    /// `None` without two positions.
    pub fn of(set: &SetReport) -> Option<Self> {
        let of =
            |figure: fn(&Group) -> Option<Figure>| set.by_position.iter().map(figure).collect();
        let right = |group: &Group| {
            let classed = group.counts.right + group.counts.wrong;
            (classed > 0).then(|| Figure {
                value: group.counts.right as f64 / classed as f64,
                interval: None,
            })
        };
        (set.by_position.len() > 1).then(|| Self {
            set: set.name.clone(),
            lines: vec![
                ("share of right steps", of(right)),
                (
                    "score of right steps",
                    of(|group| group.figures.get(Measure::ScoreRight)),
                ),
                (
                    "score of wrong steps",
                    of(|group| group.figures.get(Measure::ScoreWrong)),
                ),
            ],
            names: set
                .by_position
                .iter()
                .map(|group| group.name.clone())
                .collect(),
        })
    }

    fn heading(&self) -> String {
        heading("Scores by the number of the step", &self.set)
    }
    fn legend(&self) -> Legend {
        let named =
            |(number, (name, _)): (usize, &(&str, _))| (Some(Look::of(number)), (*name).to_owned());
        let mut entries: Legend = self.lines.iter().enumerate().map(named).collect();
        entries.push((None, "bars: 95 %".to_owned()));
        if let Some(last) = self.names.iter().find(|name| name.contains(' ')) {
            entries.push((None, format!("last: {last}")));
        }
        entries
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
        let count = self.names.len();
        let axes = Axes {
            title: self.heading(),
            x: 0.5..count as f64 + 0.5,
            y: -0.02..1.02,
            x_labels: count,
            digits: (0, 1),
            described: ("step", "mean score, or share of right steps"),
        };
        let chart = axes.draw(plot, scale)?;
        for (number, (_, figures)) in self.lines.iter().enumerate() {
            let look = Look::of(number);
            // Bars of one step side by side.
            let shift = 6 * scale as i32 * (number as i32 - 1);
            let at = |position: usize, y: f64| {
                let (x, y) = chart.backend_coord(&((position + 1) as f64, y));
                (x + shift, y)
            };
            let mut points = Vec::new();
            for (position, figure) in figures.iter().enumerate() {
                let Some(figure) = figure else { continue };
                points.push(at(position, figure.value));
                let Some((low, high)) = figure.interval else {
                    continue;
                };
                let ends = vec![at(position, low), at(position, high)];
                let style = look.colour.mix(0.5).stroke_width(scale);
                area.draw(&PathElement::new(ends, style)).map_err(fault)?;
            }
            look.line(area, &points, scale)?;
            for point in points {
                look.mark(area, point, scale)?;
            }
        }
        Ok(())
    }
}

figure!(Positions);
