//! The ten argument types, with indexed and inline names.

use fxt_writer::record::{KernelObject, ObjectType};
use fxt_writer::{Arg, Koid, Text, Value};

use crate::{Field, assert_words, indexed, inline_ref, stream, word};

/// Checks one argument, alone in a kernel object record: first with its name
/// indexed, then with an inline name of 5 bytes. `data` are the fields of the
/// argument's header beyond type, size and name.
#[track_caller]
fn assert_argument(value: Value<'_>, arg_type: u64, data: &[Field<'_>], payload: &[u64]) {
    for (name, name_ref, name_words) in
        [(indexed(9), 9, vec![]), (Text::Inline("label"), inline_ref(5), stream(b"label"))]
    {
        let size = 1 + name_words.len() as u64 + payload.len() as u64;
        let mut header = vec![
            ("argument type", 0, 3, arg_type),
            ("argument size", 4, 15, size),
            ("argument name (string ref)", 16, 31, name_ref),
        ];
        header.extend(data);
        let object = word(&[
            ("record type", 0, 3, 7),
            ("record size", 4, 15, 2 + size),
            ("kernel object type", 16, 23, 1),
            ("name (string ref)", 24, 39, 3),
            ("number of arguments", 40, 43, 1),
        ]);
        let record = KernelObject {
            object_type: ObjectType::Process,
            koid: Koid(77),
            name: indexed(3),
            args: &[Arg::new(name, value)],
        };
        assert_words(&record, &[&[object, 77], &[word(&header)], &name_words, payload]);
    }
}

#[test]
fn null() {
    assert_argument(Value::Null, 0, &[], &[]);
}

#[test]
fn signed_32_bit_integers() {
    assert_argument(Value::Int32(7), 1, &[("value", 32, 63, 7)], &[]);
    assert_argument(Value::Int32(-1), 1, &[("value", 32, 63, 0xffff_ffff)], &[]);
    assert_argument(Value::Int32(i32::MIN), 1, &[("value", 32, 63, 0x8000_0000)], &[]);
}

#[test]
fn unsigned_32_bit_integers() {
    assert_argument(Value::Uint32(u32::MAX), 2, &[("value", 32, 63, 0xffff_ffff)], &[]);
}

#[test]
fn signed_64_bit_integers() {
    assert_argument(Value::Int64(-2), 3, &[], &[0xffff_ffff_ffff_fffe]);
}

#[test]
fn unsigned_64_bit_integers() {
    assert_argument(Value::Uint64(u64::MAX), 4, &[], &[u64::MAX]);
}

#[test]
fn doubles() {
    // 1.5 is 1.1 in binary: exponent 0 (biased 0x3ff), first fraction bit set.
    assert_argument(Value::Double(1.5), 5, &[], &[0x3ff8_0000_0000_0000]);
}

#[test]
fn strings_by_index_inline_and_empty() {
    let by_index = [("argument value (string ref)", 32, 47, 12)];
    assert_argument(Value::Str(indexed(12)), 6, &by_index, &[]);
    let inline = [("argument value (string ref)", 32, 47, inline_ref(9))];
    assert_argument(Value::Str(Text::Inline("ninebytes")), 6, &inline, &stream(b"ninebytes"));
    let empty = [("argument value (string ref)", 32, 47, 0)];
    assert_argument(Value::Str(Text::EMPTY), 6, &empty, &[]);
    assert_argument(Value::Str(Text::Inline("")), 6, &empty, &[]);
}

#[test]
fn pointers() {
    assert_argument(Value::Pointer(0x7fff_0000_1234), 7, &[], &[0x7fff_0000_1234]);
}

#[test]
fn koids() {
    assert_argument(Value::Koid(Koid(4711)), 8, &[], &[4711]);
}

#[test]
fn booleans() {
    assert_argument(Value::Bool(true), 9, &[("value", 32, 32, 1)], &[]);
    assert_argument(Value::Bool(false), 9, &[("value", 32, 32, 0)], &[]);
}
