//! How often steps with a score are right.

use beamgen::eval::quality::{Bin, Measure};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Axes, INK, heading};
use crate::eval_prm::results::SetReport;
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look, text};
use crate::table::grouped;

pub struct Reliability {
    set: String,
    series: Vec<(&'static str, Vec<Bin>)>,
    notes: Vec<String>,
}

impl Reliability {
    /// `None` without labelled steps.
    pub fn of(set: &SetReport) -> Option<Self> {
        let of = &set.calibration;
        let ece = |name: &str, of| {
            let figure = set.model.figures.get(of)?;
            Some(format!("ECE, {name}: {:.3}", figure.value))
        };
        let mut notes = vec![
            "bars: 95 %".to_owned(),
            "numbers: steps in the bin".to_owned(),
        ];
        notes.extend(ece("equal mass", Measure::EceMass));
        notes.extend(ece("equal width", Measure::EceWidth));
        notes.push(format!("{} steps", grouped(set.counts.steps as u64)));
        notes.push(format!("{} problems", grouped(set.counts.problems as u64)));
        let mut series = vec![
            ("bins of equal mass", of.equal_mass.clone()),
            ("bins of equal width", of.equal_width.clone()),
        ];
        if let Some(calibrated) = &set.calibrated {
            series.push(("calibrated, equal mass", calibrated.equal_mass.clone()));
            let figure = calibrated.model.figures.get(Measure::EceMass);
            notes.extend(figure.map(|figure| format!("ECE, calibrated: {:.3}", figure.value)));
        }
        (!of.equal_mass.is_empty()).then(|| Self {
            set: set.name.clone(),
            series,
            notes,
        })
    }

    fn heading(&self) -> String {
        heading("Reliability", &self.set)
    }
    fn legend(&self) -> Legend {
        let look = |number: usize| Look::points(number + 1);
        let mut entries: Legend = Vec::new();
        for (number, (name, _)) in self.series.iter().enumerate() {
            entries.push((Some(look(number)), (*name).to_owned()));
        }
        entries.extend(self.notes.iter().map(|note| (None, note.clone())));
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
            x: -0.02..1.02,
            y: -0.02..1.02,
            x_labels: 11,
            digits: (1, 1),
            described: ("mean score of the bin", "mean label of its steps"),
        };
        let mut chart = axes.draw(plot, scale)?;
        let diagonal = PathElement::new(vec![(0.0, 0.0), (1.0, 1.0)], INK.stroke_width(scale));
        chart.draw_series([diagonal]).map_err(fault)?;
        // Bins of equal mass last: they are the ones to look at.
        for (number, (_, bins)) in self.series.iter().enumerate().rev() {
            let look = Look::points(number + 1);
            let at = |x: f64, y: f64| chart.backend_coord(&(x, y));
            for bin in bins {
                let Some((low, high)) = bin.label.interval else {
                    continue;
                };
                let ends = vec![at(bin.score, low), at(bin.score, high)];
                let style = look.colour.mix(0.5).stroke_width(scale);
                area.draw(&PathElement::new(ends, style)).map_err(fault)?;
            }
            for bin in bins {
                let (x, y) = at(bin.score, bin.label.value);
                look.mark(area, (x, y), scale)?;
                if number == 1 {
                    // Beside the bar, where there is room.
                    let (away, side) = match bin.score < 0.9 {
                        true => (9, HPos::Left),
                        false => (-9, HPos::Right),
                    };
                    let style = text(12, scale, look.colour);
                    let style = style.pos(Pos::new(side, VPos::Center));
                    let steps = grouped(bin.steps as u64);
                    let steps = Text::new(steps, (x + away * scale as i32, y), style);
                    area.draw(&steps).map_err(fault)?;
                }
            }
        }
        Ok(())
    }
}

figure!(Reliability);
