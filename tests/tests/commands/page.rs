//! The page of `fxtrec report --html`, in a real browser.
//!
//! The pages that the tests create, and their screenshots, stay in `target/tmp/page` until the next run.

mod browser;
mod budget;
mod causes;
mod event_blocks;
mod layout;
mod look;
mod recording;
mod scale;
pub(crate) mod scene;
mod stacks;
mod use_it;
mod why;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fxt_reader::Reader;
use fxtrec::report::page::{Budget, Page};
use fxtrec::report::{Options, analysis};
use scene::Scene;

/// A second of four CPUs, with some losses.
const SCENE: Scene = Scene { cpus: 4, threads: 40, events: 40_000, spans: true, gap: true };

/// A file in the directory that stays until the next run.
fn kept(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&folder).expect("cargo's folder can be written to");
    folder.join(name)
}

/// Writes the page of a trace, with all sections.
fn write_page(trace: &[u8], name: &str) -> PathBuf {
    write_page_within(trace, name, Page::new().within(Budget::All))
}

/// Writes the page of a trace, as large as `page` may be.
fn write_page_within(trace: &[u8], name: &str, page: Page) -> PathBuf {
    let reader = Reader::from_slice(trace);
    let (report, page) =
        analysis::observe(reader, Options::default(), page).expect("a sound trace");
    let path = kept(name);
    let mut file = std::fs::File::create(&path).expect("the file can be made");
    page.write(&report, &mut file).expect("the file can be written");
    path
}

/// The page of a thread that waits through a million switches, which are many tiles.
fn starved_page() -> &'static Path {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| write_page(&scene::starved(1_200_000), "starved.html"))
}

/// The page of [`SCENE`], which most tests look at.
fn scene_page() -> &'static Path {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| write_page(&SCENE.trace(), "scene.html"))
}
