//! Real links, FIFOs, nodes and owners; tests that need root expect a different result without.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{geteuid, mkfifo};
use tempfile::TempDir;

use super::*;

/// An arbitrary other user: neither this user nor root.
const OTHER: u32 = 65_533;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A directory that all users may write to, such as `/tmp`.
fn open_folder() -> TempDir {
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("ours");
    folder
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn find(path: &Path) -> OutputLocation {
    OutputLocation::find(path, None).expect("the folder is there")
}

fn special(path: &Path) -> Result<Option<File>, OutFileError> {
    find(path).special()
}

fn fifo(path: &Path, owner: u32) {
    mkfifo(path, Mode::from_bits_truncate(0o666)).expect("a FIFO");
    if geteuid().is_root() {
        chown(path, Some(owner), None).expect("root may");
    }
}

#[test]
fn a_fifo_is_opened_when_it_is_the_users_and_refused_when_it_belongs_to_another() {
    let folder = folder();
    let (own, others) = (folder.path().join("own"), folder.path().join("others"));
    fifo(&own, geteuid().as_raw());
    assert_eq!(special(&own).expect_err("no reader"), OutFileError::NoReader);
    let reader = fs::File::options().read(true).write(true).open(&own).expect("both ends");
    assert!(special(&own).expect("a reader is there").is_some());
    drop(reader);
    if geteuid().is_root() {
        fifo(&others, OTHER);
        let _reader = fs::File::options().read(true).write(true).open(&others).expect("both ends");
        let error = special(&others).expect_err("another's");
        assert_eq!(error, OutFileError::Foreign { kind: "FIFO", uid: OTHER });
        let caller = Some(Owner { uid: OTHER, gid: OTHER });
        let place = OutputLocation::find(&others, caller).expect("there");
        assert!(place.special().expect("whoever called sudo may").is_some());
    }
}

#[test]
fn block_devices_and_devices_of_others_are_refused() {
    if !geteuid().is_root() {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let mode = Mode::from_bits_truncate(0o666);
    // Device numbers without a driver: opening them would fail with a different error.
    mknod(&at("disk"), SFlag::S_IFBLK, mode, makedev(251, 250)).expect("root may");
    assert_eq!(special(&at("disk")).expect_err("refused"), OutFileError::BlockDevice);
    for (name, minor) in [("null", 3), ("random", 8)] {
        mknod(&at(name), SFlag::S_IFCHR, mode, makedev(1, minor)).expect("root may");
        chown(at(name), Some(OTHER), None).expect("root may");
    }
    assert!(special(&at("null")).expect("it goes nowhere").is_some());
    let foreign = OutFileError::Foreign { kind: "device", uid: OTHER };
    assert_eq!(special(&at("random")).expect_err("another's"), foreign);
    assert!(special(Path::new("/dev/null")).expect("root's").is_some());
    symlink(at("disk"), at("link")).expect("room");
    assert_eq!(special(&at("link")).expect_err("refused"), OutFileError::BlockDevice);
}

#[test]
fn a_link_to_a_device_is_followed_only_where_no_other_can_have_put_it() {
    for (folder, followed) in [(folder(), true), (open_folder(), false)] {
        let link = folder.path().join("t.fxt");
        symlink("/dev/null", &link).expect("room");
        match followed {
            true => assert!(special(&link).expect("followed").is_some()),
            false => {
                let error = special(&link).expect_err("not followed");
                assert!(matches!(error, OutFileError::UnsafeLink(_)), "{error}");
            }
        }
        // Another user's directory holds the second of two links.
        let first = folder.path().join("first");
        symlink("t.fxt", &first).expect("room");
        assert_eq!(special(&first).is_ok(), followed);
        assert!(symlink_is_there(&link), "it is left alone");
    }
}

fn symlink_is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink())
}

#[test]
fn links_to_files_and_to_nothing_are_no_special_files() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").expect("room");
    for (link, target) in [("a", "file"), ("b", "nothing"), ("c", "no/such/folder")] {
        symlink(target, at(link)).expect("room");
        assert!(special(&at(link)).expect("to be moved aside").is_none(), "{link}");
    }
    symlink("round", at("round")).expect("room");
    assert_eq!(special(&at("round")).expect_err("a loop"), OutFileError::of_errno(libc::ELOOP));
    assert!(special(&at("new")).expect("nothing there").is_none());
}

#[test]
fn descriptors_by_name_are_those_that_the_process_was_started_with() {
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert!(special(Path::new(path)).expect(path).is_some(), "{path}");
    }
    let own = tempfile::tempfile().expect("a file");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own));
    assert_eq!(special(Path::new(&path)).expect_err("ours"), OutFileError::NotInherited);
    assert_eq!(special(Path::new("/proc/1/fd/1")).expect_err("init's"), OutFileError::NotInherited);
}

#[test]
fn a_recording_is_for_its_owner_alone_and_is_never_written_through_a_link() {
    let folder = open_folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("precious"), "keep me").expect("room");
    symlink("precious", at("t.fxt")).expect("room");
    let owner = geteuid().is_root().then_some(Owner { uid: OTHER, gid: OTHER });
    let place = OutputLocation::find(&at("t.fxt"), owner).expect("there");
    let mut recording = place.record(Given::AtOnce).expect("created");
    recording.file.write_all(b"trace").expect("room");
    assert_eq!(fs::read_to_string(at("precious")).expect("there"), "keep me");
    assert_eq!(recording.kept_old.as_deref(), Some(at("t.fxt.old").as_path()));
    assert!(symlink_is_there(&at("t.fxt.old")));
    let made = fs::symlink_metadata(at("t.fxt")).expect("there");
    assert_eq!(made.mode() & 0o7777, 0o600);
    let number = std::os::fd::AsRawFd::as_raw_fd(&recording.file);
    let told = fs::read_link(format!("/proc/self/fd/{number}")).expect("it is open");
    assert_eq!(told, at("t.fxt"), "a daemon that gets the descriptor knows its name");
    if let Some(owner) = owner {
        assert_eq!((made.uid(), made.gid()), (owner.uid, owner.gid));
        let precious = fs::metadata(at("precious")).expect("there");
        assert_eq!(precious.uid(), 0, "what the link led to is not given away");
    }
    recording.undo().take_back();
    assert!(symlink_is_there(&at("t.fxt")), "the link is back");
    assert_eq!(names(&folder), ["precious", "t.fxt"]);
}

#[test]
fn who_records_already_is_named_and_nothing_changes() {
    let folder = folder();
    let path = folder.path().join("t.fxt");
    let recording = find(&path).record(Given::AtOnce).expect("created");
    let old = folder.path().join("t.fxt.old");
    fs::write(&old, "older").expect("room");
    let refused = || find(&path).record(Given::AtOnce).expect_err("in use");
    for error in [refused(), Derived::create(&path, 0o600, &[], None).expect_err("in use")] {
        let OutFileError::InUse(holder) = &error else { panic!("{error}") };
        assert_eq!(holder.pid, Some(std::process::id()));
    }
    assert_eq!(fs::read_to_string(&old).expect("there"), "older");
    assert_eq!(names(&folder), ["t.fxt", "t.fxt.old"]);
    // A file that will be moved to the name of a file that is being written.
    let shorter = folder.path().join("t");
    let other = find(&folder.path().join("t.old")).record(Given::AtOnce).expect("created");
    fs::write(&shorter, "earlier").expect("room");
    let error = find(&shorter).record(Given::AtOnce).expect_err("in use");
    assert!(matches!(error, OutFileError::InUse(_)), "{error}");
    assert_eq!(fs::read_to_string(&shorter).expect("there"), "earlier");
    let hold = recording.hold().expect("a descriptor");
    drop(recording);
    refused();
    drop((hold, other));
    find(&path).record(Given::AtOnce).expect("free again");
    assert_eq!(names(&folder), ["t", "t.fxt", "t.fxt.old", "t.old"]);
}

#[test]
fn of_many_recordings_at_once_one_begins_and_nothing_is_lost() {
    for earlier in [None, Some("earlier")] {
        let folder = folder();
        let path = folder.path().join("t.fxt");
        if let Some(earlier) = earlier {
            fs::write(&path, earlier).expect("room");
        }
        let start = std::sync::Barrier::new(20);
        let begun: Vec<_> = std::thread::scope(|scope| {
            let begin = || {
                start.wait();
                find(&path).record(Given::AtOnce)
            };
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let (begun, refused): (Vec<_>, Vec<_>) = begun.into_iter().partition(Result::is_ok);
        assert_eq!((begun.len(), refused.len()), (1, 19));
        for error in refused {
            let error = error.expect_err("refused");
            assert!(matches!(error, OutFileError::InUse(_)), "{error}");
        }
        let old = folder.path().join("t.fxt.old");
        assert_eq!(fs::read_to_string(old).ok().as_deref(), earlier);
        assert_eq!(names(&folder).len(), 1 + usize::from(earlier.is_some()));
    }
}

#[test]
fn a_sibling_that_is_written_keeps_others_away() {
    let folder = folder();
    let place = find(&folder.path().join("t.0001.fxt"));
    let is_piece = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("t.");
    fs::write(folder.path().join("t.0003.fxt"), "finished").expect("room");
    place.siblings_must_be_free(is_piece).expect("nobody records");
    let other = find(&folder.path().join("t.0007.fxt")).record(Given::AtOnce).expect("created");
    let error = place.siblings_must_be_free(is_piece).expect_err("in use");
    assert!(matches!(error, OutFileError::InUse(_)), "{error}");
    place.siblings_must_be_free(|_| false).expect("no siblings");
    drop(other);
    place.siblings_must_be_free(is_piece).expect("nobody records");
}

#[test]
fn a_derived_file_replaces_what_is_there_when_it_is_complete() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("precious"), "keep me").expect("room");
    symlink("precious", at("page")).expect("room");
    let owner = geteuid().is_root().then_some(Owner { uid: OTHER, gid: OTHER });
    let create = || Derived::create(&at("page"), 0o640, &[], owner).expect("created");
    let mut half = create();
    half.file.write_all(b"half").expect("room");
    drop(half);
    assert!(symlink_is_there(&at("page")));
    let mut whole = create();
    whole.file.write_all(b"whole").expect("room");
    assert!(symlink_is_there(&at("page")), "not before it is complete");
    whole.pending.commit().expect("room");
    assert_eq!(fs::read_to_string(at("page")).expect("there"), "whole");
    assert_eq!(fs::read_to_string(at("precious")).expect("there"), "keep me");
    assert_eq!(names(&folder), ["page", "precious"]);
    let made = fs::symlink_metadata(at("page")).expect("there");
    assert!(made.is_file());
    assert_eq!(made.mode() & 0o7137, 0, "{:o}", made.mode());
    if let Some(owner) = owner {
        assert_eq!((made.uid(), made.gid()), (owner.uid, owner.gid));
        assert_eq!(fs::metadata(at("precious")).expect("there").uid(), 0);
    }
}

#[test]
fn what_is_derived_can_be_read_by_who_can_read_all_inputs() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for mode in [0o600, 0o644, 0o666, 0o440, 0o4755] {
        fs::write(at(&format!("{mode:o}")), "").expect("room");
        fs::set_permissions(at(&format!("{mode:o}")), Permissions::from_mode(mode)).expect("ours");
    }
    let mode = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| at(name)).collect();
        mode_of(&paths.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    };
    assert_eq!(mode(&["600"]), 0o600);
    assert_eq!(mode(&["666"]), 0o666);
    assert_eq!(mode(&["666", "644"]), 0o644);
    assert_eq!(mode(&["666", "644", "600"]), 0o600);
    assert_eq!(mode(&["440"]), 0o640, "whoever makes it can write it");
    assert_eq!(mode(&["4755"]), 0o644, "no set-id bit, and no program");
    assert_eq!(mode(&["missing"]), 0o600);
    assert_eq!(mode_of(&[]), 0o600);
}

#[test]
fn an_output_that_is_an_input_is_refused_by_whatever_name() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a"), "one").expect("room");
    fs::write(at("b"), "two").expect("room");
    symlink("a", at("link")).expect("room");
    fs::hard_link(at("a"), at("hard")).expect("room");
    let inputs = [at("b"), at("a")];
    let inputs: Vec<&Path> = inputs.iter().map(AsRef::as_ref).collect();
    for name in ["a", "b", "link", "hard", "./a"] {
        let error = Derived::create(&at(name), 0o600, &inputs, None).expect_err("an input");
        assert_eq!(error, OutFileError::IsInput, "{name}");
    }
    refuse_inputs(&at("new"), &inputs).expect("another");
    refuse_inputs(Path::new("/dev/null"), &[Path::new("/dev/null")]).expect("no file");
    assert_eq!(refuse_same(&at("new"), &[&at("./new")]), Err(OutFileError::Twice));
    refuse_same(&at("new"), &inputs).expect("another");
}

#[test]
fn what_has_0_bytes_is_replaced_and_an_earlier_file_stays() {
    let folder = folder();
    fs::write(folder.path().join("t.fxt"), "").expect("room");
    fs::write(folder.path().join("t.fxt.old"), "a good trace").expect("room");
    let recording = find(&folder.path().join("t.fxt")).record(Given::AtOnce).expect("created");
    assert_eq!(recording.kept_old, None);
    assert_eq!(fs::read_to_string(folder.path().join("t.fxt.old")).expect("there"), "a good trace");
    recording.undo().take_back();
    assert_eq!(names(&folder), ["t.fxt.old"]);
}

#[test]
fn a_series_continues_after_all_that_is_there_and_counts_what_is_ours() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("t.")?.parse().ok();
    let place = find(&at("t"));
    assert_eq!(place.series(number).expect("read").next, 1);
    for (name, content) in [("t.1", "one"), ("t.2", ""), ("t.3", "three"), ("t", "no number")] {
        fs::write(at(name), content).expect("room");
    }
    symlink("t.1", at("t.5")).expect("room");
    fs::hard_link(at("t"), at("t.4")).expect("room");
    let written = find(&at("t.6")).record(Given::AtOnce).expect("created");
    let series = place.series(number).expect("read");
    let found: Vec<_> =
        series.files.iter().map(|(path, _, bytes)| (path.clone(), *bytes)).collect();
    assert_eq!(found, [(at("t.1"), 3), (at("t.3"), 5), (at("t.6"), 0)]);
    assert_eq!(series.next, 7, "also behind what does not count");
    let left = ["t", "t.1", "t.3", "t.4", "t.5", "t.6"];
    assert_eq!(names(&folder), left, "what has 0 bytes is gone, unless it is being written");
    drop(written);
    if geteuid().is_root() {
        std::os::unix::fs::chown(at("t.3"), Some(OTHER), None).expect("root may");
        let series = place.series(number).expect("read");
        assert_eq!(series.files.len(), 1, "neither another user's, nor what has 0 bytes");
        assert_eq!(names(&folder), ["t", "t.1", "t.3", "t.4", "t.5"]);
    }
}
