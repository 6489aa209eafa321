//! What every threshold flags: the model's curve beside those of the baselines.

use beamgen::eval::quality::{Measure, RocPoint};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Axes, INK, heading};
use crate::eval_prm::results::{Scorer, SetReport};
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look};
use crate::table::grouped;

pub struct Roc {
    set: String,
    curves: Vec<(String, Vec<RocPoint>)>,
    notes: Vec<String>,
    /// Where the threshold of the report stands.
    at: Option<(RocPoint, f32)>,
}

/// Most points of a curve that are drawn.
const MOST_POINTS: usize = 500;

impl Roc {
    /// `None` unless there are right and wrong steps.
    pub fn of(set: &SetReport, threshold: f32) -> Option<Self> {
        let curve = |scorer: &Scorer| {
            let area = scorer.figures.get(Measure::Auc)?;
            let name = format!("{}: {:.3}", scorer.name, area.value);
            Some((name, thinned(&scorer.roc)))
        };
        // The prior's is the diagonal.
        let baselines = set.baselines.iter().filter(|scorer| scorer.name != "prior");
        let curves: Option<Vec<_>> = std::iter::once(&set.model)
            .chain(baselines)
            .map(curve)
            .collect();
        Some(Self {
            set: set.name.clone(),
            curves: curves?,
            notes: vec![
                "numbers: area".to_owned(),
                "diagonal: chance".to_owned(),
                format!("{} right steps", grouped(set.counts.right as u64)),
                format!("{} wrong steps", grouped(set.counts.wrong as u64)),
            ],
            at: set.model.flagged.map(|point| (point, threshold)),
        })
    }

    fn heading(&self) -> String {
        heading("Wrong steps found over false alarms", &self.set)
    }
    fn legend(&self) -> Legend {
        let looks = |number: usize| Look::of(number + 1);
        let mut entries: Legend = Vec::new();
        for (number, (name, _)) in self.curves.iter().enumerate() {
            entries.push((Some(looks(number)), name.clone()));
        }
        entries.extend(self.notes.iter().map(|note| (None, note.clone())));
        if let Some((_, threshold)) = self.at {
            entries.push((None, format!("mark: below {threshold}")));
        }
        entries
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
        let axes = Axes {
            title: self.heading(),
            x: -2.0..102.0,
            y: -2.0..102.0,
            x_labels: 11,
            digits: (0, 0),
            described: ("right steps flagged, %", "wrong steps flagged, %"),
        };
        let mut chart = axes.draw(plot, scale)?;
        let diagonal = vec![(0.0, 0.0), (100.0, 100.0)];
        let diagonal = PathElement::new(diagonal, INK.stroke_width(scale));
        chart.draw_series([diagonal]).map_err(fault)?;
        let place = |point: &RocPoint| {
            chart.backend_coord(&(point.false_alarms * 100.0, point.found * 100.0))
        };
        for (number, (_, points)) in self.curves.iter().enumerate().rev() {
            let pixels: Vec<(i32, i32)> = points.iter().map(place).collect();
            Look::of(number + 1).line(area, &pixels, scale)?;
            // A baseline has few thresholds; a model has as many as steps.
            for &point in pixels.iter().filter(|_| number > 0) {
                Look::of(number + 1).mark(area, point, scale)?;
            }
        }
        if let Some((point, _)) = &self.at {
            Look::of(1).mark(area, place(point), scale)?;
        }
        Ok(())
    }
}

/// At most [`MOST_POINTS`] of the points, both ends among them.
fn thinned(points: &[RocPoint]) -> Vec<RocPoint> {
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    let mut kept: Vec<RocPoint> = points.iter().copied().step_by(every).collect();
    if kept.last() != points.last() {
        kept.extend(points.last());
    }
    kept
}

figure!(Roc);
