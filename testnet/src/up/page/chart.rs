//! One chart as SVG.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{COLOURS, Rgb, swatch};

/// A chart of lines and points.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Twice as wide as the others.
    pub(super) wide: bool,
    pub(super) series: Vec<Series>,
    /// Upright lines: when something happened, in which colour.
    pub(super) marks: Vec<(f64, Rgb)>,
}

/// What one axis is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// What is measured.
    pub(super) what: &'static str,
    /// How its numbers are written.
    pub(super) label: fn(f64) -> String,
    /// What it shows at least; without, just what there is, with some room.
    pub(super) range: Option<(f64, f64)>,
}

/// Points that belong together.
#[derive(Debug)]
pub(super) struct Series {
    /// What it is called in the legend; none if it is not in there.
    pub(super) name: Option<String>,
    pub(super) colour: Rgb,
    pub(super) shape: Shape,
    pub(super) points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Line { width: u32 },
    Faint,
    Dots { size: u32 },
    Dashed { width: u32 },
}

impl Axis {
    pub(super) fn new(what: &'static str, label: fn(f64) -> String) -> Self {
        Self { what, label, range: None }
    }

    /// Shows all of this at least.
    pub(super) fn from(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// What it shows of these values.
    fn bounds(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let wider = |(low, high): (f64, f64), it: f64| (low.min(it), high.max(it));
        let (low, high) = values.fold(self.range.unwrap_or((f64::MAX, f64::MIN)), wider);
        let room = ((high - low) * ROOM).max(1e-9);
        (if self.range.is_some() { low } else { low - room }, high + room)
    }
}

impl Series {
    /// A line of island `index`; whoever has the colour of another one has dashes.
    pub(super) fn island(index: usize, faint: bool, points: Vec<(f64, f64)>) -> Self {
        let shape = match (index < COLOURS.len(), faint) {
            (true, true) => Shape::Faint,
            (true, false) => Shape::Line { width: 2 },
            (false, true) => Shape::Dashed { width: 1 },
            (false, false) => Shape::Dashed { width: 2 },
        };
        let name = Some(crate::up::happening::island(index));
        Self { name, colour: COLOURS[index % COLOURS.len()], shape, points }
    }

    pub(super) fn new(name: &str, colour: Rgb, shape: Shape, points: Vec<(f64, f64)>) -> Self {
        Self { name: Some(name.to_owned()), colour, shape, points }
    }
}

impl Chart {
    pub(super) fn new(x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { x, y, wide: false, series, marks: Vec::new() }
    }

    /// The legend and the SVG, or words where there is nothing to draw.
    pub(super) fn html(&self) -> String {
        if self.points().next().is_none() {
            return NOTHING.into();
        }
        let mut legend = String::from("<div class=\"legend\">");
        for (name, series) in self.series.iter().filter_map(|it| Some((it.name.as_ref()?, it))) {
            let kind = match series.shape {
                Shape::Dashed { .. } => "dashed",
                Shape::Dots { .. } => "dot",
                Shape::Line { .. } | Shape::Faint => "line",
            };
            let _ = write!(legend, "<span>{}{name}</span>", swatch(kind, series.colour));
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

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let (left, right) = match self.x.range {
            Some((left, right)) => (left, right.max(left + 1e-9)),
            None => self.x.bounds(self.points().map(|it| it.0)),
        };
        let (low, high) = self.y.bounds(self.points().map(|it| it.1));
        // Narrow charts are shown smaller than they are drawn.
        let size = if self.wide { 13 } else { 15 };
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .x_label_area_size(38)
            .y_label_area_size(if self.wide { LEFT } else { LEFT + 6 })
            .build_cartesian_2d(left..right, low..high)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(AXIS)
            .label_style(("sans-serif", size, &INK))
            .axis_desc_style(("sans-serif", size, &INK))
            .x_desc(self.x.what)
            .y_desc(self.y.what)
            .x_labels(if self.wide { 10 } else { 6 })
            .y_labels(6)
            .x_label_formatter(&|it| (self.x.label)(*it))
            .y_label_formatter(&|it| (self.y.label)(*it))
            .draw()?;
        for (mark, colour) in &self.marks {
            let line = [(*mark, low), (*mark, high)];
            chart.draw_series(LineSeries::new(line, rgb(*colour).mix(0.4)))?;
        }
        for series in &self.series {
            let colour = rgb(series.colour);
            let points = series.points.iter().copied();
            match series.shape {
                Shape::Line { width } => {
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(width)))?;
                }
                Shape::Faint => {
                    chart.draw_series(LineSeries::new(points, colour.mix(0.5)))?;
                }
                Shape::Dots { size } => {
                    let dot = |point| Circle::new(point, size, colour.filled());
                    chart.draw_series(points.map(dot))?;
                }
                Shape::Dashed { width } => {
                    let style = colour.stroke_width(width);
                    chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?;
                }
            }
        }
        Ok(())
    }
}

fn rgb((red, green, blue): Rgb) -> RGBColor {
    RGBColor(red, green, blue)
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
const LEFT: u32 = 66;
const MARGIN: u32 = 8;
/// Above and below what is shown, as a share of it.
const ROOM: f64 = 0.04;
/// style.css gives these other colours in the dark.
const GRID: RGBColor = RGBColor(233, 238, 242);
const AXIS: RGBColor = RGBColor(160, 172, 184);
const INK: RGBColor = RGBColor(92, 107, 122);
const NOTHING: &str = "<p>Nothing was measured.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let x = Axis::new("time", crate::up::units::clock);
        let y = Axis::new("nats", |it| format!("{it:.1}"));
        let series = [0, 9].map(|index| Series::island(index, false, points.clone()));
        Chart { marks: vec![(1.0, (224, 49, 49))], ..Chart::new(x, y, series.into()) }
    }

    #[test]
    fn a_chart_is_an_svg_that_scales() {
        let html = chart(vec![(0.0, 5.0), (1.0, 3.0), (2.0, 2.5)]).html();
        assert!(html.contains("<svg viewBox=\"0 0 520 300\""), "{html}");
        assert!(html.trim_end().ends_with("</svg>"));
        for words in ["island 1", "time", "nats", "class=\"dashed\""] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }

    #[test]
    fn one_point_or_none_can_be_drawn() {
        assert!(chart(vec![(3.0, 5.0)]).html().contains("<svg"));
        assert_eq!(chart(Vec::new()).html(), NOTHING);
    }
}
