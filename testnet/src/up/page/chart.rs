//! One chart as SVG.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::COLOURS;

/// A chart of lines and points over one axis.
#[derive(Debug)]
pub(super) struct Chart {
    /// What the horizontal axis is.
    pub(super) x: &'static str,
    /// How its numbers are written.
    pub(super) x_label: fn(f64) -> String,
    /// How those of the vertical axis are.
    pub(super) y_label: fn(f64) -> String,
    /// What the horizontal axis shows, if not just what there is.
    pub(super) x_range: Option<(f64, f64)>,
    /// What the vertical axis must show at least.
    pub(super) y_range: Option<(f64, f64)>,
    /// Twice as wide as the others.
    pub(super) wide: bool,
    pub(super) series: Vec<Series>,
    /// Vertical lines: when something happened, and whether it was bad.
    pub(super) marks: Vec<(f64, bool)>,
}

/// Points that belong together.
#[derive(Debug)]
pub(super) struct Series {
    /// What it is called in the legend; none if it is not in there.
    pub(super) name: Option<String>,
    pub(super) colour: (u8, u8, u8),
    pub(super) shape: Shape,
    pub(super) points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Line { width: u32 },
    Faint,
    Dots { size: u32 },
    Dashed,
}

impl Series {
    /// Of island `index`.
    pub(super) fn island(index: usize, shape: Shape, points: Vec<(f64, f64)>) -> Self {
        let name = Some(crate::up::happening::island(index));
        Self { name, colour: COLOURS[index % COLOURS.len()], shape, points }
    }
}

impl Chart {
    /// The legend and the SVG, or words where there is nothing to draw.
    pub(super) fn html(&self) -> String {
        if self.points().next().is_none() {
            return NOTHING.into();
        }
        let mut legend = String::from("<div class=\"legend\">");
        for (name, (red, green, blue)) in
            self.series.iter().filter_map(|it| Some((it.name.as_ref()?, it.colour)))
        {
            let _ = write!(
                legend,
                "<span><i class=\"dot\" style=\"background:rgb({red},{green},{blue})\"></i>{name}</span>"
            );
        }
        format!("{legend}</div>{}", self.svg())
    }

    fn svg(&self) -> String {
        let mut svg = String::new();
        let drawn = {
            let size = if self.wide { (1040, 380) } else { (520, 300) };
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw(&area).is_ok() && area.present().is_ok()
        };
        if drawn { scalable(&svg) } else { NOTHING.into() }
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.series.iter().flat_map(|it| &it.points)
    }

    fn bounds(&self) -> ((f64, f64), (f64, f64)) {
        let widen = |(low, high): (f64, f64), it: f64| (low.min(it), high.max(it));
        let none = (f64::MAX, f64::MIN);
        let (x, y) =
            self.points().fold((none, none), |(x, y), it| (widen(x, it.0), widen(y, it.1)));
        let y = self.y_range.map_or(y, |(low, high)| widen(widen(y, low), high));
        let room = |(low, high): (f64, f64), share: f64| {
            let space = ((high - low) * share).max(1e-9);
            (low - space, high + space)
        };
        let y = if self.y_range.is_some() { (y.0, y.1 * 1.02) } else { room(y, 0.04) };
        let x = self.x_range.unwrap_or(x);
        ((x.0, x.1.max(x.0 + 1e-9)), y)
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let ((left, right), (low, high)) = self.bounds();
        if left > right || low > high {
            return Ok(());
        }
        // Narrow charts are shown smaller than they are drawn.
        let size = if self.wide { 13 } else { 15 };
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .x_label_area_size(38)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(left..right, low..high)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(233, 238, 242))
            .axis_style(RGBColor(160, 172, 184))
            .label_style(("sans-serif", size, &RGBColor(92, 107, 122)))
            .axis_desc_style(("sans-serif", size, &RGBColor(92, 107, 122)))
            .x_desc(self.x)
            .x_labels(if self.wide { 10 } else { 6 })
            .y_labels(6)
            .x_label_formatter(&|it| (self.x_label)(*it))
            .y_label_formatter(&|it| (self.y_label)(*it))
            .draw()?;
        for (mark, bad) in &self.marks {
            let line = [(*mark, low), (*mark, high)];
            let colour = if *bad { RGBColor(224, 49, 49) } else { RGBColor(47, 158, 68) };
            chart.draw_series(LineSeries::new(line, colour.mix(0.35)))?;
        }
        for series in &self.series {
            let (red, green, blue) = series.colour;
            let colour = RGBColor(red, green, blue);
            let points = series.points.iter().copied();
            match series.shape {
                Shape::Line { width } => {
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(width)))?;
                }
                Shape::Faint => {
                    chart.draw_series(LineSeries::new(points, colour.mix(0.55)))?;
                }
                Shape::Dots { size } => {
                    let dot = |point| Circle::new(point, size, colour.filled());
                    chart.draw_series(points.map(dot))?;
                }
                Shape::Dashed => {
                    let style = colour.stroke_width(2);
                    chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?;
                }
            }
        }
        Ok(())
    }
}

/// An SVG that takes the width it is given.
fn scalable(svg: &str) -> String {
    match svg.split_once("viewBox") {
        Some((head, rest)) => match head.rsplit_once("<svg ") {
            Some(_) => format!("<svg viewBox{rest}"),
            None => svg.to_owned(),
        },
        None => svg.to_owned(),
    }
}

/// What is left and right of a chart's plane, which style.css repeats for what lies below it.
const LEFT: u32 = 52;
const MARGIN: u32 = 8;
const NOTHING: &str = "<p>Nothing was measured.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            x: "time",
            x_label: crate::up::units::clock,
            y_label: |it| format!("{it:.1}"),
            x_range: None,
            y_range: None,
            wide: false,
            series: vec![Series::island(0, Shape::Line { width: 2 }, points)],
            marks: vec![(1.0, true)],
        }
    }

    #[test]
    fn a_chart_is_an_svg_that_scales() {
        let html = chart(vec![(0.0, 5.0), (1.0, 3.0), (2.0, 2.5)]).html();
        assert!(html.contains("<svg viewBox=\"0 0 520 300\""), "{html}");
        assert!(html.trim_end().ends_with("</svg>"));
        assert!(html.contains("island 1") && html.contains("time"), "{html}");
    }

    #[test]
    fn one_point_or_none_can_be_drawn() {
        assert!(chart(vec![(3.0, 5.0)]).html().contains("<svg"));
        assert_eq!(chart(Vec::new()).html(), NOTHING);
    }
}
