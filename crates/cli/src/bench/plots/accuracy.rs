//! Accuracy over what it costs: a line for each run over its numbers of chains.

use beamgen::eval::metrics::Interval;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{Fault, fault, figure};
use super::style::{Look, legend, text};
use crate::bench::against::Axis;
use crate::bench::measured::{Measured, mean};
use crate::table::grouped;

/// The figure of one set and one kind of cost.
pub struct Accuracy {
    set: String,
    axis: Axis,
    lines: Vec<Line>,
}

struct Line {
    run: String,
    look: Look,
    points: Vec<Point>,
}

struct Point {
    n: usize,
    cost: f64,
    accuracy: Interval,
}

impl Accuracy {
    pub fn new(set: &str, axis: Axis, runs: &[&str], cells: &[&Measured<'_>]) -> Self {
        let point = |cell: &&Measured<'_>| Point {
            n: cell.n(),
            cost: mean(axis.of(cell)),
            accuracy: cell.accuracy(),
        };
        let line = |(number, &run): (usize, &&str)| {
            let mut points: Vec<Point> = cells
                .iter()
                .filter(|cell| cell.cell.run == run)
                .map(point)
                .collect();
            points.retain(|point| point.cost > 0.0);
            points.sort_by_key(|point| point.n);
            Line {
                run: run.to_owned(),
                look: Look::of(number),
                points,
            }
        };
        Self {
            set: set.to_owned(),
            axis,
            lines: runs
                .iter()
                .enumerate()
                .map(line)
                .filter(|line| !line.points.is_empty())
                .collect(),
        }
    }

    fn heading(&self) -> String {
        let over = match self.axis {
            Axis::Generated => "tokens generated",
            Axis::Tokens => "tokens generated and scored",
            Axis::Seconds => "seconds",
        };
        format!("Accuracy over {over} ({})", self.set)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> Result<(), Fault> {
        area.fill(&WHITE).map_err(fault)?;
        let mut entries: Vec<(Option<Look>, String)> = self
            .lines
            .iter()
            .map(|line| (Some(line.look), line.run.clone()))
            .collect();
        for note in ["numbers: N", "bars: 95 %, side by side"] {
            entries.push((None, note.to_owned()));
        }
        let plot = legend(area, &entries, scale)?;

        let points = || self.lines.iter().flat_map(|line| &line.points);
        let most = points()
            .map(|point| point.cost)
            .fold(f64::MIN_POSITIVE, f64::max);
        let least = points().map(|point| point.cost).fold(most, f64::min);
        let top = points()
            .map(|point| point.accuracy.high)
            .fold(0.0, f64::max);
        let bottom = points().map(|point| point.accuracy.low).fold(top, f64::min);
        let axis_y = (bottom * 100.0 - 3.0).max(0.0)..(top * 100.0 + 3.0).min(101.0);
        let (ink, pale) = (RGBColor(30, 30, 30), RGBColor(225, 225, 225));
        let described = match self.axis {
            Axis::Generated => "tokens generated a problem (log)",
            Axis::Tokens => "tokens generated and scored a problem (log)",
            Axis::Seconds => "wall-clock seconds a problem (log)",
        };
        let mut chart = ChartBuilder::on(&plot)
            .caption(self.heading(), text(18, scale, ink))
            .margin(10 * scale)
            .x_label_area_size(42 * scale)
            .y_label_area_size(58 * scale)
            .build_cartesian_2d((least / 1.3).log10()..(most * 1.3).log10(), axis_y.clone())
            .map_err(fault)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .light_line_style(WHITE)
            .bold_line_style(pale)
            .axis_style(ink)
            .x_desc(described)
            .y_desc("accuracy, %")
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(text(13, scale, ink))
            .axis_desc_style(text(14, scale, ink))
            .draw()
            .map_err(fault)?;
        // The backend's own ticks crowd within a decade.
        for tick in ticks(least / 1.3, most * 1.3) {
            let x = tick.log10();
            let line = vec![(x, axis_y.start), (x, axis_y.end)];
            let line = PathElement::new(line, pale.stroke_width(1));
            chart.draw_series([line]).map_err(fault)?;
            let (x, y) = chart.backend_coord(&(x, axis_y.start));
            let style = text(13, scale, ink).pos(Pos::new(HPos::Center, VPos::Top));
            let label = Text::new(short(tick), (x, y + 7 * scale as i32), style);
            area.draw(&label).map_err(fault)?;
        }
        // Bars of equal cost stand side by side; the markers stay where they belong.
        for (i, line) in self.lines.iter().enumerate() {
            let count = self.lines.len() as f64;
            let spread = (10.0 / count).min(2.0) * f64::from(scale);
            let beside = ((i as f64 - (count - 1.0) / 2.0) * spread).round() as i32;
            for point in &line.points {
                let end = |share: f64| {
                    let (x, y) = chart.backend_coord(&(point.cost.log10(), share * 100.0));
                    (x + beside, y)
                };
                let ends = vec![end(point.accuracy.low), end(point.accuracy.high)];
                let style = line.look.colour.mix(0.5).stroke_width(scale);
                area.draw(&PathElement::new(ends, style)).map_err(fault)?;
            }
        }
        // Numbers already written, so that none is put over another.
        let mut written: Vec<(i32, i32)> = Vec::new();
        for line in &self.lines {
            let at = |point: &Point| {
                chart.backend_coord(&(point.cost.log10(), point.accuracy.mean * 100.0))
            };
            let pixels: Vec<(i32, i32)> = line.points.iter().map(at).collect();
            line.look.line(area, &pixels, scale)?;
            for (i, (point, &(x, y))) in line.points.iter().zip(&pixels).enumerate() {
                line.look.mark(area, (x, y), scale)?;
                let is_end = i == 0 || i + 1 == pixels.len();
                let beside = (x + 6 * scale as i32, y - 15 * scale as i32);
                let near = |other: &(i32, i32)| {
                    (other.0 - beside.0).abs() < 18 * scale as i32
                        && (other.1 - beside.1).abs() < 11 * scale as i32
                };
                if pixels.len() > 1 && is_end && !written.iter().any(near) {
                    written.push(beside);
                    let style = text(12, scale, line.look.colour);
                    area.draw(&Text::new(point.n.to_string(), beside, style))
                        .map_err(fault)?;
                }
            }
        }
        Ok(())
    }
}

figure!(Accuracy);

/// 1, 2 and 5 of each decade within a range, or of a long range its decades alone.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let steps: &[f64] = if to / from > 3e3 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    all.filter(|tick| (from..=to).contains(tick)).collect()
}

/// A tick as a label: `1 000`, `0.02`.
fn short(tick: f64) -> String {
    match tick {
        whole if whole >= 1.0 => grouped(whole.round() as u64),
        small => {
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
