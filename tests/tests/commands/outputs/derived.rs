//! Files derived from traces: they appear when they are complete, and never through a link.

use std::fs;
use std::os::unix::fs::symlink;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::root::may_record;

use super::{CALLER, names, owner, shell, sudo, trace};

/// Commands that create a file called `out` from a.fxt and b.fxt, or from another file in place of a.fxt.
fn commands(input: &str) -> [Vec<&str>; 5] {
    [
        vec!["convert", "-q", "--to", "json", input, "out"],
        vec!["merge", "-q", "--same-machine", input, "b.fxt", "-o", "out"],
        vec!["cut", "-q", input, "out"],
        vec!["report", input, "--html", "out"],
        vec!["report", input, "--fail-if", "lost > 1000000", "--junit", "out"],
    ]
}

#[test]
fn a_link_at_the_output_is_replaced_and_its_target_neither_written_nor_given_away() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    trace(&folder, "a.fxt");
    trace(&folder, "b.fxt");
    for command in commands("a.fxt") {
        folder.write("precious", "keep me");
        symlink("precious", folder.path("out")).expect("room");
        sudo(&folder, &command).expect(0);
        assert_eq!(folder.read("precious"), "keep me", "{command:?}");
        assert_eq!(owner(&folder.path("precious")), (0, 0), "{command:?}");
        let out = folder.path("out");
        assert!(fs::symlink_metadata(&out).expect("there").is_file(), "{command:?}");
        assert_eq!(owner(&out), CALLER, "{command:?}");
        fs::remove_file(out).expect("there");
    }
    assert_eq!(names(&folder), ["a.fxt", "b.fxt", "precious"]);
}

#[test]
fn a_command_that_fails_leaves_what_was_there() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    trace(&folder, "b.fxt");
    folder.write(
        "damaged.json",
        "[{\"ph\":\"B\",\"ts\":1,\"pid\":1,\"tid\":1,\"name\":\"a\"},\n{\"ph\":",
    );
    // Damaged in the middle, so that it is detected late.
    trace(&folder, "damaged.gz");
    let mut packed = fs::read(folder.path("damaged.gz")).expect("there");
    let middle = packed.len() / 2;
    packed[middle..middle + 64].fill(0xff);
    folder.write("damaged.gz", packed);
    folder.write("out", "earlier");
    let failing = [
        vec!["convert", "-q", "--to", "fxt", "damaged.json", "out"],
        vec!["merge", "-q", "--same-machine", "b.fxt", "damaged.gz", "-o", "out"],
        vec!["cut", "-q", "damaged.gz", "out"],
        vec!["report", "damaged.gz", "--html", "out"],
        vec!["report", "damaged.gz", "--fail-if", "lost > 1", "--junit", "out"],
    ];
    for command in failing {
        let done = folder.fxtrec(&command);
        assert_ne!(done.code, 0, "{command:?}: {}", done.stderr);
        assert_eq!(folder.read("out"), "earlier", "{command:?}: {}", done.stderr);
    }
    assert_eq!(names(&folder), ["b.fxt", "damaged.gz", "damaged.json", "out"]);
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    trace(&folder, "b.fxt");
    trace(&folder, "a.fxt");
    fs::create_dir(folder.path("small")).expect("room");
    // In a separate mount namespace, so that nothing is left behind. The existing file takes all available space: one page.
    let script = r#"
        mount -t tmpfs -o size=4k none small && echo earlier > small/out || exit 99
        for args in 'convert -q a.fxt --to json' 'cut -q a.fxt' \
            'merge -q --same-machine a.fxt b.fxt -o' 'report a.fxt --html'; do
            "$1" $args small/out > /dev/null
            echo "$? $(head -c 100 small/out) $(ls -A small | wc -l)"
        done
        "#;
    let script = format!(
        "unshare --mount --propagation private /bin/sh -c '{}' sh \"$1\"",
        script.replace('\'', "'\\''")
    );
    let done = shell(&folder, &script).expect(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}{}", done.stdout, done.stderr);
    for line in lines {
        assert!(line.ends_with(" earlier 1") && !line.starts_with("0 "), "{line}: {}", done.stderr);
    }
    assert_eq!(done.stderr.matches("No space left on device").count(), 4, "{}", done.stderr);
}

#[test]
fn an_output_that_is_an_input_is_refused_before_anything_is_touched() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    trace(&folder, "a.fxt");
    trace(&folder, "b.fxt");
    symlink("a.fxt", folder.path("link")).expect("room");
    fs::hard_link(folder.path("a.fxt"), folder.path("hard")).expect("room");
    let before = fs::read(folder.path("a.fxt")).expect("there");
    for out in ["a.fxt", "link", "hard", "./a.fxt"] {
        let all = [
            vec!["convert", "-q", "--to", "json", "a.fxt", out],
            vec!["merge", "-q", "--same-machine", "b.fxt", "a.fxt", "-o", out],
            vec!["cut", "-q", "a.fxt", out],
            vec!["report", "a.fxt", "--html", out],
            vec!["report", "a.fxt", "--fail-if", "lost > 1", "--junit", out],
        ];
        for command in all {
            let done = folder.fxtrec(&command);
            assert_ne!(done.code, 0, "{command:?}");
            assert!(
                done.stderr.contains("is the same file as the input"),
                "{command:?}: {}",
                done.stderr
            );
            assert!(fs::read(folder.path("a.fxt")).expect("there") == before, "{command:?}");
        }
    }
    let twice = ["report", "a.fxt", "--html", "x", "--fail-if", "lost > 1", "--junit", "./x"];
    assert!(folder.fxtrec(twice).stderr.contains("used for two outputs"));
    let twice = ["-o", "x", "--fail-if", "lost > 1", "--junit", "x", "--", "true"];
    assert!(folder.fxtrec(twice).expect(125).stderr.contains("used for two outputs"));
    assert_eq!(names(&folder), ["a.fxt", "b.fxt", "hard", "link"]);
}

#[test]
fn standard_output_that_is_the_input_is_refused() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    trace(&folder, "a.fxt");
    let before = fs::read(folder.path("a.fxt")).expect("there");
    for command in ["convert -q --to json a.fxt -", "cut -q a.fxt -", "dump a.fxt", "report a.fxt"]
    {
        let done = shell(&folder, &format!("exec \"$1\" {command} >> a.fxt"));
        assert_ne!(done.code, 0, "{command}");
        assert!(done.stderr.contains("same file as the input"), "{command}: {}", done.stderr);
        assert!(fs::read(folder.path("a.fxt")).expect("there") == before, "{command}");
    }
}

#[test]
fn a_summary_for_the_ci_is_appended_to_no_link() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    trace(&folder, "a.fxt");
    folder.write("precious", "keep me");
    symlink("precious", folder.path("summary.md")).expect("room");
    let run = || {
        let mut command = fxtrec_tests::binary::command();
        command.args(["report", "a.fxt", "--fail-if", "lost > 1000000"]);
        command.env("GITHUB_STEP_SUMMARY", folder.path("summary.md"));
        command.env("SUDO_UID", CALLER.0.to_string()).env("SUDO_GID", CALLER.1.to_string());
        folder.run(&mut command).expect(0)
    };
    assert!(run().stderr.contains("cannot write the summary to GITHUB_STEP_SUMMARY"));
    assert_eq!(folder.read("precious"), "keep me");
    assert_eq!(owner(&folder.path("precious")), (0, 0));
    fs::remove_file(folder.path("summary.md")).expect("there");
    run();
    assert_eq!(owner(&folder.path("summary.md")), CALLER);
    run();
    assert_eq!(folder.read("summary.md").matches("### fxtrec").count(), 2);
}
