//! Tracepoints of a hypothetical kernel, for the tests of their readers.

use super::*;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

pub(crate) fn format(name: &str, id: u32, fields: &str, print: &str) -> Format {
    let text = format!("name: {name}\nID: {id}\nformat:\n{COMMON}\n{fields}\nprint fmt: {print}\n");
    Format::parse(&text).expect("a well-formed format")
}

fn wake_format(name: &str, id: u32) -> Format {
    let fields = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;";
    format(name, id, fields, "\"pid=%d\", REC->pid")
}

fn formats() -> SchedFormats {
    let fields = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;";
    let print = "\"state=%s%s\", (REC->prev_state & ((((0x0 | 0x1 | 0x2) + 1) << 1) - 1)) ? \
        __print_flags(REC->prev_state & ((((0x0 | 0x1 | 0x2) + 1) << 1) - 1), \"|\", \
        { 0x1, \"S\" }, { 0x2, \"D\" }, { 0x4, \"I\" }) : \"R\", \
        REC->prev_state & (((0x0 | 0x1 | 0x2) + 1) << 1) ? \"+\" : \"\"";
    SchedFormats {
        switch: format("sched_switch", 300, fields, print),
        wakeup: wake_format("sched_wakeup", 301),
        wakeup_new: wake_format("sched_wakeup_new", 302),
        waking: None,
        migrate: None,
        homes: None,
        contention: None,
    }
}

pub(crate) fn layout() -> SchedLayout {
    SchedLayout::new(&formats()).expect("a known shape")
}

fn comm(name: &str) -> [u8; 16] {
    Comm::from_bytes(name.as_bytes()).0
}

pub(crate) fn raw_switch(state: i64) -> Vec<u8> {
    let mut raw = 300u16.to_ne_bytes().to_vec();
    raw.extend([0, 0]);
    raw.extend(10i32.to_ne_bytes());
    raw.extend(comm("out"));
    raw.extend(10i32.to_ne_bytes());
    raw.extend(120i32.to_ne_bytes());
    raw.extend(state.to_ne_bytes());
    raw.extend(comm("in"));
    raw.extend(11i32.to_ne_bytes());
    raw.extend(98i32.to_ne_bytes());
    raw
}

pub(crate) fn raw_wake(id: u16, flags: u8, current: i32) -> Vec<u8> {
    let mut raw = id.to_ne_bytes().to_vec();
    raw.extend([flags, 0]);
    raw.extend(current.to_ne_bytes());
    raw.extend(comm("woken"));
    raw.extend([42i32, 120, 3].map(i32::to_ne_bytes).concat());
    raw
}

#[test]
fn a_field_of_an_unknown_size_is_refused_by_name() {
    let mut formats = formats();
    for field in &mut formats.wakeup.fields {
        if field.name == "pid" {
            field.size = 8;
        }
    }
    let error = SchedLayout::new(&formats).expect_err("pid of eight bytes");
    assert!(error.to_string().contains("`pid` of tracepoint sched_wakeup"), "{error}");
}

#[test]
fn a_move_between_queues_says_who_from_where_to_where() {
    let fields = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int orig_cpu;\toffset:32;\tsize:4;\tsigned:1;
\tfield:int dest_cpu;\toffset:36;\tsize:4;\tsigned:1;";
    let migrate = Some(format("sched_migrate_task", 310, fields, "\"pid=%d\", REC->pid"));
    let layout = SchedLayout::new(&SchedFormats { migrate, ..formats() }).expect("a known shape");
    assert_eq!(layout.tracepoints(), [300, 301, 302, 310]);
    let mut raw = raw_wake(310, 0, 7);
    raw.extend(5i32.to_ne_bytes());
    let expected = Kind::Moved { tid: Tid(42), from: Cpu(3), to: Cpu(5) };
    assert_eq!(layout.decode(&raw), Some(expected));
    assert_eq!(layout.decode(&raw[..raw.len() - 1]), None, "it is cut off");
    assert_eq!(super::tests::layout().decode(&raw), None, "nobody asked for it");
}
