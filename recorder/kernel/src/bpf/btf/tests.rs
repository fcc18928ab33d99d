//! Descriptions built word by word.

use super::*;

/// Writes a description as a compiler would.
#[derive(Default)]
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Builder {
    fn new() -> Builder {
        Builder { strings: vec![0], ..Builder::default() }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn add(
        &mut self,
        name: &str,
        kind: u8,
        entries: u16,
        flag: bool,
        value: u32,
        extra: &[u32],
    ) -> u32 {
        let name = self.string(name);
        let [low, high] = entries.to_le_bytes();
        let info = u32::from_le_bytes([low, high, 0, kind + if flag { 0x80 } else { 0 }]);
        for word in [name, info, value].iter().chain(extra) {
            self.types.extend(word.to_ne_bytes());
        }
        self.count += 1;
        self.count
    }

    fn members(&mut self, members: &[(&str, u32, u32)]) -> Vec<u32> {
        members.iter().flat_map(|(name, id, bits)| [self.string(name), *id, *bits]).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        for word in [HEADER_BYTES as u32, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

/// `struct task { int a; struct { int pid; char comm[16]; }; unsigned f:3, g:5; };`
fn description() -> Builder {
    let mut b = Builder::new();
    let int = b.add("int", 1, 0, false, 4, &[0]);
    let character = b.add("char", 1, 0, false, 1, &[0]);
    let comm = b.add("", 3, 0, false, 0, &[character, int, 16]);
    let pid_t = b.add("pid_t", 8, 0, false, int, &[]);
    let members = b.members(&[("pid", pid_t, 0), ("comm", comm, 32)]);
    let inner = b.add("", 4, 2, false, 20, &members);
    let members = b.members(&[
        ("a", int, 0),
        ("", inner, 64),
        ("f", int, 224 + (3 << 24)),
        ("g", int, 227 + (5 << 24)),
    ]);
    let task = b.add("task", 4, 4, true, 32, &members);
    let pointer = b.add("", 2, 0, false, task, &[]);
    let prototype = b.add("", 13, 2, false, 0, &[0, pointer, 0, int]);
    let function = b.add("", 2, 0, false, prototype, &[]);
    b.add("btf_trace_x", 8, 0, false, function, &[]);
    let constant = b.add("", 10, 0, false, int, &[]);
    let counter = b.add("counter", 14, 0, false, constant, &[1]);
    let other = b.add("other", 14, 0, false, int, &[1]);
    b.add(".data..percpu", 15, 2, false, 64, &[other, 40, 4, counter, 16, 4]);
    b
}

fn parsed() -> Btf {
    Btf::parse(description().bytes()).expect("well formed")
}

#[test]
fn members_are_found_through_nameless_structures_and_typedefs() {
    let btf = parsed();
    let task = btf.structure("task").expect("it is there");
    let place = |name| btf.member(task, name).map(|member| (member.offset, member.bytes));
    assert_eq!(place("a"), Ok((0, Some(4))));
    assert_eq!(place("pid"), Ok((8, Some(4))));
    assert_eq!(place("comm"), Ok((12, Some(16))));
}

#[test]
fn bit_fields_and_absent_members_are_not_found_and_the_error_names_them() {
    let btf = parsed();
    let task = btf.structure("task").expect("it is there");
    for name in ["f", "g", "nothing"] {
        let error = btf.member(task, name).expect_err("no such bytes").to_string();
        assert!(error.contains(&format!("task.{name}")), "{error}");
    }
    assert_eq!(
        btf.structure("int").expect_err("an int is no structure"),
        BtfError::Missing { kind: "structure", name: "int".to_owned() }
    );
}

#[test]
fn a_tracepoints_arguments_are_counted_and_a_variables_type_is_known() {
    let btf = parsed();
    let trace = btf.typedef("btf_trace_x").expect("it is there");
    assert_eq!(btf.arguments(trace), Ok(2));
    let names = ["pid_t", "x", "y"].map(str::to_owned);
    assert_eq!(btf.tracepoints(&names), [None, Some(trace), None]);
    let (variable, kind) = btf.variable("counter").expect("it is there");
    assert_eq!((btf.bytes_of(kind), variable > kind), (Some(4), true));
    assert!(btf.arguments(btf.typedef("pid_t").expect("it is there")).is_err());
}

#[test]
fn variables_of_one_section_have_a_distance() {
    let btf = parsed();
    assert_eq!(btf.distance("counter", "other"), Ok(24));
    assert_eq!(btf.distance("other", "counter"), Ok(-24));
    assert!(btf.distance("other", "task").is_err());
}

#[test]
fn a_description_cut_anywhere_is_an_error_and_no_panic() {
    let whole = description().bytes();
    for len in 0..whole.len() {
        assert!(Btf::parse(whole[..len].to_vec()).is_err(), "cut at {len}");
    }
}

#[test]
fn a_description_changed_anywhere_is_no_panic() {
    let whole = description().bytes();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let Ok(btf) = Btf::parse(bytes) else { continue };
            if let Ok(task) = btf.structure("task") {
                let _ = btf.member(task, "comm");
            }
            let _ = btf.typedef("btf_trace_x").and_then(|id| btf.arguments(id));
            let _ = btf.variable("counter");
            let _ = btf.distance("counter", "other");
        }
    }
}

#[test]
fn a_typedef_of_itself_ends() {
    let mut b = Builder::new();
    b.add("loop", 8, 0, false, 1, &[]);
    let btf = Btf::parse(b.bytes()).expect("well formed");
    assert!(btf.arguments(1).is_err());
}
