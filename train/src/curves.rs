//! Loss curves: a picture of `losses.csv`.

use acestep_music::plot::Picture;
use plotters::{
    prelude::*,
    style::{FontStyle, register_font},
};

use crate::Error;

/// Width of the picture in pixels.
const WIDTH: u32 = 1000;
/// Height of a panel in pixels.
const HEIGHT: u32 = 280;
/// Font family.
const FONT: &str = "sans-serif";
/// The dark line is a moving mean over 1 / `SMOOTH` of the rows.
const SMOOTH: usize = 60;
/// Quantiles of the shown values: random weights give far higher losses at the beginning.
const SEEN: [f64; 2] = [0.0, 0.985];

const FAINT: RGBColor = RGBColor(166, 200, 222);
const LINE: RGBColor = RGBColor(22, 92, 145);
const INK: RGBColor = RGBColor(60, 66, 76);

/// A column of the table: name and values.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    name: String,
    values: Vec<f64>,
}

/// Reads the steps of a table's rows, and its losses, which follow the first four columns. Rows
/// that are incomplete or not numeric are skipped.
fn read(table: &str) -> Option<(Vec<f64>, Vec<Column>)> {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next()?.split(',').collect();
    let rows: Vec<Vec<f64>> = lines
        .filter_map(|line| line.split(',').map(|value| value.parse().ok()).collect())
        .filter(|row: &Vec<f64>| row.len() == names.len() && row.iter().all(|x| x.is_finite()))
        .collect();
    let column = |index: usize| rows.iter().map(|row| row[index]).collect::<Vec<f64>>();
    let losses = (4..names.len())
        .map(|index| Column { name: names[index].to_owned(), values: column(index) })
        .collect();
    (rows.len() > 1).then(|| (column(0), losses))
}

/// Returns the mean of up to `width` values around each value.
fn smoothed(values: &[f64], width: usize) -> Vec<f64> {
    let half = width / 2;
    (0..values.len())
        .map(|index| {
            let near = &values[index.saturating_sub(half)..(index + half + 1).min(values.len())];
            near.iter().sum::<f64>() / near.len() as f64
        })
        .collect()
}

/// Returns the lowest and the highest shown value.
fn range(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).ceil() as usize];
    let [low, high] = SEEN.map(at);
    let room = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-9);
    [low - room, high + room]
}

/// Draws a panel for each loss of a `losses.csv`, as a PNG file; `None` for fewer than two rows.
///
/// # Errors
/// [`acestep_engine::Error::Picture`], which is not known to happen.
pub fn draw(title: &str, table: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some((steps, losses)) = read(table) else { return Ok(None) };
    let height = HEIGHT * losses.len() as u32;
    let mut pixels = vec![0; (WIDTH * height * 3) as usize];
    // Fails if the font is registered already.
    let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
    paint(&mut pixels, height, title, &steps, &losses)
        .map_err(|error| acestep_engine::Error::Picture(error.to_string()))?;
    let picture = Picture {
        width: WIDTH as usize,
        height: height as usize,
        pixels: pixels.chunks_exact(3).map(|rgb| [rgb[0], rgb[1], rgb[2]]).collect(),
    };
    Ok(Some(picture.to_png()?))
}

/// Draws into rows of RGB pixels.
fn paint(
    pixels: &mut [u8],
    height: u32,
    title: &str,
    steps: &[f64],
    losses: &[Column],
) -> Result<(), Box<dyn std::error::Error>> {
    let whole = BitMapBackend::with_buffer(pixels, (WIDTH, height)).into_drawing_area();
    whole.fill(&WHITE)?;
    let label = (FONT, 15).into_font().color(&INK);
    let last = steps.last().copied().unwrap_or(1.0);
    for (panel, Column { name, values }) in whole.split_evenly((losses.len(), 1)).iter().zip(losses)
    {
        let [low, high] = range(values);
        let mut chart = ChartBuilder::on(panel)
            .caption(format!("{title}: {name}"), (FONT, 20).into_font().color(&INK))
            .margin(12)
            // Half the width of the last step's label.
            .margin_right(36)
            .x_label_area_size(32)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..last, low..high)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .bold_line_style(INK.mix(0.12))
            .axis_style(INK.mix(0.4))
            .label_style(label.clone())
            .x_labels(11)
            .y_labels(6)
            .x_label_formatter(&|step| format!("{step:.0}"))
            .draw()?;
        // Values above the range are drawn at the upper edge.
        let points = |values: &[f64]| -> Vec<(f64, f64)> {
            steps.iter().zip(values).map(|(&step, &value)| (step, value.min(high))).collect()
        };
        let smooth = smoothed(values, values.len() / SMOOTH);
        chart.draw_series(LineSeries::new(points(values), &FAINT))?;
        chart.draw_series(LineSeries::new(points(&smooth), LINE.stroke_width(2)))?;
    }
    whole.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Returns a table whose loss falls from 2 to 1.
    fn table(rows: usize) -> String {
        let row = |index: usize| {
            let error = 1.0 + (-8.0 * index as f64 / rows as f64).exp();
            format!("{},1.0,1e-3,0.5,{error:.6},0.25\n", 20 * (index + 1))
        };
        let rows: String = (0..rows).map(row).collect();
        format!("step,seconds,rate,gradient,error,kl\n{rows}")
    }

    #[test]
    fn a_curve_falls_from_the_upper_left_to_the_lower_right() {
        let png = draw("flow", &table(200)).expect("drawn").expect("a picture");
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().expect("a PNG file");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("a picture");
        assert_eq!((info.width, info.height), (WIDTH, 2 * HEIGHT));
        // Mean row of pixels in the line's colour in a column of the first panel.
        let row = |x: usize| {
            let is_line = |y: &usize| {
                let at = 3 * (y * WIDTH as usize + x);
                pixels[at..at + 3] == [LINE.0, LINE.1, LINE.2]
            };
            let rows: Vec<usize> = (0..HEIGHT as usize).filter(is_line).collect();
            assert!(!rows.is_empty(), "column {x}");
            rows.iter().sum::<usize>() as f64 / rows.len() as f64
        };
        let rows = [100, 200, 400, 900].map(row);
        assert!(rows.is_sorted(), "{rows:?}");
        assert!(rows[0] < 90.0 && rows[3] > 200.0, "{rows:?}");
        // The last step's label, 4000, is not cut off.
        let mut last = pixels.chunks_exact(3).skip(WIDTH as usize - 1).step_by(WIDTH as usize);
        assert!(last.all(|pixel| pixel == [255; 3]));
    }

    #[test]
    fn all_of_a_short_table_is_seen() {
        let [low, high] = range(&[2.0, 1.0]);
        assert!(low < 1.0 && high > 2.0, "{low} {high}");
    }

    #[test]
    fn what_is_no_curve_is_no_picture() {
        for table in ["", "step,seconds,rate,gradient,error\n", &table(1), "a\nb\nc\n"] {
            assert!(draw("flow", table).expect("nothing").is_none(), "{table}");
        }
    }

    #[test]
    fn a_row_that_is_cut_is_left_out() {
        let (steps, losses) = read(&format!("{}4000,1.0,1e-", table(3))).expect("a table");
        assert_eq!(steps, [20.0, 40.0, 60.0]);
        assert_eq!(losses[1], Column { name: "kl".into(), values: vec![0.25; 3] });
    }
}
