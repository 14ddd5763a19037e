//! Bars on a logarithmic scale, lying, each with its number.

use super::PlotError;
use super::page::{Area, colour, failed, faint, label, sheet, text_style};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{Cartesian2d, ChartBuilder, ChartContext, Rectangle, SVGBackend, Text};
use plotters::prelude::{Color, IntoLogRange, LogCoord};
use std::fmt::Write;

/// Bars of one thing: one a series.
#[derive(Clone, Debug, PartialEq)]
pub struct BarRow {
    /// What it is.
    pub label: String,
    /// Its value in each series, where there is one; above 0.
    pub values: Vec<Option<f64>>,
}

/// Bars of several things.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPanel {
    /// What is shown, and in which unit.
    pub title: String,
    /// The things.
    pub rows: Vec<BarRow>,
}

const PANEL_WIDTH: u32 = 470;
const BAR_HEIGHT: u32 = 13;
const ROW_GAP: u32 = 8;
/// Heading, axis and margins of a panel.
const PANEL_FRAME: u32 = 74;
/// Heading and legend of the sheet.
const HEAD: u32 = 64;
const LABEL_WIDTH: u32 = 178;

/// Draws panels in rows of `columns`.
///
/// # Errors
/// [`PlotError`].
pub fn bar_chart(
    title: &str,
    series: &[String],
    panels: &[BarPanel],
    columns: usize,
) -> Result<String, PlotError> {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns);
    let bars = series.len().max(1) as u32;
    let most = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0) as u32;
    let panel_height = PANEL_FRAME + most * (bars * BAR_HEIGHT + ROW_GAP);
    let size = (columns as u32 * PANEL_WIDTH, HEAD + rows as u32 * panel_height);
    sheet(size, title, &described(series, panels), |root| {
        let (head, body) = root.split_vertically(HEAD);
        heading(&head, title, series)?;
        for (area, panel) in body.split_evenly((rows, columns)).iter().zip(panels) {
            draw(area, panel, series.len().max(1))?;
        }
        Ok(())
    })
}

/// The numbers, for those who do not see the bars.
fn described(series: &[String], panels: &[BarPanel]) -> String {
    let mut text = String::new();
    for panel in panels {
        // Writing to a string does not fail.
        let _ = write!(text, "{}. ", panel.title);
        for row in &panel.rows {
            for (value, name) in row.values.iter().zip(series) {
                let value = value.map_or_else(|| "none".to_owned(), label);
                let _ = write!(text, "{}, {name}: {value}. ", row.label);
            }
        }
    }
    text
}

/// The sheet's title, and which colour is what if there are several.
pub(super) fn heading(area: &Area<'_>, title: &str, series: &[String]) -> Result<(), PlotError> {
    area.draw(&Text::new(title.to_owned(), (12, 10), text_style(18))).map_err(failed)?;
    let mut left = 12;
    for (at, name) in series.iter().enumerate().filter(|_| series.len() > 1) {
        area.draw(&Rectangle::new([(left, 40), (left + 12, 52)], colour(at).filled())).map_err(failed)?;
        area.draw(&Text::new(name.clone(), (left + 18, 39), text_style(14))).map_err(failed)?;
        left += 44 + 8 * i32::try_from(name.len()).unwrap_or(0);
    }
    Ok(())
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, RangedCoordf64>>;

fn draw(area: &Area<'_>, panel: &BarPanel, bars: usize) -> Result<(), PlotError> {
    let values = || panel.rows.iter().flat_map(|row| row.values.iter().flatten().copied());
    let least = values().fold(f64::INFINITY, f64::min);
    let greatest = values().fold(0.0f64, f64::max);
    let (least, greatest) = if least.is_finite() { (least, greatest) } else { (1.0, 1.0) };
    // A bar begins a decade or so below the least value, and its number has room behind the greatest.
    let from = 10f64.powf((least.log10() - 0.3).floor());
    let to = greatest * (greatest / from).powf(0.22).max(3.0);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, text_style(15))
        .margin(8)
        .margin_left(LABEL_WIDTH + 4)
        .x_label_area_size(26)
        .build_cartesian_2d((from..to).log_scale(), 0.0..panel.rows.len().max(1) as f64)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(5)
        .x_label_formatter(&|value| label(*value))
        .bold_line_style(faint())
        .light_line_style(faint().mix(0.0))
        .axis_style(faint())
        .label_style(text_style(12))
        .draw()
        .map_err(failed)?;
    for (at, row) in panel.rows.iter().enumerate() {
        // From the top down.
        let top = (panel.rows.len() - at) as f64 - 0.12;
        for (which, value) in row.values.iter().enumerate() {
            bar(
                &mut chart,
                from,
                top - which as f64 * 0.76 / bars as f64,
                0.76 / bars as f64,
                which,
                *value,
            )?;
        }
        let middle = chart.backend_coord(&(from, top - 0.38));
        let style = text_style(13);
        let edge = area.get_base_pixel();
        let place = (8, middle.1 - edge.1 - 7);
        area.draw(&Text::new(row.label.clone(), place, style)).map_err(failed)?;
    }
    Ok(())
}

fn bar(
    chart: &mut Chart<'_, '_>,
    from: f64,
    top: f64,
    thickness: f64,
    series: usize,
    value: Option<f64>,
) -> Result<(), PlotError> {
    let style = text_style(11);
    let text = value.map_or_else(|| "\u{2013}".to_owned(), label);
    let value = value.unwrap_or(from);
    let corners = [(from, top), (value, top - thickness * 0.92)];
    let number = Text::new(format!("\u{a0}{text}"), (value, top - thickness * 0.02), style);
    chart.draw_series([Rectangle::new(corners, colour(series).filled())]).map_err(failed)?;
    chart.draw_series([number]).map_err(failed)?;
    Ok(())
}
