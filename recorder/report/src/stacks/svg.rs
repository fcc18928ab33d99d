//! A flame graph as a single self-contained picture: SVG with a script to zoom and to search.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use fxtrec_sched::backtrace::Kind;
use fxtrec_units::escape;
use fxtrec_units::text::{percent, short};

use super::profile::Profile;

const WIDTH: f64 = 1200.0;
const ROW: usize = 17;
/// The height above the graph, for the title and the search line.
const HEAD: usize = 44;
/// Boxes narrower than this are left out, in pixels: they would be invisible.
const NARROWEST: f64 = 0.2;
/// The width of a letter.
const LETTER: f64 = 6.6;

/// A function with its callees.
#[derive(Debug, Default)]
struct Node {
    weight: u64,
    inner: BTreeMap<String, Node>,
}

impl Node {
    fn depth(&self) -> usize {
        1 + self.inner.values().map(Node::depth).max().unwrap_or(0)
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    // XML does not allow control characters.
    for letter in escape::line(text).chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

/// The colour of a name, which is the same in every graph: kernel functions are orange, blocked time blue, time on a CPU red.
fn colour(name: &str, kind: Kind) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let hue = match (name.ends_with("_[k]"), kind) {
        (true, _) => 30,
        (false, Kind::Cpu) => 5,
        (false, Kind::OffCpu) => 205,
        (false, Kind::Wake) => 140,
    };
    format!("hsl({},{}%,{}%)", hue + hash % 20, 55 + hash / 20 % 25, 66 + hash / 500 % 12)
}

/// Draws a function, and its callees below it.
fn draw(name: &str, node: &Node, place: (f64, usize), total: u64, kind: Kind, out: &mut String) {
    let (left, depth) = place;
    let width = WIDTH * node.weight as f64 / total as f64;
    if width < NARROWEST {
        return;
    }
    let top = HEAD + depth * ROW;
    let length = short(Duration::from_nanos(node.weight));
    let share = percent(node.weight as f64 / total as f64);
    let fits = (width / LETTER) as usize;
    let shown: String = match name.chars().count() {
        length if length <= fits => name.to_owned(),
        _ if fits < 3 => String::new(),
        _ => name.chars().take(fits - 1).chain(['…']).collect(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<g data-x=\"{left:.2}\" data-w=\"{width:.2}\" data-n=\"{name}\"><title>{name}: {length}, {share}</title>\
         <rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\"/>\
         <text x=\"{:.2}\" y=\"{}\">{}</text></g>",
        ROW - 1,
        colour(name, kind),
        left + 2.0,
        top + 12,
        escaped(&shown),
        name = escaped(name),
    );
    let mut at = left;
    for (name, inner) in &node.inner {
        draw(name, inner, (at, depth + 1), total, kind, out);
        at += WIDTH * inner.weight as f64 / total as f64;
    }
}

/// Writes the graph of a profile.
///
/// # Errors
/// The errors of `out`.
pub fn write_svg(profile: &Profile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut root = Node::default();
    for (line, weight) in profile.folded() {
        root.weight += weight;
        let mut node = &mut root;
        for part in line {
            node = node.inner.entry(part).or_default();
            node.weight += weight;
        }
    }
    let height = HEAD + root.depth() * ROW + 10;
    let mut graph = String::new();
    draw("all", &root, (0.0, 0), root.weight.max(1), profile.kind, &mut graph);
    let total = short(Duration::from_nanos(root.weight));
    let script = include_str!("flame.js");
    write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <style>text{{pointer-events:none}} g:hover rect{{stroke:#000;stroke-width:.5}} .found rect{{fill:#e0f}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"2\" y=\"16\" font-size=\"14\">Time {}, by stack: {total}</text>\n\
         <text id=\"hint\" x=\"2\" y=\"34\" fill=\"#666\">Click a function to zoom in, the lowest of all to zoom out; \
         press / to search</text>\n{graph}\
         <script><![CDATA[\n{script}]]></script>\n</svg>\n",
        profile.title(),
    )
}
