use super::*;

fn selection(categories: &[&str]) -> Selection {
    Selection::parse(categories).expect("good categories")
}

fn refused(category: &str) -> CategoryError {
    category.parse::<Category>().expect_err("refused")
}

#[test]
fn an_empty_list_is_everything_and_the_scheduler() {
    let all = selection(&[]);
    assert!(all.everything);
    assert_eq!(Vec::from_iter(all.kernel), [KernelCategory::Sched]);
    assert!(all.applications.is_empty());
}

#[test]
fn names_of_the_kernel_switch_it_on_and_are_told_to_applications() {
    let some = selection(&["sched:waking", "net", "irq", "app*", "net"]);
    assert!(!some.everything);
    assert_eq!(Vec::from_iter(some.kernel), [KernelCategory::Waking, KernelCategory::Irq]);
    assert_eq!(some.applications, ["sched:waking", "net", "irq", "app*"]);
}

#[test]
fn a_wildcard_is_about_applications_alone() {
    for pattern in ["*", "sched*", "sched:w*", "irq*"] {
        let some = selection(&[pattern]);
        assert!(some.kernel.is_empty(), "{pattern}");
        assert_eq!(some.applications, [pattern]);
    }
}

#[test]
fn a_user_probe_goes_by_its_name_the_beginning_of_it_or_a_whole_spec() {
    let some =
        selection(&["uprobe:render", "uprobe:net_*", "uprobe:/usr/bin/x:m*%span n=arg1:u64"]);
    let [ProbeCategory::Named(name), ProbeCategory::Prefix(prefix), ProbeCategory::Spec(spec)] =
        &some.probes[..]
    else {
        panic!("{:?}", some.probes)
    };
    assert_eq!((name.as_str(), prefix.as_str()), ("render", "net_"));
    assert_eq!(spec.text, "/usr/bin/x:m*%span n=arg1:u64");
    assert_eq!(some.applications, ["uprobe"], "a SPEC is nothing to tell applications");
}

#[test]
fn what_is_no_category_is_told_why() {
    assert_eq!(refused(""), CategoryError::Empty);
    assert_eq!(refused("uprobe:"), CategoryError::Empty);
    assert_eq!(refused("*net"), CategoryError::Star);
    assert_eq!(refused("a**"), CategoryError::Star);
    assert_eq!(refused("uprobe:a*b"), CategoryError::Star);
    assert_eq!(refused("a\nb"), CategoryError::Control);
    assert_eq!(refused(&"x".repeat(256)), CategoryError::TooLong);
    assert!(matches!(refused("uprobe:/bin/x:"), CategoryError::Spec(_)));
    assert_eq!(refused("uprobe::main"), CategoryError::NoBinary(":main".to_owned()));
    let long = vec!["a"; MAX_CATEGORIES + 1];
    let error = Selection::parse(&long).expect_err("refused");
    assert_eq!(error.why, CategoryError::TooMany(1001));
    let large = vec!["x".repeat(255); 241];
    let error = Selection::parse(&large).expect_err("refused");
    assert_eq!(error.why, CategoryError::TooMuch(241 * 256));
}

#[test]
fn additional_categories_beyond_what_applications_can_be_told_are_left_out() {
    let list = |first: usize, count: usize, length: usize| -> Vec<String> {
        (first..first + count).map(|number| format!("{number:0length$}")).collect()
    };
    let some = Selection::parse(&list(0, 999, 4)).expect("good");
    let both = some.clone().with(Selection::parse(&list(997, 5, 4)).expect("good"));
    assert_eq!(both.applications, list(0, MAX_CATEGORIES, 4), "by number");
    let long = Selection::parse(&list(0, 239, 255)).expect("good");
    let both = long.with(Selection::parse(&list(239, 2, 255)).expect("good"));
    assert_eq!(both.applications, list(0, 240, 255), "by length");
}

#[test]
fn a_slip_in_a_name_of_the_kernel_is_not_taken_for_an_applications() {
    let error = refused("sched:wakin");
    assert_eq!(
        error.to_string(),
        "unknown kernel category 'sched:wakin'; did you mean sched:waking?"
    );
    assert_eq!(refused("irq:hard").to_string(), "unknown kernel category 'irq:hard'");
}

#[test]
fn everything_and_some_more_of_the_kernel_is_both() {
    let both = selection(&[]).with(selection(&["irq", "net"]));
    assert!(both.everything && both.applications.is_empty());
    assert_eq!(Vec::from_iter(both.kernel), [KernelCategory::Sched, KernelCategory::Irq]);
    let added = selection(&["net"]).with(selection(&["irq", "net"]));
    assert_eq!(added.applications, ["net", "irq"]);
    assert_eq!(selection(&["net"]).with(selection(&[])), selection(&["net"]));
}

#[test]
fn the_recorder_is_given_an_option_for_each() {
    let plan = KernelPlan {
        categories: KernelCategory::ALL.into_iter().collect(),
        probes: vec!["f=libc:malloc%span n=arg1:u64".parse().expect("good")],
    };
    let args = plan.recorder_args();
    let words = ["--waking", "--irq", "--syscalls", "--probe=f=libc:malloc%span n=arg1:u64"];
    assert_eq!(args, words.map(OsString::from));
}

#[test]
fn the_scheduler_is_recorded_with_either_of_its_names() {
    let plan = |categories: &[KernelCategory]| KernelPlan {
        categories: categories.iter().copied().collect(),
        probes: Vec::new(),
    };
    assert!(plan(&[KernelCategory::Sched]).has_scheduling());
    assert!(plan(&[KernelCategory::Waking]).has_scheduling());
    assert!(!plan(&[KernelCategory::Irq]).has_scheduling());
    assert!(plan(&[KernelCategory::Sched]).recorder_args().is_empty());
    assert!(plan(&[]).is_empty());
}
