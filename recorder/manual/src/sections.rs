//! The parts that the definition of the command line does not contain: exit statuses, environment, files, examples.
//!
//! `sub` is a subcommand's name, or `ctl-start` for a nested one; `None` means fxtrec itself, which records.

/// A word and its meaning.
pub(crate) type Entry = (&'static str, &'static str);

/// Whether it runs a COMMAND, whose own exit statuses begin at 0.
fn runs_a_command(sub: Option<&str>) -> bool {
    matches!(sub, None | Some("record" | "ctl" | "ctl-start"))
}

pub(crate) fn exit_status(sub: Option<&str>) -> Vec<Entry> {
    let mut entries = vec![("0", "Success.")];
    if sub.is_some_and(|sub| sub.starts_with("ctl-") && !runs_a_command(Some(sub))) {
        // This includes wrong arguments.
        entries.push((
            "125",
            "The daemon cannot be reached or refuses, the trace is incomplete, or the arguments are wrong; the message says which.",
        ));
        return entries;
    }
    match sub {
        Some("dump") => entries.push(("1", "--check found a violation.")),
        Some("doctor") => entries.push(("1", "Recording does not work here.")),
        _ => {}
    }
    if matches!(sub, None | Some("record" | "report" | "compare")) {
        entries.push((
            "3",
            "A gate failed: an expression of --fail-if is true, or a comparison found a regression. If a COMMAND fails, its own status takes precedence.",
        ));
    }
    if matches!(sub, None | Some("record" | "report")) {
        entries.push(("4", "A gate was disturbed, with --on-disturbed exit-4."));
    }
    if runs_a_command(sub) {
        entries.extend([
            ("126", "COMMAND could not be run."),
            ("127", "COMMAND was not found."),
            ("128+n", "Signal n ended COMMAND."),
            ("any other", "That of COMMAND."),
        ]);
    } else {
        entries.push(("2", "The arguments are wrong."));
    }
    entries
        .push(("125", "fxtrec itself failed; the message says what failed, why, and what to do."));
    entries
}

pub(crate) fn environment(sub: Option<&str>) -> Vec<Entry> {
    let mut entries = Vec::new();
    if runs_a_command(sub) {
        entries.push((
            "FXTREC_PROVIDER_SOCKET",
            "Set for COMMAND: the socket through which applications that record their own events find fxtrec.",
        ));
    }
    if matches!(sub, None | Some("record")) {
        entries.extend([
            ("SUDO_UID, SUDO_GID", "The owner of the trace, and the user that -u @sudo selects."),
            (
                "NOTIFY_SOCKET",
                "If set, fxtrec reports readiness and each snapshot to this socket (sd_notify(3)).",
            ),
        ]);
    }
    if matches!(sub, None | Some("record" | "report" | "compare")) {
        entries.push((
            "GITHUB_STEP_SUMMARY",
            "If set, verdicts are appended to this file as Markdown.",
        ));
    }
    if sub == Some("open") {
        entries.push((
            "DISPLAY, WAYLAND_DISPLAY",
            "Without either, the address is printed and no browser is started.",
        ));
    }
    if matches!(sub, Some("report" | "why" | "dump" | "compare" | "probes" | "doctor")) {
        entries.push((
            "FXTREC_PAGER, PAGER",
            "The pager for output that is longer than the terminal; none if empty. Without either, less -FRX. Under sudo it runs as the caller.",
        ));
    }
    if matches!(sub, Some("report" | "symbolize")) {
        entries.push((
            "DEBUGINFOD_URLS",
            "Servers of debug files for --debuginfod: URLs, separated by spaces.",
        ));
        entries.push((
            "XDG_CACHE_HOME",
            "Directory in which fxtrec/debuginfod keeps debug files; ~/.cache if not set.",
        ));
    }
    entries.extend([
        (
            "NO_COLOR",
            "If set and not empty, nothing is printed in colour. --color takes precedence.",
        ),
        (
            "CLICOLOR_FORCE",
            "If set, not empty and not 0, text is printed in colour even to files and pipes.",
        ),
        ("CLICOLOR", "If 0, nothing is printed in colour."),
    ]);
    entries
}

pub(crate) fn files(sub: Option<&str>) -> Vec<Entry> {
    let mut entries = files_of(sub);
    entries.push((
        "~/.config/fxtrec/config.toml, /etc/fxtrec/config.toml",
        "Defaults for color, pager, source, ring-size and buffer-size; the first that exists is used. --no-config reads none.",
    ));
    entries
}

fn files_of(sub: Option<&str>) -> Vec<Entry> {
    match sub {
        None | Some("record") => vec![
            (
                "NAME.fxt",
                "The trace, unless -o names another file. NAME is that of COMMAND, system for -a, pid-N for -p.",
            ),
            ("NAME.fxt.old", "The previous file with that name."),
            ("/sys/kernel/tracing", "tracefs; fxtrec mounts it if it is not mounted."),
            ("/sys/kernel/btf/vmlinux", "The kernel's types, which the source bpf needs."),
        ],
        Some("daemon") => vec![
            ("/etc/fxtrec/policy.toml", "The policy: who may record what."),
            ("/run/fxtrec/control", "The socket of fxtrec ctl and other clients."),
            ("/run/fxtrec/providers", "The socket of applications that record their own events."),
        ],
        Some(sub) if sub.starts_with("ctl") => {
            vec![("/run/fxtrec/control", "The daemon's socket.")]
        }
        _ => Vec::new(),
    }
}

pub(crate) fn examples(sub: Option<&str>) -> Vec<Entry> {
    match sub {
        None | Some("record") => vec![
            ("sudo fxtrec -- ./app", "Record while a command runs, to app.fxt."),
            ("sudo fxtrec -u @sudo -- ./app", "The same, and run ./app as yourself."),
            ("sudo fxtrec -a -d 10s", "Record the whole machine for ten seconds, to system.fxt."),
            (
                "sudo fxtrec -p 1234 -o app.fxt.zst",
                "Record a running process until Ctrl-C, compressed.",
            ),
            (
                "sudo fxtrec --fail-if 'wakeup.p99 > 2ms' -- ./run-tests",
                "Fail a CI build when latency is too high.",
            ),
            (
                "sudo fxtrec -a --mode circular --trigger 'wakeup > 5ms if comm ~ \"audio*\"'",
                "Keep the last events in memory, and write a file for each late thread.",
            ),
        ],
        Some("doctor") => {
            vec![("fxtrec doctor", "Show what this machine allows, and what to change.")]
        }
        Some("dump") => vec![
            ("fxtrec dump app.fxt", "Print every record."),
            ("fxtrec dump --check app.fxt", "Check a trace; the exit status is the result."),
        ],
        Some("report") => vec![
            ("fxtrec report app.fxt", "Print who waited, for how long, and for whom."),
            ("fxtrec report app.fxt --stacks", "Print where threads were blocked, by stack."),
            ("fxtrec report app.fxt --html app.html", "Write one page for the browser."),
            (
                "fxtrec report app.fxt --fail-if 'runqueue.max > 20ms'",
                "Print a verdict for a script.",
            ),
        ],
        Some("why") => vec![
            ("fxtrec why app.fxt", "Explain the worst delay of COMMAND."),
            (
                "fxtrec why app.fxt --span frame --worst 3",
                "Explain the three longest spans with that name.",
            ),
            ("fxtrec why app.fxt --top 5", "List the five worst incidents, one sentence each."),
        ],
        Some("watch") => vec![
            ("sudo fxtrec watch", "Print the incidents of the whole machine, until Ctrl-C."),
            (
                "sudo fxtrec watch --keep 5 -o /var/lib/watch",
                "The same, and keep the recordings of the five worst.",
            ),
            ("sudo fxtrec watch --min 20ms -- ./app", "Watch a command while it runs."),
        ],
        Some("flame") => vec![(
            "fxtrec flame app.fxt",
            "Print blocked times by stack, for programs that draw flame graphs.",
        )],
        Some("symbolize") => vec![
            (
                "fxtrec symbolize board.fxt",
                "Name the functions in the stacks of a trace from another machine; writes board.symbolized.fxt.",
            ),
            (
                "fxtrec symbolize board.fxt --debug-dir sysroot --vmlinux vmlinux",
                "The same, with the files of the other machine.",
            ),
        ],
        Some("compare") => {
            vec![(
                "fxtrec compare base*.fxt -- new*.fxt",
                "Compare runs before and after a change.",
            )]
        }
        Some("probes") => {
            vec![("fxtrec probes libc", "List the functions and USDT probes of a library.")]
        }
        Some("convert") => vec![
            ("fxtrec convert perf.data app.fxt", "Convert from perf to FXT."),
            ("fxtrec convert app.fxt app.json", "Convert to Chrome's JSON."),
        ],
        Some("export") => vec![(
            "fxtrec export *.fxt -o traces --label commit=8f3a",
            "Write the tables of many traces below a directory, for DuckDB and others.",
        )],
        Some("query") => vec![(
            "fxtrec query app.fxt 'SELECT count(*), max(dur) FROM wait'",
            "Query a trace in SQL, using an installed DuckDB.",
        )],
        Some("merge") => {
            vec![("fxtrec merge one.fxt two.fxt -o both.fxt", "Merge two traces into one.")]
        }
        Some("cut") => vec![(
            "fxtrec cut app.fxt -o late.fxt --from 1.2s --to 1.5s",
            "Cut a time window out of a trace.",
        )],
        Some("span") => vec![(
            "fxtrec span fetch -- rsync -a host:/data .",
            "In a script: record as a span named fetch how long rsync takes.",
        )],
        Some("open") => vec![(
            "fxtrec open app.fxt",
            "Open a trace in the Perfetto UI; it stays on this machine.",
        )],
        Some("demo") => vec![(
            "sudo fxtrec demo",
            "Record five seconds in which a thread is late for a known reason, and open the page.",
        )],
        Some("completions") => vec![(
            "fxtrec completions bash",
            "Print the completions for bash, to be sourced in ~/.bashrc.",
        )],
        Some("daemon") => vec![
            ("fxtrec daemon", "Serve recording sessions, usually started by systemd."),
            ("fxtrec daemon --metrics 9464", "Also serve figures of every cgroup to Prometheus."),
        ],
        Some("top") => vec![
            ("sudo fxtrec top", "Show live which threads wait for a CPU."),
            (
                "sudo fxtrec top --by cgroup --count 1 --interval 5s",
                "Print which cgroups waited in five seconds.",
            ),
        ],
        Some("ctl" | "ctl-status") => vec![("fxtrec ctl status", "Show what the daemon is doing.")],
        Some("ctl-providers") => {
            vec![(
                "fxtrec ctl providers",
                "List the connected applications, and how many records they dropped.",
            )]
        }
        Some("ctl-categories") => {
            vec![("fxtrec ctl categories --json", "List what can be recorded, for programs.")]
        }
        Some("ctl-start") => vec![
            ("fxtrec ctl start -- ./app", "Record while ./app runs, to app.fxt."),
            (
                "fxtrec ctl start -o app.fxt --categories 'sched,app*'",
                "Record until fxtrec ctl stop.",
            ),
            (
                "fxtrec ctl start --mode circular -o last.fxt",
                "Keep the last events in memory, for fxtrec ctl snapshot.",
            ),
        ],
        Some("ctl-stop") => {
            vec![("fxtrec ctl stop", "Write the rest, and print what was recorded.")]
        }
        Some("ctl-snapshot") => vec![
            (
                "fxtrec ctl snapshot -o now.fxt",
                "Write the events that a circular session has in memory.",
            ),
            ("fxtrec ctl snapshot -p 1234", "The same for a running fxtrec --mode circular."),
        ],
        Some("ctl-watch") => {
            vec![(
                "fxtrec ctl watch --json",
                "Print state changes and alerts, one per line, for programs.",
            )]
        }
        _ => Vec::new(),
    }
}
