//! The looks of runs in figures (colour, marker and line), and the legend.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
pub(crate) use plotters::prelude::Color;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The message of a drawing error, as text because the errors of the backends have no common type.
#[derive(Debug)]
pub(crate) struct Fault(pub String);

pub(crate) type Drawn<T> = Result<T, Fault>;

pub(crate) fn fault(error: impl std::fmt::Display) -> Fault {
    Fault(error.to_string())
}

/// The colour of axes and text.
pub(crate) const INK: RGBColor = RGBColor(30, 30, 30);

/// The colour of a mesh.
pub(crate) const PALE: RGBColor = RGBColor(225, 225, 225);

/// Colours that people with red-green colour blindness can distinguish (after Okabe and Ito), dark
/// enough on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(170, 68, 153),
    RGBColor(200, 150, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 60, 20),
    RGBColor(90, 90, 90),
];

/// The colour, marker and line of a run, by its number in the figure.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub colour: RGBColor,
    marker: usize,
    line: Line,
}

#[derive(Clone, Copy, PartialEq)]
enum Line {
    Solid,
    Dashed,
    None,
}

impl Look {
    pub(crate) fn of(run: usize) -> Self {
        Self {
            colour: COLOURS[run % COLOURS.len()],
            // Runs with the same colour differ in their marker and their line.
            marker: (run + run / COLOURS.len()) % MARKERS,
            line: match run / COLOURS.len() % 2 {
                0 => Line::Solid,
                _ => Line::Dashed,
            },
        }
    }

    /// Returns a look for separate points, without a line between them.
    pub(crate) fn points(run: usize) -> Self {
        Self {
            line: Line::None,
            ..Self::of(run)
        }
    }

    /// Returns a look for bars, which the legend shows as a square.
    pub(crate) fn bars(run: usize) -> Self {
        Self {
            marker: SQUARE,
            ..Self::points(run)
        }
    }

    /// Draws the line through points in pixels.
    pub(crate) fn line<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        points: &[(i32, i32)],
        scale: u32,
    ) -> Drawn<()> {
        let style = self.colour.stroke_width(2 * scale);
        match self.line {
            Line::Solid => smooth(points).into_iter().try_for_each(|part| {
                let path = PathElement::new(part, style);
                area.draw(&path).map_err(fault)
            }),
            Line::Dashed => {
                let points = points.iter().copied();
                let (dash, gap) = (6 * scale as i32, 4 * scale as i32);
                area.draw(&DashedPathElement::new(points, dash, gap, style))
                    .map_err(fault)
            }
            Line::None => Ok(()),
        }
    }

    /// Draws the marker around a point in pixels.
    pub(crate) fn mark<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        (x, y): (i32, i32),
        scale: u32,
    ) -> Drawn<()> {
        let r = 4 * scale as i32;
        let filled = self.colour.filled();
        let polygon = |corners: &[(i32, i32)]| {
            let corners: Vec<(i32, i32)> =
                corners.iter().map(|&(dx, dy)| (x + dx, y + dy)).collect();
            area.draw(&Polygon::new(corners, filled)).map_err(fault)
        };
        match self.marker {
            0 => area.draw(&Circle::new((x, y), r, filled)).map_err(fault),
            SQUARE => polygon(&[(-r, -r), (r, -r), (r, r), (-r, r)]),
            // Triangles and diamonds extend further, so that all markers look equally large.
            2 => polygon(&[(0, -r - r / 4), (r + r / 4, r), (-r - r / 4, r)]),
            3 => polygon(&[
                (0, -r - r / 2),
                (r + r / 2, 0),
                (0, r + r / 2),
                (-r - r / 2, 0),
            ]),
            4 => polygon(&[(0, r + r / 4), (r + r / 4, -r), (-r - r / 4, -r)]),
            5 => {
                area.draw(&Circle::new((x, y), r, filled)).map_err(fault)?;
                area.draw(&Circle::new((x, y), r / 2, WHITE.filled()))
                    .map_err(fault)
            }
            _ => {
                polygon(&[(-r, -r), (r, -r), (r, r), (-r, r)])?;
                let r = r / 2;
                let inner = [(x - r, y - r), (x + r, y + r)];
                area.draw(&Rectangle::new(inner, WHITE.filled()))
                    .map_err(fault)
            }
        }
    }
}

/// Splits a line at turns by more than a right angle; each part begins at the end of the one before it. The bitmap
/// backend would draw a spike to the edge of the page at such a turn.
fn smooth(points: &[(i32, i32)]) -> Vec<&[(i32, i32)]> {
    let turns = (1..points.len().saturating_sub(1)).filter(|&at| {
        let ((x0, y0), (x1, y1), (x2, y2)) = (points[at - 1], points[at], points[at + 1]);
        // The scalar product of two directions is negative if they differ by more than a right angle.
        (x1 - x0) * (x2 - x1) + (y1 - y0) * (y2 - y1) < 0
    });
    // The end of the line is not a turn, so it is added as the end of the last part.
    let ends = turns.chain([points.len().saturating_sub(1)]);
    let mut from = 0;
    ends.map(|to| {
        let part = points.get(from..=to).unwrap_or_default();
        from = to;
        part
    })
    .collect()
}

const MARKERS: usize = 7;

const SQUARE: usize = 1;

/// Returns a text style. `size` is in points and is multiplied by `scale`.
pub(crate) fn text(size: u32, scale: u32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size * scale).into_font().color(&colour)
}

/// The entries of a legend; an entry without a look is a note.
pub(crate) type Legend = Vec<(Option<Look>, String)>;

pub(crate) fn note(text: impl Into<String>) -> (Option<Look>, String) {
    (None, text.into())
}

pub(crate) fn named(look: Look, name: impl Into<String>) -> (Option<Look>, String) {
    (Some(look), name.into())
}

/// Fills the page with white and draws the legend in a column at the right. Returns the rest of the page for the
/// plot.
pub(crate) fn page<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    entries: &Legend,
    scale: u32,
) -> Drawn<DrawingArea<DB, Shift>> {
    area.fill(&WHITE).map_err(fault)?;
    let pixels = |points: i32| points * scale as i32;
    let style = text(14, scale, INK);
    let widest = entries
        .iter()
        .map(|(_, name)| area.estimate_text_size(name, &style).map_or(0, |of| of.0))
        .max()
        .unwrap_or(0);
    let (all, _) = area.dim_in_pixel();
    // Long names must leave at least half of the width for the plot.
    let column = (widest + pixels(58) as u32).min(all / 2);
    let (plot, side) = area.split_horizontally(all - column);
    let mut y = pixels(58);
    for (look, name) in entries {
        let at = match look {
            Some(look) => {
                look.line(&side, &[(pixels(8), y), (pixels(34), y)], scale)?;
                look.mark(&side, (pixels(21), y), scale)?;
                pixels(42)
            }
            None => pixels(8),
        };
        let centred = style.pos(Pos::new(HPos::Left, VPos::Center));
        side.draw(&Text::new(name.clone(), (at, y), centred))
            .map_err(fault)?;
        y += pixels(21);
    }
    Ok(plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_where_it_turns_sharply() {
        let [a, b, c, d, e] = [(0, 0), (10, 1), (20, 0), (19, 50), (30, 55)];
        let points = [a, b, c, d, e];
        assert_eq!(smooth(&points), [[a, b, c], [c, d, e]]);
        assert_eq!(smooth(&[a, b]), [[a, b]]);
        let stair = [(0, 0), (0, 5), (5, 5), (5, 9)];
        assert_eq!(smooth(&stair), [stair]);
        assert_eq!(smooth(&[]), [&[][..]]);
    }
}
