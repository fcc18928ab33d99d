//! Functions by the names that people use.

use std::process::Command;

use fxtrec::probe::SiteKind;
use fxtrec_tests::programs::{build, succeed};

use crate::found::{compilers, sites, symbols};

#[test]
fn functions_of_c_are_where_nm_says_in_both_kinds_of_program() {
    if !compilers() {
        return;
    }
    for flags in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = build("calls.c", &flags);
        let nm = succeed(Command::new("nm").arg(program.path()));
        for function in ["main", "work", "leaf", "descend", "many", "vanish"] {
            let line = nm.lines().find(|line| line.ends_with(&format!(" {function}")));
            let line = line.unwrap_or_else(|| panic!("no {function} in\n{nm}"));
            let address = line.split(' ').next().expect("an address");
            let by_name = sites(&format!("{}:{function}", program.text()));
            let by_address = sites(&format!("{}:0x{address}", program.text()));
            assert_eq!(by_name, by_address, "{flags:?} {function}");
            assert_eq!(symbols(&by_name), [function]);
        }
    }
}

#[test]
fn the_offset_is_where_the_functions_bytes_are_in_the_file() {
    if !compilers() {
        return;
    }
    for flags in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = build("calls.c", &flags);
        let site = &sites(&format!("{}:work", program.text()))[0];
        let code = succeed(Command::new("objdump").args([
            "--disassemble=work",
            "--wide",
            "--show-raw-insn",
            program.text(),
        ]));
        let bytes: Vec<u8> = code
            .lines()
            .filter_map(|line| line.split('\t').nth(1))
            .flat_map(|bytes| bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16)))
            .collect::<Result<_, _>>()
            .expect("hexadecimal bytes");
        assert!(bytes.len() > 8, "{code}");
        let file = std::fs::read(program.path()).expect("it was just built");
        let offset = usize::try_from(site.offset).expect("a small file");
        assert_eq!(file[offset..offset + bytes.len()], bytes);
    }
}

#[test]
fn two_names_of_one_address_are_one_place() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let both = sites(&format!("{}:work*", program.text()));
    assert_eq!(both.len(), 1);
    let alias = sites(&format!("{}:work_alias", program.text()));
    assert_eq!(symbols(&alias), ["work_alias"]);
    assert_eq!(alias[0].offset, both[0].offset);
}

#[test]
fn functions_of_cpp_are_found_by_the_names_in_the_source() {
    if !compilers() {
        return;
    }
    let program = build("shapes.cpp", &[]);
    let found = |name: &str| -> Vec<String> {
        let sites = sites(&format!("{}:{name}", program.text()));
        sites.into_iter().map(|site| site.symbol).collect()
    };
    let overloads =
        ["geometry::Shape::area(int, char const*) const", "geometry::Shape::area(double) const"];
    assert_eq!(found("geometry::Shape::area"), overloads);
    // A single overload needs no parameters to be identified.
    assert_eq!(found("geometry::Shape::area(int,char const*) const"), ["geometry::Shape::area"]);
    assert_eq!(found("geometry::Shape::area(int, char const*) const").len(), 1);
    assert_eq!(found("geometry::Shape::Shape"), ["geometry::Shape::Shape"]);
    assert_eq!(found("geometry::Shape::operator<"), ["geometry::Shape::operator<"]);
    assert_eq!(found("geometry::Shape::operator()(int) const").len(), 1);
    assert_eq!(found("geometry::max_of<int>"), ["geometry::max_of<int>"]);
    assert_eq!(found("geometry::max_of"), ["geometry::max_of<int>", "geometry::max_of<long>"]);
    assert_eq!(
        found("geometry::Box<*>::volume"),
        ["geometry::Box<int>::volume", "geometry::Box<long>::volume"]
    );
    assert_eq!(found("_ZN8geometry5ShapeC1Ei").len(), 1);
}

#[test]
fn functions_of_rust_are_found_by_their_paths_in_both_manglings() {
    if !compilers() {
        return;
    }
    for mangling in ["-Csymbol-mangling-version=v0", "-Cdebuginfo=0"] {
        let program = build("frames.rs", &[mangling]);
        let found = |name: &str| sites(&format!("{}:{name}", program.text()));
        assert_eq!(symbols(&found("frames::render::frame")), ["frames::render::frame"]);
        assert_eq!(found("frames::render::scale").len(), 2, "{mangling}");
        let draw = found("<frames::render::Tile as frames::render::Draw>::draw");
        assert_eq!(draw.len(), 1, "{mangling}");
        let all = found("frames::render::*");
        let names = symbols(&all);
        assert!(names.contains(&"frames::render::frame") && names.len() == 3, "{names:?}");
    }
}

#[test]
fn names_and_kinds_follow_the_spec() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let of = |name: &str, rest: &str| sites(&format!("{name}{}:{rest}", program.text()));
    let site = &of("", "work%return")[0];
    assert_eq!((site.name.as_str(), site.kind), ("work%return", SiteKind::Return));
    assert_eq!(site.args[0].fetch, "$retval:s64");
    let site = &of("job=", "work%span n=arg1:i32 text=arg2:str back=ret:i32")[0];
    assert_eq!((site.name.as_str(), site.kind), ("job", SiteKind::Span));
    assert_eq!(site.category(), "uprobe");
    let many = of("x=", "?e*");
    assert!(symbols(&many).contains(&"leaf") && symbols(&many).contains(&"descend"));
    assert!(many.iter().all(|site| site.name == format!("x:{}", site.symbol)), "{many:?}");
}
