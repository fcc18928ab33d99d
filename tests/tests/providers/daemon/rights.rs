//! The permissions of a user without privileges.

use std::thread;

use fxtrec::control::wire::ProviderInfo;
use fxtrec_tests::root;

use super::*;

/// Does something in a thread that runs as `nobody`, also for files and sockets.
pub(super) fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let id = libc::c_long::from(NOBODY);
            // SAFETY: the system calls themselves, unlike libc's functions, change the calling thread only, and take
            // numbers and no memory: an empty list of groups has no address.
            let results = unsafe {
                [
                    libc::syscall(libc::SYS_setgroups, 0_usize, std::ptr::null::<libc::gid_t>()),
                    libc::syscall(libc::SYS_setresgid, id, id, id),
                    libc::syscall(libc::SYS_setresuid, id, id, id),
                ]
            };
            assert_eq!(results, [0; 3]);
            work()
        });
        worker.join().expect("no panic")
    })
}

fn named(list: &[ProviderInfo]) -> Vec<&str> {
    list.iter().map(|provider| provider.name.as_str()).collect()
}

#[test]
fn a_user_without_privileges_may_record_applications_of_the_same_user_and_nothing_else() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let _of_root = daemon.provider("of root");
    let _own = as_nobody(|| daemon.provider("own"));
    daemon.wait_for_provider("of root");
    daemon.wait_for_provider("own");
    let output = daemon.path("nobody.fxt");
    let passed = create(&output);
    let second = create(&daemon.path("root.fxt"));
    as_nobody(|| {
        let mut client = daemon.client();
        assert_eq!(named(&client.providers().expect("it answers").providers), ["own"]);
        let known = client.known_categories().expect("it answers").categories;
        let of = |name: &str| known.iter().find(|known| known.name == name).map(|it| it.permitted);
        assert_eq!((of("sched"), of("of:own"), of("of:of root")), (Some(false), Some(true), None));

        let kernel = TraceConfig {
            categories: Some(vec!["sched".to_owned()]),
            ..everything(BufferingMode::Streaming)
        };
        let error = refused(client.initialize(kernel, passed.try_clone().expect("a copy")));
        let ControllerError::NotPermitted { what, why } = &error else { panic!("{error:?}") };
        assert!(what.contains("sched") && why.contains("policy.toml"), "{error}");

        // Everything that is permitted.
        let config = TraceConfig {
            start_timeout_milliseconds: Some(0),
            ..everything(BufferingMode::Streaming)
        };
        let again = passed.try_clone().expect("a copy");
        client.initialize(config, passed).expect("that is permitted");
        let started = client.start(now()).expect("it starts");
        // It received a request to record, and does not answer; root's application did not.
        assert_eq!((started.started, started.late), (0, vec!["own".to_owned()]));
        assert!(!client.status().expect("it answers").kernel.running);
        client.terminate().expect("it ends");

        // Later ones are treated like those that were there first.
        let config = applications(BufferingMode::Streaming);
        client.initialize(config, again).expect("that is permitted");
        let additional = StartOptions {
            additional_categories: Some(vec!["irq".to_owned()]),
            ..StartOptions::default()
        };
        let error = refused(client.start(additional));
        assert!(matches!(error, ControllerError::NotPermitted { .. }), "{error:?}");
        // Another connection, even of the same user, does not share it.
        let error = refused(daemon.client().stop(KEEP));
        assert!(matches!(error, ControllerError::NotPermitted { .. }), "{error:?}");
        client.terminate().expect("it ends");
    });

    let mut root = daemon.client();
    root.initialize(applications(BufferingMode::Streaming), second).expect("none is there");
    as_nobody(|| {
        let mut client = daemon.client();
        for error in [refused(client.start(now())), refused(client.terminate())] {
            assert!(matches!(error, ControllerError::NotPermitted { .. }), "{error:?}");
        }
        let error = refused(client.call::<fxtrec::control::wire::Alert>(
            "WatchAlert",
            &fxtrec::control::wire::Nothing {},
            Vec::new(),
        ));
        assert!(matches!(error, ControllerError::NotPermitted { .. }), "{error:?}");
    });
    root.terminate().expect("it ends");
}

#[test]
fn a_user_cannot_take_the_places_of_all_other_applications() {
    if !root::may_record() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "providers-per-user = 2\n").expect("written");
    let daemon = Daemon::with(&["--policy", policy.to_str().expect("a plain path")]);
    let _two = as_nobody(|| ["one", "two"].map(|name| daemon.provider(name)));
    daemon.wait_for_provider("two");
    as_nobody(|| {
        let socket = Address::Path(providers_socket(&daemon.runtime_dir()));
        let third = Seqpacket::connect(&socket).expect("it listens");
        wait::until("the third to be turned away", || {
            matches!(third.receive(&mut [0; 64]), Ok(Received::End))
        });
        let reported = daemon.client().providers().expect("it answers");
        assert_eq!((named(&reported.providers), reported.turned_away), (vec!["one", "two"], 1));
    });
    // Root's connections are not counted with them, nor limited by them.
    let _of_root = ["three", "four", "five"].map(|name| daemon.provider(name));
    daemon.wait_for_provider("five");
    let reported = daemon.client().providers().expect("it answers");
    assert_eq!((reported.providers.len(), reported.turned_away), (5, 1));
    let ctl = binary::command()
        .args(["ctl", "providers", "--socket"])
        .arg(daemon.control())
        .output()
        .expect("it runs");
    let said = String::from_utf8(ctl.stdout).expect("text");
    assert!(
        said.contains("1 application was rejected") && said.contains("providers-per-user"),
        "{said}"
    );
}

#[test]
fn root_may_end_the_session_of_another_user() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let output = create(&daemon.path("theirs.fxt"));
    let owner = as_nobody(|| {
        let mut client = daemon.client();
        client.initialize(applications(BufferingMode::Streaming), output).expect("permitted");
        client
    });
    let status = daemon.client().status().expect("it answers");
    assert_eq!((status.state, status.owner_uid), (SessionState::Initialized, Some(NOBODY)));
    daemon.client().terminate().expect("root may");
    assert_eq!(daemon.state(), SessionState::Ready);
    drop(owner);
}

#[test]
fn without_root_there_is_no_daemon() {
    if !root::may_record() {
        return;
    }
    let binary = binary::PublicCopy::new();
    let run = std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(binary.path())
        .args(["daemon", "--runtime-dir", "/tmp/never"])
        .output()
        .expect("setpriv");
    let said = String::from_utf8(run.stderr).expect("text");
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("needs root") && !Path::new("/tmp/never").exists(), "{said}");
}
