//! Who may read fxtrec's output.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::root::may_record;

use super::{CALLER, mode, names, owner, shell, sudo, trace};

#[test]
fn recordings_and_their_pieces_are_their_owners_alone() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    fs::write(folder.path("t.fxt"), "earlier").expect("room");
    fs::set_permissions(folder.path("t.fxt"), Permissions::from_mode(0o640)).expect("ours");
    sudo(&folder, &["-q", "-o", "t.fxt", "--", "true"]).expect(0);
    sudo(&folder, &["-q", "-o", "p.fxt", "--rotate", "100ms", "-a", "-d", "1s"]).expect(0);
    let asks = "kill -USR2 $PPID; sleep 2";
    let circular = ["-o", "c.fxt.gz", "--mode", "circular", "--", "sh", "-c", asks];
    sudo(&folder, &circular).expect(0);
    let all = names(&folder);
    for name in ["t.fxt", "p.0001.fxt", "p.0002.fxt", "c.fxt.gz", "c.1.fxt.gz", "t.fxt.old"] {
        assert!(all.iter().any(|there| there == name), "no {name}: {all:?}");
    }
    for name in all {
        let path = folder.path(&name);
        match name.as_str() {
            // It is unchanged.
            "t.fxt.old" => assert_eq!((mode(&path), owner(&path)), (0o640, (0, 0))),
            _ => assert_eq!((mode(&path), owner(&path)), (0o600, CALLER), "{name}"),
        }
    }
}

#[test]
fn what_is_made_of_a_trace_is_as_readable_as_the_trace() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    for (name, mode) in [("a.fxt", 0o600), ("b.fxt", 0o666), ("c.fxt", 0o4755)] {
        trace(&folder, name);
        fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).expect("ours");
    }
    for (umask, a, b, c) in [("022", 0o600, 0o644, 0o644), ("077", 0o600, 0o600, 0o600)] {
        for (input, expected) in [("a", a), ("b", b), ("c", c)] {
            let script = format!(
                "umask {umask}; rm -f out.*
                 \"$1\" convert -q {input}.fxt out.json && \"$1\" cut -q {input}.fxt out.fxt &&
                 \"$1\" report {input}.fxt --html out.html > /dev/null &&
                 \"$1\" merge -q --same-machine b.fxt {input}.fxt -o out.merged.fxt"
            );
            shell(&folder, &script).expect(0);
            for name in ["out.json", "out.fxt", "out.html", "out.merged.fxt"] {
                assert_eq!(mode(&folder.path(name)), expected, "umask {umask}, {input}: {name}");
            }
        }
    }
}
