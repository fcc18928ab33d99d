//! Arbitrary bytes as a program: every query that commands and the recorder make, without a panic or a hang.

#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use fxtrec_probe::elf::{
    Elf, Lines, check_bounds, check_unnamed, functions_at, go_frames, label, select, usable_frames,
};
use libfuzzer_sys::fuzz_target;

/// This many functions are queried.
const MOST: usize = 64;

thread_local! {
    /// Data that is read in pieces is read from a file.
    static FILE: RefCell<File> = RefCell::new(tempfile::tempfile().expect("room for a file"));
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(elf) = Elf::parse(bytes) else { return };
    elf.build_id();
    let _ = elf.dynamic();
    let _ = fxtrec_probe::usdt::probes(&elf);
    elf.variable("stdout");
    if let Some(frames) = elf.section_within(".eh_frame", 1 << 20) {
        usable_frames(frames, elf.section_within(".eh_frame_hdr", 1 << 20));
    }
    if let Some(frames) = go_frames(&elf, 1 << 20) {
        let usable = usable_frames((&frames.bytes, frames.address), None);
        frames.mark(&mut usable.unwrap_or_default().costly);
    }
    let mut addresses: Vec<u64> = Vec::new();
    for code in elf.segments().iter().filter(|segment| segment.executable).take(4) {
        let step = (code.size / 16).max(1) as usize;
        addresses.extend((code.address..code.address.saturating_add(code.size)).step_by(step).take(16));
    }
    if let Ok(functions) = elf.functions() {
        select(&functions, "*a*");
        for function in functions.all.iter().take(MOST) {
            let _ = check_bounds(&elf, &functions, function, "f", 5);
            addresses.extend([function.address, function.address.saturating_add(1)]);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    for &address in &addresses {
        let _ = check_unnamed(&elf, address);
    }
    for lines in [Lines::of(&elf), Lines::of_go(&elf)].into_iter().flatten() {
        for &address in &addresses {
            lines.at(address);
        }
    }
    FILE.with_borrow(|file| {
        file.set_len(0).expect("a file of ours");
        file.write_all_at(bytes, 0).expect("room for a file");
        let again = file.try_clone().expect("a descriptor");
        let _ = functions_at(&[again], &addresses, |_, _| {});
        let _ = label(file, "_stext");
    });
});
