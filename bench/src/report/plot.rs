//! The picture of growth: what a pod costs among ever more, on logarithmic axes.

use std::fmt::Write as _;

use crate::results::{Metric, Results};
use crate::system::System;

/// Where it is, below the documentation.
pub(super) const FILE: &str = "pictures/growth.svg";

/// A picture has its own background, so that it can be read on a light page and on a dark one.
const BACKGROUND: &str = "#1c2128";
const GRID: &str = "#373e47";
const TEXT: &str = "#adbac7";

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
/// The two plots, side by side.
const LEFT: [f64; 2] = [70.0, 540.0];
const PLOT_WIDTH: f64 = 390.0;
const TOP: f64 = 60.0;
const PLOT_HEIGHT: f64 = 270.0;

fn color(system: System) -> &'static str {
    match system {
        System::Floor => "#8b949e",
        System::Windlass => "#57ab5a",
        System::Embedded => "#539bf5",
        System::Kubelet => "#f47067",
    }
}

/// A logarithmic axis between two numbers, laid on a stretch of the picture.
struct Axis {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        self.begin + share * (self.end - self.begin)
    }

    /// Powers of ten on it.
    fn powers(&self) -> Vec<f64> {
        let (first, last) = (self.from.log10().ceil() as i32, self.to.log10().floor() as i32);
        (first..=last).map(|it| 10f64.powi(it)).collect()
    }
}

/// What a system's pods cost: number of pods, and milliseconds for each.
type Line = (System, Vec<(f64, f64)>);

/// The picture, if more than one size was measured.
pub(super) fn growth(results: &Results) -> Option<String> {
    let mut sizes: Vec<u32> = results.works().filter_map(|it| it.strip_prefix("growth-")?.parse().ok()).collect();
    sizes.sort_unstable();
    let (first, last) = (*sizes.first()?, *sizes.last()?);
    if first == last {
        return None;
    }
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{TEXT}\">\n\
         <title>What a pod costs among ever more pods</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n"
    );
    let titles = [("time per pod", Metric::Wall), ("processor time per pod", Metric::Cpu)];
    let plots = titles.map(|(title, metric)| (title, lines(results, &sizes, metric)));
    // Both have the same scale, so that they can be compared.
    let costs = || plots.iter().flat_map(|it| &it.1).flat_map(|it| &it.1).map(|it| it.1).filter(|it| *it > 0.0);
    let least = 10f64.powf(costs().fold(f64::INFINITY, f64::min).log10().floor());
    let most = 10f64.powf(costs().fold(0.0, f64::max).log10().ceil());
    for ((title, lines), left) in plots.iter().zip(LEFT) {
        let across = Axis { from: first.into(), to: last.into(), begin: left, end: left + PLOT_WIDTH };
        let up = Axis { from: least, to: most, begin: TOP + PLOT_HEIGHT, end: TOP };
        plot(&mut text, title, &sizes, lines, &across, &up);
    }
    legend(&mut text, &plots[0].1, last);
    text.push_str("</svg>\n");
    Some(text)
}

fn lines(results: &Results, sizes: &[u32], metric: Metric) -> Vec<Line> {
    let systems = [System::Kubelet, System::Windlass, System::Embedded, System::Floor];
    let cost = |system, pods: u32| {
        let all = results.median(&format!("growth-{pods}"), system, metric)?;
        Some((f64::from(pods), all / f64::from(pods)))
    };
    let line = |system| (system, sizes.iter().filter_map(|it| cost(system, *it)).collect());
    systems.map(line).into_iter().filter(|it: &Line| !it.1.is_empty()).collect()
}

fn plot(text: &mut String, title: &str, sizes: &[u32], lines: &[Line], across: &Axis, up: &Axis) {
    let (left, right, bottom) = (across.begin, across.end, up.begin);
    let middle = (left + right) / 2.0;
    let _ = writeln!(text, "<text x=\"{middle}\" y=\"34\" text-anchor=\"middle\" font-weight=\"bold\">{title}</text>");
    for power in up.powers() {
        let y = up.at(power);
        let _ = writeln!(text, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"{GRID}\"/>");
        let _ =
            writeln!(text, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{power} ms</text>", left - 8.0, y + 4.0);
    }
    for size in sizes {
        let x = across.at(f64::from(*size));
        let _ = writeln!(text, "<path d=\"M{x:.1} {}V{bottom}\" stroke=\"{GRID}\"/>", up.end);
        let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{size}</text>", bottom + 20.0);
    }
    let _ =
        writeln!(text, "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">pods at once</text>", bottom + 40.0);
    for (system, points) in lines {
        let points: Vec<(f64, f64)> = points.iter().map(|(pods, cost)| (across.at(*pods), up.at(*cost))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let color = color(*system);
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\"/>",
            path.join(" ")
        );
        for (x, y) in points {
            let _ = writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\"/>");
        }
    }
}

/// Which color is whose: in one row in the middle, each as wide as its words. A line that ends early is said to, so that
/// nobody takes what was not measured for what lies below another line.
fn legend(text: &mut String, lines: &[Line], largest: u32) {
    const LETTER: f64 = 7.5;
    const MARK: f64 = 14.0;
    const GAP: f64 = 28.0;
    let words = |(system, points): &Line| {
        let last = points.last().map_or(0.0, |it| it.0);
        let what = match system {
            System::Floor => "floor (bare system calls)".to_owned(),
            System::Windlass | System::Embedded | System::Kubelet => system.to_string(),
        };
        if last < f64::from(largest) { format!("{what} (up to {last} pods)") } else { what }
    };
    let entries: Vec<(System, String)> = lines.iter().map(|it| (it.0, words(it))).collect();
    let width = |words: &str| MARK + LETTER * words.chars().count() as f64;
    let all = entries.iter().map(|it| width(&it.1) + GAP).sum::<f64>() - GAP;
    let (mut x, y) = ((WIDTH - all) / 2.0, HEIGHT - 20.0);
    for (system, words) in &entries {
        let _ =
            writeln!(text, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\" fill=\"{}\"/>", x + 5.0, y - 4.0, color(*system));
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{y}\">{words}</text>", x + MARK);
        x += width(words) + GAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Figures;

    fn results(sizes: &[u32]) -> Results {
        let mut results = Results::default();
        for size in sizes {
            let cost = Some(f64::from(*size) * 0.5);
            let figures = Figures { wall_ms: cost, cpu_ms: cost, ..Figures::default() };
            results.add(&format!("growth-{size}"), System::Windlass, figures);
        }
        results
    }

    #[test]
    fn what_costs_the_same_at_every_size_is_a_level_line() {
        let picture = growth(&results(&[10, 1000])).unwrap_or_default();
        let line = picture.lines().find(|it| it.starts_with("<polyline")).unwrap_or_default();
        let heights: Vec<&str> =
            line.split('"').nth(1).unwrap_or_default().split(' ').filter_map(|it| it.split(',').nth(1)).collect();
        assert_eq!(heights.len(), 2, "{picture}");
        assert_eq!(heights[0], heights[1]);
    }

    #[test]
    fn the_legend_names_every_line_apart_and_where_it_ends() {
        let point = |pods: f64| (pods, 1.0);
        let whole = vec![point(10.0), point(5000.0)];
        let lines = [
            (System::Kubelet, vec![point(10.0), point(1000.0)]),
            (System::Windlass, whole.clone()),
            (System::Embedded, whole.clone()),
            (System::Floor, whole),
        ];
        let mut text = String::new();
        legend(&mut text, &lines, 5000);
        for words in [">kubelet (up to 1000 pods)<", ">windlass<", ">windlass-embedded<", ">floor (bare system calls)<"]
        {
            assert!(text.contains(words), "{words}\n{text}");
        }
        let number = |line: &str| line.split('"').nth(1).and_then(|it| it.parse::<f64>().ok()).unwrap_or_default();
        let rows: Vec<&str> = text.lines().collect();
        for pair in rows.windows(2).filter(|it| it[0].starts_with("<text")) {
            let letters = pair[0].split(['>', '<']).nth(2).unwrap_or_default().len();
            assert!(number(pair[0]) + 7.5 * letters as f64 + 10.0 < number(pair[1]), "{pair:?}");
        }
        let end = number(rows.last().unwrap_or(&""));
        assert!(number(rows[0]) > 5.0 && end + 25.0 * 7.5 < WIDTH, "{text}");
    }

    #[test]
    fn one_size_is_no_growth() {
        assert_eq!(growth(&results(&[10])), None);
    }
}
