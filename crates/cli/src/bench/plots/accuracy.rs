//! Accuracy over what it costs: a line for each run over its numbers of chains.

use std::ops::Range;

use beamgen::eval::metrics::Interval;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::labels::{Around, Rect, Segment, place, side_by_side};
use crate::bench::against::Axis;
use crate::bench::measured::{Measured, mean};
use crate::report::figure::{fault, figure};
use crate::report::style::{Legend, Look, text};
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
    fn legend(&self) -> Legend {
        let mut entries: Legend = self
            .lines
            .iter()
            .map(|line| (Some(line.look), line.run.clone()))
            .collect();
        for note in ["numbers: N", "bars: 95 %", "equal costs: side by side"] {
            entries.push((None, note.to_owned()));
        }
        entries
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
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
        let mut chart = ChartBuilder::on(plot)
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
        // Every point with its place; those whose bars would cover one another side by side.
        let pixels = |points: i32| points * scale as i32;
        let mut marks: Vec<Mark<'_>> = Vec::new();
        for (line, of) in self.lines.iter().enumerate() {
            for point in &of.points {
                let at = |share: f64| chart.backend_coord(&(point.cost.log10(), share * 100.0));
                let (x, y) = at(point.accuracy.mean);
                let (high, low) = (at(point.accuracy.high).1, at(point.accuracy.low).1);
                marks.push(Mark {
                    line,
                    point,
                    at: (x, y),
                    high,
                    low,
                });
            }
        }
        let bar = |mark: &Mark<'_>| Rect {
            left: mark.at.0 - pixels(3),
            top: mark.high.min(mark.at.1 - pixels(5)),
            right: mark.at.0 + pixels(3),
            bottom: mark.low.max(mark.at.1 + pixels(5)),
        };
        let bars: Vec<Rect> = marks.iter().map(bar).collect();
        for (mark, shift) in marks.iter_mut().zip(side_by_side(&bars, pixels(8))) {
            mark.at.0 += shift;
        }
        for mark in &marks {
            let (x, style) = (mark.at.0, self.lines[mark.line].look.colour.mix(0.5));
            let ends = vec![(x, mark.high), (x, mark.low)];
            let bar = PathElement::new(ends, style.stroke_width(scale));
            area.draw(&bar).map_err(fault)?;
        }
        let of_line = |line: usize| marks.iter().filter(move |mark| mark.line == line);
        for (number, line) in self.lines.iter().enumerate() {
            let path: Vec<(i32, i32)> = of_line(number).map(|mark| mark.at).collect();
            line.look.line(area, &path, scale)?;
        }
        for mark in &marks {
            self.lines[mark.line].look.mark(area, mark.at, scale)?;
        }
        self.numbers(area, &marks, chart.plotting_area().get_pixel_range(), scale)
    }

    /// Writes N beside every marker.
    fn numbers<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        marks: &[Mark<'_>],
        (across, down): (Range<i32>, Range<i32>),
        scale: u32,
    ) -> anyhow::Result<()> {
        let pixels = |points: i32| points * scale as i32;
        let style = |mark: &Mark<'_>| text(12, scale, self.lines[mark.line].look.colour);
        let size = |mark: &Mark<'_>| {
            let size = area.estimate_text_size(&mark.point.n.to_string(), &style(mark));
            let (width, height) = size.map_err(fault)?;
            Ok((width as i32 + pixels(2), height as i32))
        };
        let sizes = marks.iter().map(size).collect::<anyhow::Result<Vec<_>>>()?;
        let marker = |mark: &Mark<'_>| Rect::around(mark.at, (pixels(11), pixels(11)));
        let markers: Vec<Rect> = marks.iter().map(marker).collect();
        let on_a_line = |pair: &&[Mark<'_>]| pair[0].line == pair[1].line;
        let lines = marks.windows(2).filter(on_a_line);
        let lines = lines.map(|pair| [pair[0].at, pair[1].at]);
        let bars = marks
            .iter()
            .map(|mark| [(mark.at.0, mark.high), (mark.at.0, mark.low)]);
        let around = Around {
            markers: &markers,
            lines: &lines.chain(bars).collect::<Vec<Segment>>(),
            area: Rect {
                left: across.start,
                top: down.start,
                right: across.end,
                bottom: down.end,
            },
        };
        for (mark, label) in marks.iter().zip(place(&markers, &sizes, &around)) {
            let centred = style(mark).pos(Pos::new(HPos::Center, VPos::Center));
            let number = Text::new(mark.point.n.to_string(), label.centre(), centred);
            area.draw(&number).map_err(fault)?;
        }
        Ok(())
    }
}

/// A point where it is drawn, in pixels.
struct Mark<'a> {
    /// Its line's number.
    line: usize,
    point: &'a Point,
    at: (i32, i32),
    /// The ends of its bar.
    high: i32,
    low: i32,
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
