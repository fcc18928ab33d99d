//! A process below another root directory.

use std::process::{Child, Command, Stdio};

use fxtrec_tests::programs::build;

use crate::{hits, ready, run, values};

/// Ends its process when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn calls_of_a_process_below_another_root_are_recorded_by_the_path_it_knows() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &["-static"]);
    let inside = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::copy(program.path(), inside.path().join("app")).expect("writable");
    let mut command = Command::new("chroot");
    command.arg(inside.path()).args(["/app", "1", "beat"]).stdin(Stdio::piped());
    let process = Ended(command.spawn().expect("it can be run"));
    let pid = process.0.id().to_string();
    let maps = format!("/proc/{pid}/maps");
    while !std::fs::read_to_string(&maps).expect("it runs").contains("/app") {
        std::thread::yield_now();
    }
    for spec in ["/app:beat n=arg1:u32", ":beat n=arg1:u32"] {
        let path = inside.path().join("out.fxt");
        let output = run(&[spec], &path, &["-p", &pid, "-d", "0.3"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let hits = hits(&path);
        let numbers: Vec<u32> = values(&hits, "beat", "n")
            .into_iter()
            .map(|number| number.parse().expect("a number"))
            .collect();
        assert!(numbers.len() > 2, "a beat every millisecond: {numbers:?}");
        assert!(
            numbers.windows(2).all(|two| two[0] + 1 == two[1]),
            "none is left out: {numbers:?}"
        );
    }
}
