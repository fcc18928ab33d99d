//! C++ and Rust, by the names in the source.

use fxtrec_tests::programs::build;

use crate::{count, ready, record, values};

#[test]
fn templates_overloads_and_methods_of_cpp_are_hit_as_often_as_called() {
    if !ready() {
        return;
    }
    let program = build("shapes.cpp", &[]);
    let (hits, _) = record(
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
        assert_eq!(count(&hits, name), 9, "{name}");
    }
    let numbers: Vec<_> = (0..9).map(|n| n.to_string()).collect();
    assert_eq!(values(&hits, "labelled", "w"), numbers);
    assert_eq!(values(&hits, "labelled", "label"), ["label"; 9]);
    assert_eq!(values(&hits, "call", "x"), numbers);
    assert_eq!(values(&hits, "geometry::max_of<long>", "a"), numbers);
}

#[test]
fn functions_of_rust_are_hit_as_often_as_called_in_both_manglings() {
    if !ready() {
        return;
    }
    for mangling in ["-Csymbol-mangling-version=v0", "-Cdebuginfo=0"] {
        let program = build("frames.rs", &[mangling]);
        let (hits, _) = record(
            &[
                ":frames::render::frame%span n=arg1:u64",
                "scale=:frames::render::scale",
                "draw=:<frames::render::Tile as frames::render::Draw>::draw",
            ],
            &[program.text(), "8"],
        );
        let numbers: Vec<_> = (0..8).map(|n| n.to_string()).collect();
        assert_eq!(values(&hits, "frames::render::frame", "n"), numbers, "{mangling}");
        assert_eq!(count(&hits, "frames::render::frame"), 16, "begins and ends");
        let scale = hits.iter().filter(|hit| hit.name.starts_with("scale:")).count();
        assert_eq!((scale, count(&hits, "draw")), (16, 8), "{mangling}");
    }
}
