use super::*;

fn parse(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> (usize, String) {
    let error = text.parse::<Spec>().expect_err(text);
    (error.column(), error.message().to_owned())
}

fn function(text: &str) -> (String, u64, Mode) {
    let spec = parse(text);
    match spec.place {
        ProbePoint::Function { pattern, offset } => (pattern, offset, spec.mode),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_part_of_a_spec_is_taken_apart() {
    let spec = parse("draw=/opt/app/bin/app:render_frame%span width=arg1:u32 arg2:str ret");
    assert_eq!(spec.name.as_deref(), Some("draw"));
    assert_eq!(spec.binary, Binary::Path("/opt/app/bin/app".into()));
    assert_eq!(spec.place, ProbePoint::Function { pattern: "render_frame".into(), offset: 0 });
    assert_eq!(spec.mode, Mode::Span);
    let args: Vec<_> =
        spec.args.iter().map(|arg| (arg.name.as_str(), &arg.value, arg.ty)).collect();
    assert_eq!(
        args,
        [
            ("width", &Value::Argument(1), Some(ArgType::Unsigned(Width::Bits32))),
            ("arg2", &Value::Argument(2), Some(ArgType::Str)),
            ("ret", &Value::Returned, None),
        ]
    );
    assert_eq!(spec.args[0].text, "width=arg1:u32");
}

#[test]
fn a_binary_is_a_path_a_library_or_command_itself() {
    assert_eq!(parse(":main").binary, Binary::Command);
    assert_eq!(parse("libc:malloc").binary, Binary::Name("libc".into()));
    assert_eq!(parse("./a:main").binary, Binary::Path("./a".into()));
    assert_eq!(parse("/a=b/my app:main").binary, Binary::Path("/a=b/my app".into()));
    assert_eq!(parse("n=\"/a:b\":main").binary, Binary::Path("/a:b".into()));
}

#[test]
fn offsets_and_modes_end_a_name() {
    assert_eq!(function(":main+0x10"), ("main".into(), 16, Mode::Hit));
    assert_eq!(function(":main+7 %di"), ("main".into(), 7, Mode::Hit));
    assert_eq!(function(":main%return"), ("main".into(), 0, Mode::Return));
    assert_eq!(function(":\"a b\"%span"), ("a b".into(), 0, Mode::Span));
    assert_eq!(parse("/a:0x401136 %di").place, ProbePoint::Address(0x40_1136));
    assert_eq!(parse("/a:0x401136+4").place, ProbePoint::Address(0x40_113a));
}

#[test]
fn names_of_cpp_and_rust_need_no_quotes() {
    for name in [
        "Foo::bar(int, char const*)",
        "Foo::bar(int) const",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "operator new",
        "operator new(unsigned long)",
        "Matrix::operator()(int, int)",
        "operator<<(std::ostream&, Foo const&)",
        "Foo::operator->() const",
        "Foo::operator+",
        "Foo::operator++",
        "Foo::operator%",
        "Foo::operator%=(int)",
        "Foo::operator bool() const",
        "my_operator",
        "<app::Frame as core::fmt::Debug>::fmt",
        "app::main::{{closure}}",
        "core::ops::function::FnOnce::call_once<fn(u8) -> bool, (u8,)>",
        "mycrate::render::*",
    ] {
        assert_eq!(function(&format!("/a:{name}")), (name.into(), 0, Mode::Hit));
        assert_eq!(function(&format!("/a:{name} x=%di")), (name.into(), 0, Mode::Hit));
        if !name.ends_with('%') {
            assert_eq!(function(&format!("/a:{name}%return ret")), (name.into(), 0, Mode::Return));
            assert_eq!(function(&format!("/a:{name}+4")), (name.into(), 4, Mode::Hit));
        }
    }
}

#[test]
fn a_usdt_probe_has_a_provider_and_a_name() {
    let usdt = |provider: &str, name: &str| ProbePoint::Usdt {
        provider: provider.into(),
        name: name.into(),
    };
    assert_eq!(parse("libc:usdt:libc:setjmp arg1").place, usdt("libc", "setjmp"));
    assert_eq!(parse(":usdt:*:*").place, usdt("*", "*"));
    assert_eq!(function(":usdt::serve").0, "usdt::serve");
}

#[test]
fn arguments_are_the_kernels_with_names_for_those_without() {
    let spec =
        parse(r":f %di +8(%si):u64 n=-0x10(+8(arg1)):str $stack2 $comm @+0x30:x8 \-5 arg9:ptr");
    let names: Vec<_> = spec.args.iter().map(|arg| arg.name.as_str()).collect();
    assert_eq!(names, ["di", "value2", "n", "stack2", "comm", "value6", "value7", "arg9"]);
    let inner = Value::Deref { offset: 8, of: Box::new(Value::Argument(1)) };
    assert_eq!(spec.args[2].value, Value::Deref { offset: -16, of: Box::new(inner) });
    assert_eq!(spec.args[6].value, Value::Verbatim(Verbatim::Immediate(-5)));
}

#[test]
fn what_is_wrong_is_shown_where_it_is_wrong() {
    for (text, column, part) in [
        ("main", 4, "BINARY:SYMBOL"),
        ("/a/b", 4, "expected ':'"),
        ("=x:main", 0, "expected a name before"),
        (":", 1, "expected a function's name"),
        ("::main", 1, "unexpected ':'"),
        (":main%entry", 6, "return or span"),
        (":main+0xzz", 6, "an offset in bytes"),
        (":main+4%return", 1, "remove the offset"),
        (":12", 1, "0x401136"),
        (":0x1ffffffffffffffff", 1, "0x401136"),
        (":usdt:libc", 10, "usdt:PROVIDER:NAME"),
        (":usdt:libc:", 11, "the USDT probe's name"),
        (":usdt:a:b%return", 9, "no %return or %span"),
        (":f arg0", 3, "expected a value"),
        (":f x=arg1:u33", 10, "expected a type"),
        (":f x=arg1:f64", 10, "floating-point"),
        (":f +8(%di", 9, "expected ')'"),
        (":f +8", 5, "expected '('"),
        (":f %", 4, "a register's name"),
        (":f ret", 3, "%return or %span"),
        (":f%return arg1", 10, "no longer available"),
        (":f+4 arg1", 5, "first instruction"),
        (":f arg1 arg1", 8, "duplicate argument name arg1"),
        (":f 9x=arg1", 3, "begins with a letter"),
        (":f common_pid=arg1", 3, "reserved by the kernel"),
        (":f arg1;arg2", 7, "expected the end of the argument"),
        (":\"main", 1, "unterminated quote"),
        ("ä/ö:ü%x", 6, "return or span"),
    ] {
        let (at, message) = error(text);
        assert!(message.contains(part), "{text}: {message}");
        assert_eq!(at, column, "{text}: {message}");
    }
}

#[test]
fn an_error_prints_the_text_with_a_caret_below() {
    let error = ":main%entry".parse::<Spec>().expect_err("no such mode");
    let text = error.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1..], ["  :main%entry", "        ^"]);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*") {
        if let Err(error) = text.parse::<Spec>() {
            assert!(error.column() <= text.chars().count());
        }
    }

    #[test]
    fn nor_does_a_text_of_what_the_grammar_is_made_of(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                ":", "=", "/", "a", "usdt:", "+", "-", "0x", "9", "%", "return", "span", " ", "(",
                ")", "<", ">", "operator", "const", "&", "\"", "arg", "ret", "@", "\\", "$", "stack",
                ":u32", "str", "*", "é", "\0", "\n", "18446744073709551615",
            ]),
            0..24,
        )
    ) {
        let text = parts.concat();
        match text.parse::<Spec>() {
            Ok(spec) => assert_eq!(spec.text, text),
            Err(error) => assert!(error.column() <= text.chars().count()),
        }
    }

    #[test]
    fn a_spec_of_plain_names_is_what_it_was_made_of(
        name in "[a-z][a-z0-9_.]{0,8}",
        binary in "(/[a-z]{1,5}){1,3}",
        pattern in "[a-zA-Z_*][a-zA-Z0-9_*]{0,10}(::[a-z_*]{1,6}){0,2}",
        offset in 0_u64..,
        argument in 1_u32..7,
    ) {
        let spec = parse(&format!("{name}={binary}:{pattern}+{offset:#x} v=%ax"));
        assert_eq!(spec.name, Some(name));
        assert_eq!(spec.binary, Binary::Path(binary.into()));
        assert_eq!(spec.place, ProbePoint::Function { pattern: pattern.clone(), offset });
        let spec = parse(&format!(":{pattern}%span arg{argument}:i64"));
        assert_eq!(spec.args[0].value, Value::Argument(argument));
    }
}
