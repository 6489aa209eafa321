//! Charts as data, and how they are drawn as SVG and PNG.

mod crowd;
mod labels;

use std::ops::Range;
use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::Pos;
use plotters::style::{FontStyle, register_font};

pub(crate) use plotters::style::text_anchor::{HPos, VPos};

use super::style::{Drawn, Fault, INK, Legend, Look, PALE, fault, page, text};
use super::write_file;
use crate::Error;

/// The width and height of an SVG in pixels. A PNG is larger by the factor `SCALE`.
const SIZE: (u32, u32) = (1080, 620);
const SCALE: u32 = 2;

/// A figure: a title, a legend at the right, and panels.
pub(crate) struct Chart {
    pub title: String,
    pub legend: Legend,
    /// The panels in rows, from left to right and from top to bottom.
    pub panels: Vec<Panel>,
    /// The number of panels in a row; 0 for a chart that is one panel.
    pub across: usize,
}

/// A figure whose files exist in the folder of a report.
pub(crate) struct Plot {
    /// The index of the set that the figure is about.
    pub set: usize,
    pub title: String,
    /// The name of the file without `.svg` or `.png`.
    pub stem: String,
}

impl Plot {
    /// Appends the figures of a set to a report in Markdown.
    pub(crate) fn show(out: &mut String, plots: &[Self], set: usize) {
        for Self { title, stem, .. } in plots.iter().filter(|plot| plot.set == set) {
            out.push_str(&format!("\n![{title}]({stem}.svg)\n"));
        }
    }
}

/// Axes, with the items that are drawn over them.
pub(crate) struct Panel {
    pub caption: Option<String>,
    pub x: Axis,
    pub y: Axis,
    pub sizes: Sizes,
    /// The items in the order of drawing; later ones cover earlier ones.
    pub items: Vec<Item>,
}

/// A linear axis; callers with a logarithmic one pass logarithms.
pub(crate) struct Axis {
    pub range: Range<f64>,
    /// The text along the axis; empty for no text.
    pub name: String,
    /// The number of labels. `None` lets the library choose, and 0 removes the grid lines too.
    pub labels: Option<usize>,
    /// The number of digits after the decimal point of a label.
    pub digits: usize,
}

/// The sizes of a panel's text and of the room for it, in points.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub caption: u32,
    pub margin: u32,
    pub x_area: u32,
    pub y_area: u32,
    pub label: u32,
    pub name: u32,
}

impl Sizes {
    /// The sizes of a chart that is one panel.
    pub(crate) const LARGE: Self = Self {
        caption: 18,
        margin: 10,
        x_area: 42,
        y_area: 58,
        label: 13,
        name: 14,
    };
    /// The sizes of one panel among many.
    pub(crate) const SMALL: Self = Self {
        caption: 14,
        margin: 6,
        x_area: 40,
        y_area: 34,
        label: 12,
        name: 13,
    };
}

/// A place on a panel: a point of its axes, and how far from it, in points of the page.
#[derive(Clone, Copy)]
pub(crate) struct At {
    x: f64,
    y: f64,
    right: i32,
    down: i32,
}

/// Returns the place with these coordinates, without an offset in points.
pub(crate) fn at(x: f64, y: f64) -> At {
    At {
        x,
        y,
        right: 0,
        down: 0,
    }
}

impl At {
    pub(crate) fn moved(self, right: i32, down: i32) -> Self {
        Self {
            right: self.right + right,
            down: self.down + down,
            ..self
        }
    }
}

pub(crate) enum Item {
    /// A line in a look.
    Line(Look, Vec<At>),
    /// The marker of a look.
    Mark(Look, At),
    /// A straight stroke; a width of 0 is one pixel on any page.
    Stroke(RGBAColor, u32, [At; 2]),
    /// A filled box between two corners.
    Block(RGBColor, [At; 2]),
    /// Text of a size, anchored at a place.
    Text(At, String, u32, RGBColor, (HPos, VPos)),
    /// Lines of points with bars and numbers. Points may be moved sideways so that they do not cover each other.
    Crowd(Vec<(Look, Vec<Numbered>)>),
}

/// A point of a crowd.
pub(crate) struct Numbered {
    pub number: usize,
    pub x: f64,
    pub y: f64,
    /// The ends of the point's bar, as coordinates of the vertical axis.
    pub bar: (f64, f64),
}

/// Returns a thin line for comparison, for example a diagonal.
pub(crate) fn guide(from: (f64, f64), to: (f64, f64)) -> Item {
    Item::Stroke(INK.mix(1.0), 1, [at(from.0, from.1), at(to.0, to.1)])
}

/// Returns the bar of an interval at `place`, from `low` to `high` on the vertical axis.
pub(crate) fn bar(look: Look, place: At, (low, high): (f64, f64)) -> Item {
    let ends = [low, high].map(|y| At { y, ..place });
    Item::Stroke(look.colour.mix(0.5), 1, ends)
}

pub(crate) fn stroke(look: Look, width: u32, ends: [At; 2]) -> Item {
    Item::Stroke(look.colour.mix(1.0), width, ends)
}

/// Returns the items of a line of points: the bars of points with an interval, the line, the markers.
pub(crate) fn series(look: Look, points: &[(At, Option<(f64, f64)>)]) -> Vec<Item> {
    let bars = points
        .iter()
        .filter_map(|&(place, ends)| Some(bar(look, place, ends?)));
    let places = points.iter().map(|&(place, _)| place);
    let line = Item::Line(look, places.clone().collect());
    let marks = places.map(|place| Item::Mark(look, place));
    bars.chain([line]).chain(marks).collect()
}

/// Returns a panel with large sizes and no caption, for a chart of one panel.
pub(crate) fn panel(x: Axis, y: Axis, items: Vec<Item>) -> Panel {
    Panel {
        caption: None,
        x,
        y,
        sizes: Sizes::LARGE,
        items,
    }
}

pub(crate) fn axis(
    range: Range<f64>,
    name: impl Into<String>,
    labels: Option<usize>,
    digits: usize,
) -> Axis {
    Axis {
        range,
        name: name.into(),
        labels,
        digits,
    }
}

impl Chart {
    /// Makes a chart with one panel, whose caption is the title.
    pub(crate) fn one(title: String, legend: Legend, panel: Panel) -> Self {
        Self {
            title,
            legend,
            panels: vec![panel],
            across: 0,
        }
    }

    /// Writes the chart as SVG and as PNG.
    pub(crate) fn save(&self, folder: &Path, stem: &str) -> Result<(), Error> {
        static FONT: Once = Once::new();
        FONT.call_once(|| {
            // The font is compiled into the program, so registering it cannot fail. PNGs need it for text.
            let _ = register_font("sans-serif", FontStyle::Normal, ttf_noto_sans::REGULAR);
        });
        let mut svg = String::new();
        self.draw(
            &SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(),
            1,
        )
        .map_err(failed(folder, stem))?;
        write_file(&folder.join(format!("{stem}.svg")), svg.as_bytes())?;
        let (width, height) = (SIZE.0 * SCALE, SIZE.1 * SCALE);
        // A pixel has three bytes: red, green and blue.
        let mut pixels = vec![0; 3 * (width * height) as usize];
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        self.draw(&area, SCALE).map_err(failed(folder, stem))?;
        // `area` borrows the pixels until here.
        drop(area);
        let png = png(width, height, &pixels).map_err(failed(folder, stem))?;
        write_file(&folder.join(format!("{stem}.png")), &png)
    }

    /// Draws the chart; all sizes are multiplied by `scale`.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, scale: u32) -> Drawn<()> {
        let plot = page(area, &self.legend, scale)?;
        // A chart of one panel has no title of its own, so the panel gets the title as its caption.
        if self.across == 0 {
            for panel in &self.panels {
                panel.draw(area, &plot, Some(&self.title), scale)?;
            }
        } else {
            let plot = plot
                .margin(8 * scale, 0, 0, 0)
                .titled(&self.title, text(18, scale, INK))
                .map_err(fault)?;
            // The last row may have fewer panels.
            let rows = self.panels.len().div_ceil(self.across);
            let places = plot.split_evenly((rows, self.across));
            for (place, panel) in places.iter().zip(&self.panels) {
                panel.draw(area, place, panel.caption.as_ref(), scale)?;
            }
        }
        area.present().map_err(fault)
    }
}

fn failed(folder: &Path, stem: &str) -> impl Fn(Fault) -> Error {
    |fault| Error::Figure {
        folder: folder.to_owned(),
        stem: stem.to_owned(),
        reason: fault.0,
    }
}

/// The axes of a panel, which convert coordinates to pixels.
type Axes<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Panel {
    /// Draws the panel into `place`, which is part of `area`.
    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        place: &DrawingArea<DB, Shift>,
        caption: Option<&String>,
        scale: u32,
    ) -> Drawn<()> {
        let sizes = self.sizes;
        let mut builder = ChartBuilder::on(place);
        if let Some(caption) = caption {
            builder.caption(caption, text(sizes.caption, scale, INK));
        }
        let mut axes = builder
            .margin(sizes.margin * scale)
            .x_label_area_size(sizes.x_area * scale)
            .y_label_area_size(sizes.y_area * scale)
            .build_cartesian_2d(self.x.range.clone(), self.y.range.clone())
            .map_err(fault)?;
        let (x, y) = (formatter(self.x.digits), formatter(self.y.digits));
        let mut mesh = axes.configure_mesh();
        mesh.light_line_style(WHITE)
            .bold_line_style(PALE)
            .axis_style(INK)
            .x_label_formatter(&x)
            .y_label_formatter(&y)
            .label_style(text(sizes.label, scale, INK))
            .axis_desc_style(text(sizes.name, scale, INK));
        if let Some(labels) = self.x.labels {
            mesh.x_labels(labels);
        }
        if let Some(labels) = self.y.labels {
            mesh.y_labels(labels);
        }
        // Grid lines have no meaning without labels.
        if self.x.labels == Some(0) {
            mesh.disable_x_mesh();
        }
        if self.y.labels == Some(0) {
            mesh.disable_y_mesh();
        }
        if !self.x.name.is_empty() {
            mesh.x_desc(&self.x.name);
        }
        if !self.y.name.is_empty() {
            mesh.y_desc(&self.y.name);
        }
        mesh.draw().map_err(fault)?;
        self.items
            .iter()
            .try_for_each(|item| item.draw(area, &axes, scale))
    }
}

impl Item {
    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        axes: &Axes<'_, DB>,
        scale: u32,
    ) -> Drawn<()> {
        let pixel = |place: &At| {
            let (x, y) = axes.backend_coord(&(place.x, place.y));
            // Offsets are in points, so that SVG and PNG look alike.
            let points = scale as i32;
            (x + place.right * points, y + place.down * points)
        };
        match self {
            Self::Line(look, places) => {
                let pixels: Vec<(i32, i32)> = places.iter().map(pixel).collect();
                look.line(area, &pixels, scale)
            }
            Self::Mark(look, place) => look.mark(area, pixel(place), scale),
            Self::Stroke(colour, width, ends) => {
                let style = colour.stroke_width((width * scale).max(1));
                let path = PathElement::new(ends.iter().map(pixel).collect::<Vec<_>>(), style);
                area.draw(&path).map_err(fault)
            }
            Self::Block(colour, [from, to]) => {
                let block = Rectangle::new([pixel(from), pixel(to)], colour.filled());
                area.draw(&block).map_err(fault)
            }
            Self::Text(place, words, size, colour, (h, v)) => {
                let style = text(*size, scale, *colour).pos(Pos::new(*h, *v));
                area.draw(&Text::new(words.clone(), pixel(place), style))
                    .map_err(fault)
            }
            Self::Crowd(lines) => crowd::draw(lines, area, axes, scale),
        }
    }
}

fn formatter(digits: usize) -> impl Fn(&f64) -> String {
    move |value| format!("{value:.digits$}")
}

fn png(width: u32, height: u32, pixels: &[u8]) -> Drawn<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(fault)?;
    writer.write_image_data(pixels).map_err(fault)?;
    writer.finish().map_err(fault)?;
    Ok(file)
}
