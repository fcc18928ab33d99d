//! Files of other recorders, unchanged and with every kind of damage to their lengths.

use super::super::{ConvertError, Format, Input, Options, Report, convert};

/// The corpora of the fuzz targets; their README describes their origin.
macro_rules! seed {
    ($path:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/", $path)).as_slice()
    };
}

const PERF_DATA: [&[u8]; 3] =
    [seed!("perf_data/file"), seed!("perf_data/zstd"), seed!("perf_data/pipe")];
const TRACE_DAT: [&[u8]; 3] =
    [seed!("trace_dat/v6"), seed!("trace_dat/v7"), seed!("trace_dat/v7-zstd")];
const FTRACE_TEXT: [&[u8]; 2] = [seed!("ftrace_text/report"), seed!("ftrace_text/tracefs")];

/// Values for lengths, offsets and counts.
const NUMBERS: [u64; 11] =
    [0, 1, 7, 8, u32::MAX as u64, 1 << 31, 1 << 40, 1 << 61, (1 << 63) - 1, 1 << 63, u64::MAX];

fn import(bytes: Vec<u8>, from: Format) -> Result<(Vec<u8>, Report), ConvertError> {
    let mut input = Input::from_bytes(bytes)?;
    let mut output = Vec::new();
    let report = convert(&mut input, from, &mut output, Format::Fxt, Options::default())?;
    Ok((output, report))
}

/// Imports a file that may be damaged: that must end, and any output must be a valid trace. Returns whether there is one.
fn survives(bytes: Vec<u8>, from: Format) -> bool {
    let Ok((trace, _)) = import(bytes, from) else { return false };
    let mut reader = fxt_reader::Reader::from_slice(&trace);
    while reader.next().expect("a sound trace").is_some() {}
    assert!(reader.summary().is_complete());
    true
}

/// Writes numbers of every width over every position of the header and the tail, and over some of the rest.
fn damage(seed: &[u8], from: Format) {
    let (mut refused, mut taken) = (0, 0);
    let mut try_one = |bytes: Vec<u8>| match survives(bytes, from) {
        true => taken += 1,
        false => refused += 1,
    };
    let inner = |at: usize| at > 600 && at + 400 < seed.len();
    for at in (0..seed.len() - 8).step_by(4).filter(|at| !inner(*at) || at % 172 == 0) {
        // Each position is overwritten with four of the numbers, and its neighbours with the others.
        for index in (at / 4 % 3..NUMBERS.len()).step_by(3) {
            let number = NUMBERS[index];
            let width = [8, 4, 2][(at / 4 + index) % 3];
            let mut bytes = seed.to_vec();
            bytes[at..at + width].copy_from_slice(&number.to_ne_bytes()[..width]);
            try_one(bytes);
        }
        let mut flipped = seed.to_vec();
        flipped[at + at / 4 % 4] ^= 1 << (at / 16 % 8);
        try_one(flipped);
    }
    for at in (0..seed.len()).step_by(97) {
        try_one(seed[..at].to_vec());
        try_one([&seed[..at], &seed[seed.len() - at..]].concat());
    }
    assert!(refused > 100 && taken > 100, "{refused} refused and {taken} taken prove little");
}

#[test]
fn the_seeds_are_whole() {
    for (seeds, from) in [(&PERF_DATA[..], Format::PerfData), (&TRACE_DAT, Format::TraceDat)] {
        for seed in seeds {
            let (_, report) = import(seed.to_vec(), from).expect("as it was written");
            assert!(report.read > 10, "{report:?}");
        }
    }
}

#[test]
fn a_damaged_perf_data_ends_with_a_trace_or_an_error() {
    PERF_DATA.iter().for_each(|seed| damage(seed, Format::PerfData));
}

#[test]
fn a_damaged_trace_dat_ends_with_a_trace_or_an_error() {
    TRACE_DAT.iter().for_each(|seed| damage(seed, Format::TraceDat));
}

#[test]
fn the_damages_that_ended_a_conversion_once_are_reported() {
    let seed = PERF_DATA[0];
    let word = |at: usize| usize::from_ne_bytes(*seed[at..].first_chunk().expect("it is there"));
    let with = |at: usize, number: u64| {
        let mut bytes = seed.to_vec();
        bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        import(bytes, Format::PerfData).expect_err("damaged").to_string()
    };
    // The position of the records, and their size.
    assert!(with(40, 8).contains("is too small"), "{}", with(40, 8));
    assert_eq!(with(48, u64::MAX), "the table of features: truncated at byte 0");
    // The size of the first feature.
    let table = word(40) + word(48);
    for size in [1 << 40, 1 << 63, u64::MAX] {
        assert!(with(table + 8, size).starts_with("the features: truncated"));
    }
    assert!(with(table + 8, 0).contains("not a description"), "{}", with(table + 8, 0));
    // The size of an event's description, and the position of the descriptions.
    assert_eq!(with(16, 8), "cannot read this perf.data: the description of an event has 8 bytes");
    assert_eq!(with(24, u64::MAX), "the descriptions of events: truncated at byte 0");
}

#[test]
fn a_cpu_of_an_impossible_number_is_counted_and_takes_no_memory() {
    for seed in FTRACE_TEXT {
        let text = std::str::from_utf8(seed).expect("text");
        let text = text.replacen("[000]", "[4294967295]", 1).replacen("[001]", "[4294967294]", 1);
        let (_, report) = import(text.into_bytes(), Format::FtraceText).expect("the rest is well");
        assert!(report.times("events with impossible CPU numbers, left out") > 0, "{report:?}");
    }
}
