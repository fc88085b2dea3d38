//! Drawing of pixels, rectangles and text.

use ab_glyph::{Font, FontRef, ScaleFont, point};

use super::colors::{BACKGROUND, Color, mixed};

/// An RGB image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// The pixels, row by row from the top.
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Returns the pixel at a column and a row.
    pub fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        self.pixels[y * self.width + x]
    }
}

/// Horizontal alignment of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Middle,
    Right,
}

/// An image to draw on; drawing outside it is clipped.
pub(super) struct Canvas {
    picture: Picture,
    font: FontRef<'static>,
}

impl Canvas {
    /// Creates an empty canvas of size 0; see [`Self::resize`].
    pub(super) fn new() -> Self {
        let font = FontRef::try_from_slice(dejavu::sans::regular());
        Self {
            picture: Picture { width: 0, height: 0, pixels: vec![] },
            font: font.expect("the font is part of the program"),
        }
    }

    /// Clears the canvas and sets its size.
    pub(super) fn resize(&mut self, width: usize, height: usize) {
        let pixels = vec![BACKGROUND; width * height];
        self.picture = Picture { width, height, pixels };
    }

    pub(super) fn finish(self) -> Picture {
        self.picture
    }

    pub(super) fn set(&mut self, x: usize, y: usize, color: Color) {
        self.blend([x, x + 1], [y, y + 1], color, 1.0);
    }

    pub(super) fn column(&mut self, x: usize, rows: [usize; 2], color: Color) {
        self.rectangle([x, x + 1], rows, color);
    }

    pub(super) fn rectangle(&mut self, columns: [usize; 2], rows: [usize; 2], color: Color) {
        self.blend(columns, rows, color, 1.0);
    }

    /// Blends a colour over a rectangle with opacity `share`; the end columns and rows are
    /// excluded.
    pub(super) fn blend(
        &mut self,
        columns: [usize; 2],
        rows: [usize; 2],
        color: Color,
        share: f32,
    ) {
        let Picture { width, height, pixels } = &mut self.picture;
        let columns = columns.map(|x| x.min(*width));
        for y in rows[0]..rows[1].min(*height) {
            for pixel in &mut pixels[y * *width..(y + 1) * *width][columns[0]..columns[1]] {
                *pixel = mixed(*pixel, color, share);
            }
        }
    }

    /// Returns the width of a text.
    pub(super) fn width_of(&self, text: &str, size: f32) -> f32 {
        let font = self.font.as_scaled(size);
        text.chars().map(|c| font.h_advance(font.glyph_id(c))).sum()
    }

    /// Draws a text with its baseline at `y`.
    pub(super) fn text(
        &mut self,
        x: f32,
        y: f32,
        size: f32,
        color: Color,
        align: Align,
        text: &str,
    ) {
        let width = self.width_of(text, size);
        let mut x = match align {
            Align::Left => x,
            Align::Middle => x - width / 2.0,
            Align::Right => x - width,
        };
        let font = self.font.clone();
        let scaled = font.as_scaled(size);
        for c in text.chars() {
            let id = scaled.glyph_id(c);
            let glyph = id.with_scale_and_position(size, point(x, y));
            x += scaled.h_advance(id);
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let corner = outline.px_bounds().min;
            outline.draw(|column, row, share| {
                let (column, row) = (corner.x + column as f32, corner.y + row as f32);
                if column >= 0.0 && row >= 0.0 {
                    let (column, row) = (column as usize, row as usize);
                    self.blend([column, column + 1], [row, row + 1], color, share.min(1.0));
                }
            });
        }
    }
}
