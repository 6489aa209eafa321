//! Drawing of `Item::Crowd`: lines of points with bars and numbers that do not cover each other.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::labels::{Around, Rect, Segment, place, side_by_side};
use super::{Axes, Numbered};
use crate::report::style::{Drawn, Look, fault, text};

/// A point with its position on the page in pixels.
struct Mark {
    line: usize,
    look: Look,
    words: String,
    at: (i32, i32),
    high: i32,
    low: i32,
}

impl Mark {
    fn bar(&self) -> Segment {
        [(self.at.0, self.high), (self.at.0, self.low)]
    }
}

/// Draws bars, lines, markers and numbers. Points whose bars would cover each other are moved sideways.
pub(super) fn draw<DB: DrawingBackend>(
    lines: &[(Look, Vec<Numbered>)],
    area: &DrawingArea<DB, Shift>,
    axes: &Axes<'_, DB>,
    scale: u32,
) -> Drawn<()> {
    let pixels = |points: i32| points * scale as i32;
    let mut marks = Vec::new();
    for (line, (look, points)) in lines.iter().enumerate() {
        for point in points {
            let at = |y: f64| axes.backend_coord(&(point.x, y));
            marks.push(Mark {
                line,
                look: *look,
                words: point.number.to_string(),
                at: at(point.y),
                high: at(point.bar.1).1,
                low: at(point.bar.0).1,
            });
        }
    }
    let bars: Vec<Rect> = marks
        .iter()
        .map(|mark| Rect {
            left: mark.at.0 - pixels(3),
            top: mark.high.min(mark.at.1 - pixels(5)),
            right: mark.at.0 + pixels(3),
            bottom: mark.low.max(mark.at.1 + pixels(5)),
        })
        .collect();
    for (mark, shift) in marks.iter_mut().zip(side_by_side(&bars, pixels(8))) {
        mark.at.0 += shift;
    }
    // Later items cover earlier ones, so bars come first and markers last.
    for mark in &marks {
        let style = mark.look.colour.mix(0.5).stroke_width(scale);
        let bar = PathElement::new(mark.bar().to_vec(), style);
        area.draw(&bar).map_err(fault)?;
    }
    for (number, (look, _)) in lines.iter().enumerate() {
        let of_line = marks.iter().filter(|mark| mark.line == number);
        let path: Vec<(i32, i32)> = of_line.map(|mark| mark.at).collect();
        look.line(area, &path, scale)?;
    }
    for mark in &marks {
        mark.look.mark(area, mark.at, scale)?;
    }
    // The position of a number depends on all bars, lines and markers, so numbers are placed after them.
    let style = |mark: &Mark| text(12, scale, mark.look.colour);
    let sizes = marks
        .iter()
        .map(|mark| {
            let (width, height) = area
                .estimate_text_size(&mark.words, &style(mark))
                .map_err(fault)?;
            // The size of text is only estimated, so a little room is added.
            Ok((width as i32 + pixels(2), height as i32))
        })
        .collect::<Drawn<Vec<_>>>()?;
    let markers: Vec<Rect> = marks
        .iter()
        .map(|mark| Rect::around(mark.at, (pixels(11), pixels(11))))
        .collect();
    let pairs = marks.windows(2);
    // A segment joins two consecutive points of one line.
    let on_a_line = pairs.filter(|pair| pair[0].line == pair[1].line);
    let lines = on_a_line.map(|pair| [pair[0].at, pair[1].at]);
    let (across, down) = axes.plotting_area().get_pixel_range();
    let around = Around {
        markers: &markers,
        lines: &lines.chain(marks.iter().map(Mark::bar)).collect::<Vec<_>>(),
        area: Rect {
            left: across.start,
            top: down.start,
            right: across.end,
            bottom: down.end,
        },
    };
    for (mark, label) in marks.iter().zip(place(&markers, &sizes, &around)) {
        let centred = style(mark).pos(Pos::new(HPos::Center, VPos::Center));
        let number = Text::new(mark.words.clone(), label.centre(), centred);
        area.draw(&number).map_err(fault)?;
    }
    Ok(())
}
