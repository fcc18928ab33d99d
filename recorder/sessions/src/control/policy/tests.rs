use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use super::*;

const BUILDER: u32 = 1000;
const OTHER: u32 = 1001;
const DEVELOPERS: u32 = 500;

struct TwoUsers;

impl Names for TwoUsers {
    fn uid(&self, name: &str) -> Result<Option<u32>, String> {
        Ok(match name {
            "builder" => Some(BUILDER),
            "other" => Some(OTHER),
            _ => None,
        })
    }

    fn gid(&self, name: &str) -> Result<Option<u32>, String> {
        Ok((name == "developers").then_some(DEVELOPERS))
    }
}

fn parse(text: &str) -> Result<Policy, String> {
    let path = Path::new("policy.toml");
    Policy::parse(path, text, &TwoUsers).map_err(|error| error.to_string())
}

fn policy(text: &str) -> Policy {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn user(uid: u32) -> Credentials {
    Credentials { pid: 1, uid, gid: uid, groups: vec![uid] }
}

fn wanted(categories: &[&str]) -> Selection {
    Selection::parse(categories).expect("good categories")
}

fn granted(policy: &Policy, who: &Credentials, categories: &[&str]) -> Granted {
    policy.permits(who, &wanted(categories)).unwrap_or_else(|error| panic!("{error}"))
}

fn denied(policy: &Policy, who: &Credentials, categories: &[&str]) -> String {
    policy.permits(who, &wanted(categories)).expect_err("denied").to_string()
}

const TWO_RULES: &str = r#"
    [probes]
    render = "/usr/bin/app:render%span"
    render_text = "text=/usr/bin/app:render_text"
    net = "libc:send n=arg3:u64"

    [[allow]]
    groups = ["developers"]
    kernel = ["sched", "uprobe:render*"]
    max-buffer = "64M"

    [[allow]]
    users = ["builder", 7]
    kernel = ["irq", "uprobe:net"]
    other-users = true
"#;

#[test]
fn without_a_file_root_may_do_everything_and_others_trace_their_own_applications() {
    let policy = Policy::default();
    let root = granted(&policy, &user(0), &["sched:waking", "irq", "uprobe:libc:malloc", "app*"]);
    assert_eq!(root.users, Users::Every);
    assert_eq!((root.kernel.categories.len(), root.kernel.probes.len()), (2, 1));
    let builder = granted(&policy, &user(BUILDER), &["app*"]);
    assert_eq!(builder.users, Users::Only(BUILDER));
    assert!(builder.users.include(BUILDER) && !builder.users.include(OTHER));
    assert!(builder.kernel.is_empty());
    assert_eq!(builder.applications, ["app*"]);
}

#[test]
fn what_is_forbidden_and_named_is_refused_with_the_rule_that_would_allow_it() {
    let policy = Policy::default();
    assert_eq!(
        denied(&policy, &user(BUILDER), &["app*", "sched"]),
        "the kernel's category sched: uid 1000 has no permission; `[[allow]] users = [1000] kernel = [\"sched\"]` in /etc/fxtrec/policy.toml would permit it"
    );
    let any = denied(&policy, &user(BUILDER), &["uprobe:libc:malloc"]);
    assert!(any.contains("kernel = [\"uprobe\"]"), "{any}");
}

#[test]
fn the_rule_that_an_error_proposes_is_one_that_allows_it() {
    let error = denied(&Policy::default(), &user(BUILDER), &["irq"]);
    let rule =
        error.split('`').nth(1).expect("a rule").replace("]] ", "]]\n").replace("] k", "]\nk");
    assert_eq!(granted(&policy(&rule), &user(BUILDER), &["irq"]).kernel.categories.len(), 1);
}

#[test]
fn an_empty_list_is_narrowed_to_what_is_permitted() {
    assert!(granted(&Policy::default(), &user(BUILDER), &[]).kernel.is_empty());
    let with_rules = policy(TWO_RULES);
    let developer = Credentials { groups: vec![DEVELOPERS], ..user(OTHER) };
    let all = granted(&with_rules, &developer, &[]);
    assert!(all.kernel.has_scheduling() && all.applications.is_empty());
}

#[test]
fn rules_about_somebody_add_up() {
    let policy = policy(TWO_RULES);
    let both = Credentials { groups: vec![1, DEVELOPERS], ..user(BUILDER) };
    let all = granted(&policy, &both, &["sched", "irq", "uprobe:*"]);
    assert_eq!(all.users, Users::Every);
    assert_eq!((all.kernel.categories.len(), all.kernel.probes.len()), (2, 3));
    assert_eq!(all.max_buffer_bytes, 64 << 20);
    let one = granted(&policy, &user(7), &["irq"]);
    assert_eq!(one.max_buffer_bytes, DEFAULT_MAX_BUFFER_BYTES);
    denied(&policy, &user(7), &["sched"]);
    denied(&policy, &user(OTHER), &["irq"]);
}

#[test]
fn a_primary_group_counts_as_any_other() {
    let policy = policy(TWO_RULES);
    let primary = Credentials { gid: DEVELOPERS, groups: vec![], ..user(OTHER) };
    assert!(granted(&policy, &primary, &["sched"]).kernel.has_scheduling());
}

#[test]
fn everyone_can_be_meant() {
    let policy = policy("[[allow]]\nusers = [\"*\"]\nkernel = [\"sched:waking\"]");
    for category in ["sched", "sched:waking"] {
        assert!(granted(&policy, &user(12345), &[category]).kernel.has_scheduling());
    }
}

#[test]
fn user_probes_are_given_by_name_and_by_the_beginning_of_it() {
    let policy = policy(TWO_RULES);
    let developer = Credentials { groups: vec![DEVELOPERS], ..user(OTHER) };
    let texts = |categories: &[&str]| {
        let probes = granted(&policy, &developer, categories).kernel.probes;
        probes.into_iter().map(|spec| spec.text).collect::<Vec<_>>()
    };
    // Hits have the file's name of the probe, unless its SPEC contains a name.
    let (render, text) = ("render=/usr/bin/app:render%span", "text=/usr/bin/app:render_text");
    assert_eq!(texts(&["uprobe:render"]), [render]);
    assert_eq!(texts(&["uprobe:*"]), [render, text], "not net, which is not given");
    assert_eq!(texts(&["uprobe:render_*", "uprobe:render_text"]), [text], "each of them once");
    assert!(denied(&policy, &developer, &["uprobe:net"]).contains("kernel = [\"uprobe:net\"]"));
    let root = granted(&policy, &user(0), &["uprobe:*"]);
    assert_eq!(root.kernel.probes.len(), 3);
}

#[test]
fn a_probe_that_does_not_exist_is_reported_with_the_nearest_one() {
    let error = denied(&policy(TWO_RULES), &user(0), &["uprobe:rendr"]);
    assert_eq!(error, "policy.toml has no user probe 'rendr'; did you mean render?");
}

#[test]
fn own_processes_are_everyones_unless_the_file_says_otherwise() {
    let own = granted(&Policy::default(), &user(BUILDER), &["sched:own"]);
    assert!(own.kernel.is_own() && own.kernel.has_scheduling());
    let strict = "own-processes = false\n";
    denied(&policy(strict), &user(BUILDER), &["sched:own"]);
    let rule = |kernel: &str| format!("{strict}[[allow]]\nusers = [1000]\nkernel = [\"{kernel}\"]");
    for kernel in ["sched:own", "sched", "sched:waking"] {
        assert!(granted(&policy(&rule(kernel)), &user(BUILDER), &["sched:own"]).kernel.is_own());
    }
    // A user who may record both and requests both gets both.
    let both = granted(&policy(&rule("sched")), &user(BUILDER), &["sched", "sched:own"]);
    assert!(!both.kernel.is_own());
    let error = parse("own-processes = 1").expect_err("no boolean");
    assert!(error.contains("true or false"), "{error}");
}

#[test]
fn a_buffer_may_be_as_large_as_the_rules_say() {
    let policy = policy(TWO_RULES);
    assert_eq!(policy.permits_buffer(&user(BUILDER), DEFAULT_MAX_BUFFER_BYTES), Ok(()));
    let error = policy.permits_buffer(&user(BUILDER), 32 << 20).expect_err("denied").to_string();
    assert!(
        error.starts_with("a buffer of 32 MiB: the maximum for uid 1000 is 16 MiB; "),
        "{error}"
    );
    assert!(error.contains("max-buffer = \"32M\""), "{error}");
    assert_eq!(policy.permits_buffer(&user(0), 1 << 40), Ok(()));
}

#[test]
fn known_categories_say_who_may_have_them() {
    let known = policy(TWO_RULES).known_categories(&user(BUILDER));
    let may: Vec<_> = known.iter().map(|it| (it.name.as_str(), it.permitted)).collect();
    let expected = [
        ("sched", false),
        ("sched:own", true),
        ("sched:waking", false),
        ("irq", true),
        ("syscall", false),
        ("uprobe:net", true),
        ("uprobe:render", false),
        ("uprobe:render_text", false),
    ];
    assert_eq!(may, expected);
    assert_eq!(known[5].description, "user probe net=libc:send n=arg3:u64");
}

#[test]
fn mistakes_are_reported_with_their_place_and_what_was_expected() {
    let cases = [
        ("[probes", "policy.toml:1:8: "),
        (
            "\n  colour = 1",
            "policy.toml:2:3: unknown key 'colour'; expected providers-per-user, own-processes, probes, allow",
        ),
        (
            "[[alow]]",
            "policy.toml:1:3: unknown key 'alow', did you mean 'allow'?; expected providers-per-user, own-processes, probes, allow",
        ),
        (
            "allow = 1",
            "policy.toml:1:9: expected rules, each beginning with a line [[allow]], found an integer",
        ),
        (
            "[[allow]]\nusers = [\"*\"]\nkernl = []",
            "policy.toml:3:1: unknown key 'kernl', did you mean 'kernel'?",
        ),
        ("[[allow]]\nusers = [\"*\", \"carol\"]", "policy.toml:2:15: unknown user 'carol'"),
        ("[[allow]]\ngroups = [\"wheel\"]", "policy.toml:2:11: unknown group 'wheel'"),
        ("[[allow]]\nusers = [-1]", "policy.toml:2:10: -1 is not a valid user id"),
        (
            "[[allow]]\nusers = \"builder\"",
            "policy.toml:2:9: expected a list: [\"...\", \"...\"], found a string",
        ),
        ("[[allow]]\nkernel = [\"sched\"]", "policy.toml:1:1: this rule applies to no user"),
        (
            "[[allow]]\nusers=[1]\nkernel = [\"scehd\"]",
            "policy.toml:3:11: unknown kernel category 'scehd', did you mean 'sched'?",
        ),
        ("[[allow]]\nusers=[1]\nkernel = [\"uprobe:x\"]", "policy.toml:3:11: [probes] has no 'x'"),
        (
            "[[allow]]\nusers=[1]\nother-users = \"yes\"",
            "policy.toml:3:15: expected true or false, found a string",
        ),
        (
            "[[allow]]\nusers=[1]\nmax-buffer = \"much\"",
            "policy.toml:3:14: 'much': expected a number and a unit",
        ),
        (
            "[[allow]]\nusers=[1]\nmax-buffer = 64",
            "policy.toml:3:14: expected a size, such as \"64M\", found an integer",
        ),
        ("[probes]\nx = \":main\"", "policy.toml:2:5: ':main' names no binary"),
        ("[probes]\nx = \"nothing\"", "policy.toml:2:5: expected BINARY:SYMBOL"),
        ("[probes]\n\"a,b\" = \"libc:x\"", "policy.toml:2:1: a probe's name has 1 to 64 letters"),
    ];
    for (text, expected) in cases {
        let error = parse(text).expect_err(text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
    }
}

#[test]
fn a_file_that_others_could_write_is_not_trusted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("policy.toml");
    fs::write(&path, "").expect("written");
    let read = || Policy::read(&path).map(|_| ()).map_err(|error| error.to_string());
    for mode in [0o664, 0o646, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
        let error = read().expect_err("not trusted");
        // A user other than root owns the files that the user writes, which is just as bad.
        let expected = [format!("mode {mode:04o}"), "belongs to uid".to_owned()];
        assert!(expected.iter().any(|text| error.contains(text)), "{error}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("chmod");
    if nix::unistd::geteuid().is_root() {
        assert_eq!(read(), Ok(()));
        chown(&path, Some(BUILDER), None).expect("chown");
        assert!(read().expect_err("not trusted").contains("belongs to uid 1000"));
    } else {
        assert!(read().expect_err("not trusted").contains("belongs to uid"));
    }
    assert!(matches!(Policy::read(dir.path()), Err(PolicyError::NoFile { .. })));
    let missing = Policy::read(&dir.path().join("none")).expect_err("missing");
    assert!(missing.is_missing() && missing.to_string().contains("cannot read the policy"));
}

#[test]
fn a_user_may_have_half_of_all_applications_connected_unless_the_file_says_otherwise() {
    assert_eq!(Policy::default().providers_per_user(), 50);
    assert_eq!(policy(TWO_RULES).providers_per_user(), 50);
    assert_eq!(policy("providers-per-user = 3").providers_per_user(), 3);
    assert_eq!(policy("providers-per-user = 100").providers_per_user(), 100);
    for wrong in ["0", "101", "-1", "2.5", "'3'"] {
        let error = parse(&format!("providers-per-user = {wrong}")).expect_err(wrong);
        assert_eq!(error, "policy.toml:1:22: expected a number from 1 to 100", "{wrong}");
    }
}
