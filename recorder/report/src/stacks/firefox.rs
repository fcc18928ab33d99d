//! A profile in the processed JSON format of the Firefox Profiler.
//!
//! Members have the meanings of the profiler's `src/types/profile.ts`. The profiler upgrades older versions when it loads a file, so the
//! version here is the one that this code was written for.

use std::io::{self, Write};

use fxtrec_sched::backtrace::Kind;
use fxtrec_units::escape;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::profile::{Profile, Sample};

/// The version of the processed format.
const PROCESSED_VERSION: u32 = 48;

/// The version of Firefox's own format, which processed profiles name too.
const GECKO_VERSION: u32 = 27;

const USER: usize = 0;
const KERNEL: usize = 1;

/// The tables that a thread's stacks refer to; all numbers are indexes into these tables.
#[derive(Debug, Default)]
struct Tables {
    strings: Vec<String>,
    known_strings: FxHashMap<String, usize>,
    /// For each function, its name and its resource.
    functions: Vec<(usize, Option<usize>)>,
    known_functions: FxHashMap<(usize, Option<usize>), usize>,
    /// For each frame, its address in its file, its category, and its function.
    frames: Vec<(Option<u64>, usize, usize)>,
    known_frames: FxHashMap<(Option<u64>, usize, usize), usize>,
    /// For each stack, the stack of the caller, and the frame.
    stacks: Vec<(Option<usize>, usize)>,
    known_stacks: FxHashMap<(Option<usize>, usize), usize>,
    /// For each resource, its file and its name.
    resources: Vec<(usize, usize)>,
    known_resources: FxHashMap<usize, usize>,
}

fn number<K: std::hash::Hash + Eq + Clone>(
    known: &mut FxHashMap<K, usize>,
    all: &mut Vec<K>,
    key: K,
) -> usize {
    let next = all.len();
    let found = *known.entry(key.clone()).or_insert(next);
    if found == next {
        all.push(key);
    }
    found
}

impl Tables {
    fn string(&mut self, text: &str) -> usize {
        number(&mut self.known_strings, &mut self.strings, text.to_owned())
    }

    /// The stack of a sample; `None` if it has none.
    fn stack(&mut self, sample: &Sample<'_>, libraries: &mut Libraries) -> Option<usize> {
        let mut stack = None;
        for frame in sample.frames.iter().rev() {
            let resource = frame.module.map(|(path, _)| {
                let library = libraries.number(path);
                if let Some(&known) = self.known_resources.get(&library) {
                    return known;
                }
                let name = self.string(file_name(path));
                self.resources.push((library, name));
                self.known_resources.insert(library, self.resources.len() - 1);
                self.resources.len() - 1
            });
            let name = self.string(&frame.label());
            let function = number(&mut self.known_functions, &mut self.functions, (name, resource));
            let category = if frame.in_kernel { KERNEL } else { USER };
            let frame = (frame.module.map(|(_, within)| within), category, function);
            let frame = number(&mut self.known_frames, &mut self.frames, frame);
            stack = Some(number(&mut self.known_stacks, &mut self.stacks, (stack, frame)));
        }
        stack
    }
}

/// The files of all threads.
#[derive(Debug, Default)]
struct Libraries {
    paths: Vec<String>,
    known: FxHashMap<String, usize>,
}

impl Libraries {
    fn number(&mut self, path: &str) -> usize {
        number(&mut self.known, &mut self.paths, path.to_owned())
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A thread of the profile: the stacks of one kind of one thread.
fn thread(kind: Kind, samples: &[&Sample<'_>], libraries: &mut Libraries) -> Value {
    let mut tables = Tables::default();
    let stacks: Vec<Option<usize>> =
        samples.iter().map(|sample| tables.stack(sample, libraries)).collect();
    let milliseconds = |nanos: u64| nanos as f64 / 1e6;
    let times: Vec<f64> = samples.iter().map(|sample| milliseconds(sample.time)).collect();
    let weights: Vec<f64> = samples.iter().map(|sample| milliseconds(sample.weight)).collect();
    let who = samples[0].thread;
    let pid = who.pid.unwrap_or(who.tid);
    let what = match kind {
        Kind::OffCpu => "blocked",
        Kind::Wake => "ended waits",
        Kind::Cpu => "on a CPU",
    };
    let Tables { strings, functions, frames, stacks: all, resources, .. } = tables;
    let (frame_count, function_count) = (frames.len(), functions.len());
    let nothing = |length: usize| vec![Value::Null; length];
    json!({
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "name": format!("{} ({what})", who.comm),
        "isMainThread": who.tid == pid,
        "processName": format!("process {pid}"),
        "pid": pid.to_string(),
        "tid": format!("{}-{what}", who.tid),
        "samples": {
            "length": samples.len(),
            "stack": stacks,
            "time": times,
            "weight": weights,
            "weightType": "tracing-ms",
        },
        "markers": {
            "length": 0, "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [],
        },
        "stackTable": {
            "length": all.len(),
            "prefix": all.iter().map(|(prefix, _)| *prefix).collect::<Vec<_>>(),
            "frame": all.iter().map(|(_, frame)| *frame).collect::<Vec<_>>(),
            "category": all.iter().map(|(_, frame)| frames[*frame].1).collect::<Vec<_>>(),
            "subcategory": vec![0; all.len()],
        },
        "frameTable": {
            "length": frame_count,
            // -1 means none.
            "address": frames.iter().map(|(address, ..)| address.map_or(json!(-1), |it| json!(it))).collect::<Vec<_>>(),
            "inlineDepth": vec![0; frame_count],
            "category": frames.iter().map(|(_, category, _)| *category).collect::<Vec<_>>(),
            "subcategory": vec![0; frame_count],
            "func": frames.iter().map(|(.., function)| *function).collect::<Vec<_>>(),
            "nativeSymbol": nothing(frame_count),
            "innerWindowID": nothing(frame_count),
            "implementation": nothing(frame_count),
            "line": nothing(frame_count),
            "column": nothing(frame_count),
        },
        "funcTable": {
            "length": function_count,
            "name": functions.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            "isJS": vec![false; function_count],
            "relevantForJS": vec![false; function_count],
            "resource": functions.iter().map(|(_, it)| it.map_or(json!(-1), |it| json!(it))).collect::<Vec<_>>(),
            "fileName": nothing(function_count),
            "lineNumber": nothing(function_count),
            "columnNumber": nothing(function_count),
        },
        "resourceTable": {
            "length": resources.len(),
            "lib": resources.iter().map(|(library, _)| *library).collect::<Vec<_>>(),
            "name": resources.iter().map(|(_, name)| *name).collect::<Vec<_>>(),
            "host": nothing(resources.len()),
            // The type of libraries.
            "type": vec![1; resources.len()],
        },
        "nativeSymbols": {
            "length": 0, "libIndex": [], "address": [], "name": [], "functionSize": [],
        },
        "stringArray": strings,
    })
}

/// Writes the profiles of a trace as one profile, in which each thread occurs once for each kind of stack.
///
/// # Errors
/// The errors of `out`.
pub fn write_firefox(profiles: &[Profile<'_>], out: &mut dyn Write) -> io::Result<()> {
    let mut libraries = Libraries::default();
    let mut threads = Vec::new();
    for profile in profiles {
        let mut of: FxHashMap<u64, Vec<&Sample<'_>>> = FxHashMap::default();
        for sample in &profile.samples {
            of.entry(sample.thread.koid.0).or_default().push(sample);
        }
        let mut of: Vec<Vec<&Sample<'_>>> = of.into_values().collect();
        of.sort_by_key(|samples| {
            (
                std::cmp::Reverse(samples.iter().map(|it| it.weight).sum::<u64>()),
                samples[0].thread.tid,
            )
        });
        for mut samples in of {
            samples.sort_by_key(|sample| sample.time);
            threads.push(thread(profile.kind, &samples, &mut libraries));
        }
    }
    let libraries: Vec<Value> = libraries
        .paths
        .iter()
        .map(|path| {
            let name = file_name(path);
            json!({
                "arch": "", "name": name, "path": path, "debugName": name, "debugPath": path,
                "breakpadId": "", "codeId": null,
            })
        })
        .collect();
    let category =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    let document = json!({
        "meta": {
            "version": GECKO_VERSION,
            "preprocessedProfileVersion": PROCESSED_VERSION,
            "interval": 1,
            "startTime": 0,
            "processType": 0,
            "product": "fxtrec",
            "stackwalk": 1,
            "debug": false,
            "symbolicated": true,
            "keepProfileThreadOrder": true,
            "usesOnlyOneStackType": true,
            "doesNotUseFrameImplementation": true,
            "sourceCodeIsNotOnSearchfox": true,
            "categories": [category("User", "blue"), category("Kernel", "orange")],
            "markerSchema": [],
            "extensions": {"length": 0, "id": [], "name": [], "baseURL": []},
        },
        "libs": libraries,
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads,
    });
    serde_json::to_writer(escape::Json(&mut *out), &document).map_err(io::Error::from)?;
    writeln!(out)
}
