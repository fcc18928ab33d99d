//! C++ and Rust, with the names in the source.

use fxtrec_tests::programs::build;

use crate::programs::{numbers, ready, record};

#[test]
fn templates_overloads_and_methods_of_cpp_are_hit_as_often_as_called() {
    if !ready() {
        return;
    }
    let program = build("shapes.cpp", &[]);
    let recording = record(
        &[
            ":geometry::max_of a=arg1:i64",
            ":geometry::Box<*>::volume",
            "labelled=:geometry::Shape::area(int, char const*) const w=arg2:i32 label=arg3:str",
            "scaled=:geometry::Shape::area(double) const",
            "less=:geometry::Shape::operator<",
            "call=:geometry::Shape::operator()(int) const x=arg2:i32",
        ],
        &[program.text(), "9"],
    );
    for name in [
        "geometry::max_of<int>",
        "geometry::max_of<long>",
        "geometry::Box<int>::volume",
        "geometry::Box<long>::volume",
        "labelled",
        "scaled",
        "less",
        "call",
    ] {
        assert_eq!(recording.count(name), 9, "{name}");
    }
    assert_eq!(recording.values("labelled", "w"), numbers(0..9));
    assert_eq!(recording.values("labelled", "label"), ["label"; 9]);
    assert_eq!(recording.values("call", "x"), numbers(0..9));
    assert_eq!(recording.values("geometry::max_of<long>", "a"), numbers(0..9));
}

#[test]
fn a_name_that_several_functions_of_cpp_share_means_all_of_them() {
    if !ready() {
        return;
    }
    let program = build("shapes.cpp", &[]);
    let recording = record(
        &[
            "all=:geometry::Shape::area",
            "one=:geometry::max_of<int>%span a=arg1:s32",
            "boxes=:geometry::Box*::volume*",
        ],
        &[program.text(), "25"],
    );
    // Each place has the label and then its own name.
    let hits = |label: &str| {
        let hits = recording.trace.events.iter().filter(|hit| hit.name.starts_with(label));
        hits.filter(|hit| !hit.ends()).count()
    };
    assert_eq!((hits("all"), hits("one"), hits("boxes")), (50, 25, 50));
    assert_eq!(recording.values("one", "a"), numbers(0..25));
}

#[test]
fn functions_of_rust_are_hit_as_often_as_called_in_both_manglings() {
    if !ready() {
        return;
    }
    for mangling in ["-Csymbol-mangling-version=v0", "-Cdebuginfo=0"] {
        let program = build("frames.rs", &[mangling]);
        let recording = record(
            &[
                ":frames::render::frame%span n=arg1:u64",
                "scale=:frames::render::scale",
                "draw=:<frames::render::Tile as frames::render::Draw>::draw",
            ],
            &[program.text(), "8"],
        );
        let frame = "frames::render::frame";
        assert_eq!(recording.values(frame, "n"), numbers(0..8), "{mangling}");
        let ends = recording.named(frame).filter(|hit| hit.ends()).count();
        assert_eq!((recording.count(frame), ends), (16, 8), "begins and ends");
        let events = recording.trace.events.iter();
        let scale = events.filter(|hit| hit.name.starts_with("scale:")).count();
        assert_eq!((scale, recording.count("draw")), (16, 8), "{mangling}");
    }
}
