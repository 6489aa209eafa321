//! Figures of a results folder, each as SVG and as PNG.

mod accuracy;
mod saved;
mod style;

use std::path::Path;
use std::sync::Once;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use self::accuracy::Accuracy;
use self::saved::Saved;
use super::against::Axis;
use super::measured::Measured;
use super::plan::{Outline, PlotOutline};
use super::sets::slug;
use crate::failure::Failure;

/// Width and height of the SVG; the PNG has twice as many pixels.
const SIZE: (u32, u32) = (1080, 620);
const SCALE: u32 = 2;

/// A figure that was drawn.
pub struct Plot {
    pub set: String,
    pub title: String,
    /// Its file's name without `.svg` or `.png`.
    pub stem: String,
}

/// Why a figure could not be drawn; the backends' errors have no type in common.
type Fault = String;

fn fault(error: impl std::fmt::Display) -> Fault {
    error.to_string()
}

/// Draws all figures.
pub fn draw<'a>(
    folder: &Path,
    outline: &'a Outline,
    measured: &[Measured<'_>],
) -> Result<Vec<Plot>, Failure> {
    let groups = match outline.plots.is_empty() {
        true => vec![(None, outline.runs())],
        false => {
            let group = |plot: &'a PlotOutline| {
                let runs = plot.runs.iter().map(String::as_str).collect();
                (Some(plot.name.as_str()), runs)
            };
            outline.plots.iter().map(group).collect()
        }
    };
    let mut plots = Vec::new();
    for (set, of) in outline.sets.iter().enumerate() {
        let cells: Vec<&Measured<'_>> = measured.iter().filter(|cell| cell.set == set).collect();
        for (group, runs) in &groups {
            let place = match group {
                None => of.name.clone(),
                Some(group) => format!("{}, {group}", of.name),
            };
            let mut add = |name: &str, figure: &dyn Figure| {
                let set = (outline.sets.len() > 1).then(|| slug(&of.name));
                let parts = [set, group.map(slug), Some(name.to_owned())];
                let stem = parts.into_iter().flatten().collect::<Vec<_>>().join("-");
                save(folder, &stem, figure)?;
                plots.push(Plot {
                    set: of.name.clone(),
                    title: figure.title(),
                    stem,
                });
                Ok::<(), Failure>(())
            };
            for (name, axis) in [
                ("accuracy-generated", Axis::Generated),
                ("accuracy-tokens", Axis::Tokens),
                ("accuracy-seconds", Axis::Seconds),
            ] {
                add(name, &Accuracy::new(&place, axis, runs, &cells))?;
            }
            if let Some(figure) = Saved::new(&place, outline, runs, &cells) {
                add("saved", &figure)?;
            }
        }
    }
    Ok(plots)
}

/// Something that can be drawn on either backend, the second time with everything `scale` times as
/// large.
trait Figure {
    fn title(&self) -> String;
    fn svg(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), Fault>;
    fn png(
        &self,
        area: &DrawingArea<BitMapBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Fault>;
}

/// Implements [`Figure`] by a generic `draw(area, scale)`.
macro_rules! figure {
    ($type:ty) => {
        impl super::Figure for $type {
            fn title(&self) -> String {
                self.heading()
            }
            fn svg(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Fault> {
                self.draw(area, 1)
            }
            fn png(&self, area: &DrawingArea<BitMapBackend<'_>, Shift>) -> Result<(), Fault> {
                self.draw(area, super::SCALE)
            }
        }
    };
}
use figure;

fn save(folder: &Path, stem: &str, figure: &dyn Figure) -> Result<(), Failure> {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // The font is inside the program and always readable; without it PNGs would have no text.
        let _ = register_font("sans-serif", FontStyle::Normal, ttf_noto_sans::REGULAR);
    });
    let failed =
        |error: Fault| Failure::Run(anyhow::anyhow!("{}: {stem}: {error}", folder.display()));
    let svg = folder.join(format!("{stem}.svg"));
    let area = SVGBackend::new(&svg, SIZE).into_drawing_area();
    figure
        .svg(&area)
        .and_then(|()| area.present().map_err(fault))
        .map_err(failed)?;
    let png = folder.join(format!("{stem}.png"));
    let (width, height) = (SIZE.0 * SCALE, SIZE.1 * SCALE);
    let mut pixels = vec![0; 3 * (width * height) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        figure
            .png(&area)
            .and_then(|()| area.present().map_err(fault))
            .map_err(failed)?;
    }
    write_png(&png, width, height, &pixels).map_err(failed)
}

/// Writes `3 * width * height` bytes of red, green and blue.
fn write_png(path: &Path, width: u32, height: u32, pixels: &[u8]) -> Result<(), Fault> {
    let file = std::io::BufWriter::new(std::fs::File::create(path).map_err(fault)?);
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(fault)?;
    writer.write_image_data(pixels).map_err(fault)?;
    writer.finish().map_err(fault)
}
