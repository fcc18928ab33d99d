//! The files with the names.
//!
//! A trace may be from any source, and name files that never respond, or that are crafted to take unlimited time. So another process opens
//! and reads them (see [`super::reader`]), and is abandoned if it takes too long.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fxtrec_kernel::worker::{AnswerTimeout, Workers};

use super::code::Build;
use super::reader::{Answer, Question};
use super::{Fetch, Where};
use crate::report::Report;

/// The maximum number of files that are reported as not found.
const MOST_NOTES: usize = 10;

/// How long to wait for a file: a kernel with its debug information takes seconds.
const PATIENCE: AnswerTimeout =
    AnswerTimeout { idle: Duration::from_secs(5), most: Duration::from_secs(120) };

/// The maximum time to waste on files that do not respond.
const MOST_LOST: Duration = Duration::from_secs(180);

/// Requests files, and records the results.
pub(super) struct Files<'w, 'f> {
    places: &'w Where,
    fetch: Option<&'f mut dyn Fetch>,
    workers: Workers,
    found: u64,
    /// Files at a recorded path that have another build id.
    refused: Vec<String>,
    missing: Vec<String>,
    /// Files that did not respond in time.
    silent: Vec<String>,
    /// The time after which no more files are requested.
    until: Option<Instant>,
    /// Files that were not requested, or not completely, because of that.
    late: Vec<String>,
}

impl<'w, 'f> Files<'w, 'f> {
    pub(super) fn new(places: &'w Where, fetch: Option<&'f mut dyn Fetch>) -> Files<'w, 'f> {
        let workers = Workers::new(places.start, PATIENCE, MOST_LOST);
        let (refused, missing, silent, late) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let until = Instant::now().checked_add(places.time);
        Files { places, fetch, workers, found: 0, refused, missing, silent, until, late }
    }

    /// Reports the functions at the addresses of a file.
    pub(super) fn look(
        &mut self,
        build: &Build,
        addresses: &[u64],
        take: &mut dyn FnMut(u64, &str),
    ) {
        let mut answer = self.ask(build, addresses);
        let lacks_symbols = answer.as_ref().is_some_and(|it| it.lacks_symbols(addresses.len()));
        if lacks_symbols
            && !build.in_kernel
            && let Some(fetch) = &mut self.fetch
        {
            // It has its own limits.
            let begun = Instant::now();
            let is_fetched = fetch.fetch(&build.id);
            self.until = self.until.and_then(|until| until.checked_add(begun.elapsed()));
            if is_fetched {
                answer = self.ask(build, addresses);
            }
        }
        let path = || {
            let path = build.paths.first().map_or("?", String::as_str);
            let id: String = build.id.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{path} (build id {id})")
        };
        match answer {
            Some(Answer { is_found, refused, names, .. }) => {
                self.refused.extend(refused);
                match is_found {
                    true => self.found += 1,
                    false => self.missing.push(path()),
                }
                names.iter().for_each(|(address, name)| take(*address, name));
            }
            None if self.until.is_some_and(|until| Instant::now() >= until) => {
                self.late.push(path());
            }
            None => self.silent.push(path()),
        }
    }

    fn ask(&mut self, build: &Build, addresses: &[u64]) -> Option<Answer> {
        let fetched = self.fetch.as_ref().map(|fetch| fetch.folder().to_owned());
        let debug_folders = self.places.debug_folders.iter().cloned().chain(fetched);
        let question = Question {
            build: Cow::Borrowed(build),
            addresses: Cow::Borrowed(addresses),
            debug_folders: debug_folders.map(PathBuf::into).collect(),
            vmlinux: self.places.vmlinux.clone().map(PathBuf::into),
        };
        let question = serde_json::to_vec(&question).unwrap_or_default();
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let answer = self.workers.ask_for(&question, None, self.until.map_or(Duration::MAX, left));
        answer.and_then(|(answer, _)| serde_json::from_slice(&answer).ok())
    }

    pub(super) fn tell(&self, report: &mut Report) {
        report.add("files found", self.found);
        report.add("files not found", self.missing.len() as u64);
        report.add("files with another build id, not used", self.refused.len() as u64);
        report.add("files that did not answer, or took too long", self.silent.len() as u64);
        if self.workers.left() > 0 {
            let left = self.workers.left();
            report.note(format!(
                "{left} processes (fxtrec-files) wait for file systems that do not answer: no more files are read until these exit"
            ));
        }
        report.add("files not read to the end: --naming-time had expired", self.late.len() as u64);
        for (what, count) in self.fetch.iter().flat_map(|fetch| fetch.tell()) {
            report.add(what, count);
        }
        for (what, all) in [
            ("not found", &self.missing),
            ("another build", &self.refused),
            ("no answer", &self.silent),
            ("no time", &self.late),
        ] {
            for file in all.iter().take(MOST_NOTES) {
                report.note(format!("{what}: {file}"));
            }
            if all.len() > MOST_NOTES {
                report.note(format!("{what}: {} more", all.len() - MOST_NOTES));
            }
        }
    }
}
