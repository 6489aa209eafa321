//! What a figure is, and writing it as SVG and as PNG.

use std::path::Path;
use std::sync::Once;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::failure::Failure;
use crate::report::write::write_file;

pub use super::style::fault;

/// Width and height of the SVG; the PNG has twice as many pixels.
const SIZE: (u32, u32) = (1080, 620);
pub const SCALE: u32 = 2;

/// Something that can be drawn on either backend, the second time with everything `scale` times as
/// large.
pub trait Figure {
    fn title(&self) -> String;
    fn svg(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>)
    -> anyhow::Result<()>;
    fn png(
        &self,
        area: &DrawingArea<BitMapBackend<'_>, plotters::coord::Shift>,
    ) -> anyhow::Result<()>;
}

/// Implements [`Figure`] by `heading()`, `legend()` and a generic `draw(area, plot, scale)`; `plot`
/// is the part of `area` beside the legend.
macro_rules! figure {
    ($type:ty) => {
        impl $crate::report::figure::Figure for $type {
            fn title(&self) -> String {
                self.heading()
            }
            fn svg(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> anyhow::Result<()> {
                let plot = $crate::report::style::page(area, &self.legend(), 1)?;
                self.draw(area, &plot, 1)
            }
            fn png(&self, area: &DrawingArea<BitMapBackend<'_>, Shift>) -> anyhow::Result<()> {
                let scale = $crate::report::figure::SCALE;
                let plot = $crate::report::style::page(area, &self.legend(), scale)?;
                self.draw(area, &plot, scale)
            }
        }
    };
}
pub(crate) use figure;

/// Writes a figure as SVG and as PNG.
pub fn save(folder: &Path, stem: &str, figure: &dyn Figure) -> Result<(), Failure> {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // The font is inside the program and always readable; without it PNGs would have no text.
        let _ = register_font("sans-serif", FontStyle::Normal, ttf_noto_sans::REGULAR);
    });
    let failed =
        |error: anyhow::Error| Failure::Run(error.context(format!("{}: {stem}", folder.display())));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        figure
            .svg(&area)
            .and_then(|()| area.present().map_err(fault))
            .map_err(failed)?;
    }
    write_file(&folder.join(format!("{stem}.svg")), svg.as_bytes())?;
    let (width, height) = (SIZE.0 * SCALE, SIZE.1 * SCALE);
    let mut pixels = vec![0; 3 * (width * height) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        figure
            .png(&area)
            .and_then(|()| area.present().map_err(fault))
            .map_err(failed)?;
    }
    let png = png(width, height, &pixels).map_err(failed)?;
    write_file(&folder.join(format!("{stem}.png")), &png)
}

/// The file of `3 * width * height` bytes of red, green and blue.
fn png(width: u32, height: u32, pixels: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(fault)?;
    writer.write_image_data(pixels).map_err(fault)?;
    writer.finish().map_err(fault)?;
    Ok(file)
}
