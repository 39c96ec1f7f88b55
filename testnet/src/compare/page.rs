//! All tables and curves as one page that needs nothing else.

use std::fmt::Write;

use super::chart::{Chart, escaped};
use super::table::{self, Row};

/// The page.
pub(super) fn render(words: &str, rows: &[Row], bounds: &str) -> String {
    let mut body = format!("<p>{}</p><pre>{}</pre>", escaped(words), escaped(bounds));
    for (section, rows) in table::sections(rows) {
        let _ = write!(body, "<h2>{}</h2><table>", escaped(section.title()));
        body.push_str(&line("th", &table::heads(section)));
        for row in &rows {
            body.push_str(&line("td", &row.cells()));
        }
        body.push_str("</table>");
        let curve = |row: &&Row| {
            let points = row.curve.iter().map(|it| (it.tokens as f64, it.loss));
            (row.name.clone(), points.collect())
        };
        let curves = rows.iter().map(curve).collect();
        body.push_str(&Chart { x: "tokens (held-out loss, first seed)", curves }.html());
    }
    format!("{HEAD}{body}</body></html>\n")
}

fn line(tag: &str, cells: &[String]) -> String {
    let cell = |cell: &String| format!("<{tag}>{}</{tag}>", escaped(cell));
    format!("<tr>{}</tr>", cells.iter().map(cell).collect::<String>())
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>Atoll: how well it learns</title><style>\
body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;color:#1d2733}\
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.2em .6em;\
border-bottom:1px solid #e4e9ee}th:first-child,td:first-child{text-align:left}\
.legend span{margin-right:1em;white-space:nowrap}.legend i{display:inline-block;width:.8em;\
height:.8em;border-radius:50%;margin-right:.3em}pre{background:#f5f7f9;padding:.8em}\
</style></head><body><h1>How well ways to train together learn</h1>";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::table::example;

    #[test]
    fn the_page_has_tables_and_curves_and_needs_no_network() {
        let rows = example::rows(|_, seed| Some(seed as f64));
        let html = render("words", &rows, "holds: a < b");
        assert_eq!(html.matches("<table>").count(), 2);
        assert_eq!(html.matches("<svg ").count(), 2);
        assert!(html.contains("a &lt; b") && !html.contains("src="));
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("http"));
    }
}
