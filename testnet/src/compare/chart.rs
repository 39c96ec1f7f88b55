//! Loss curves as one SVG.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

/// Curves over one axis.
#[derive(Debug)]
pub(crate) struct Chart {
    /// What the horizontal axis is.
    pub(crate) x: &'static str,
    /// Names and points.
    pub(crate) curves: Vec<(String, Vec<(f64, f64)>)>,
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Chart {
    /// The legend and the SVG; nothing where there is nothing to draw.
    pub(crate) fn html(&self) -> String {
        let Some(bounds) = self.bounds() else { return String::new() };
        let mut svg = String::new();
        let drawn = {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area, bounds).is_ok() && area.present().is_ok()
        };
        let mut html = String::from("<p class=\"legend\">");
        for ((name, _), (red, green, blue)) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let dot = format!("<i style=\"background:rgb({red},{green},{blue})\"></i>");
            let _ = write!(html, "<span>{dot}{}</span> ", escaped(name));
        }
        let scalable = svg.split_once("viewBox").map(|(_, rest)| format!("<svg viewBox{rest}"));
        if drawn { format!("{html}</p>{}", scalable.unwrap_or(svg)) } else { String::new() }
    }

    /// The axes' ends. The beginning of training is high and says little: it is cut off.
    fn bounds(&self) -> Option<[f64; 4]> {
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let right = points().map(|it| it.0).fold(f64::MIN, f64::max);
        let low = points().map(|it| it.1).fold(f64::MAX, f64::min);
        let late = points().filter(|it| it.0 >= right * SHOWN_FROM);
        let high = late.map(|it| it.1).fold(f64::MIN, f64::max);
        (high >= low && right > 0.0).then(|| [right, low * 0.98, high.max(low * 1.02), 0.0])
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>, bounds: [f64; 4]) -> Drawn {
        let [right, low, high, left] = bounds;
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(38)
            .y_label_area_size(52)
            .build_cartesian_2d(left..right, low..high)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(233, 238, 242))
            .label_style(("sans-serif", 13, &RGBColor(92, 107, 122)))
            .axis_desc_style(("sans-serif", 13, &RGBColor(92, 107, 122)))
            .x_desc(self.x)
            .x_label_formatter(&|it| short(*it))
            .y_label_formatter(&|it| format!("{it:.2}"))
            .draw()?;
        for ((_, points), (red, green, blue)) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let style = RGBColor(*red, *green, *blue).stroke_width(2);
            let shown = points.iter().copied().filter(|it| it.1 <= high);
            chart.draw_series(LineSeries::new(shown, style))?;
        }
        Ok(())
    }
}

/// Text that is no markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A number with few digits: `1.5M`.
fn short(value: f64) -> String {
    match value {
        1e9.. => format!("{:.1}G", value / 1e9),
        1e6.. => format!("{:.1}M", value / 1e6),
        1e3.. => format!("{:.0}k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

const SIZE: (u32, u32) = (1040, 420);
/// The share of the horizontal axis from where on everything must fit.
const SHOWN_FROM: f64 = 0.1;
/// Told apart also by most who see colours differently.
const COLOURS: [(u8, u8, u8); 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (230, 159, 0),
    (90, 90, 90),
    (148, 62, 15),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_become_an_svg() {
        let curves = vec![("a < b".into(), vec![(0.0, 5.0), (1e6, 3.0), (2e6, 2.0)])];
        let html = Chart { x: "tokens", curves }.html();
        assert!(html.contains("<svg viewBox=") && html.contains("a &lt; b"), "{html}");
        assert!(html.trim_end().ends_with("</svg>"));
        assert_eq!(Chart { x: "tokens", curves: Vec::new() }.html(), "");
    }
}
