//! Writes which files and sockets threads waited for.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Event, EventKind};
use fxt_writer::{Arg, Text, ThreadName, Ticks, Value, text};

use crate::encode::{Closed, strings};
use fxtrec_kernel::bpf::stacks::{WaitObject, Waited};
use fxtrec_sched::waited::{EVENT, FILE, key};
use fxtrec_units::Nanos;

/// Writes the object that a thread waited for, as [`fxtrec_sched::waited`] describes it.
pub(super) fn write<L: Lanes>(
    lanes: &mut L,
    since: Nanos,
    thread: ThreadName,
    waited: &Waited,
) -> Result<(), Closed> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    let mut peer = None;
    match &waited.object {
        WaitObject::File { path, device } => {
            texts.push((key::KIND, FILE.to_owned()));
            texts.push((key::PATH, text::clean(path).into_owned()));
            if !device.is_empty() {
                texts.push((key::DEVICE, text::clean(device).into_owned()));
            }
        }
        WaitObject::Anonymous { name } => {
            texts.push((key::KIND, text::clean(name).into_owned()));
        }
        WaitObject::Pipe => texts.push((key::KIND, "pipe".to_owned())),
        WaitObject::Internet { protocol, local, remote } => {
            texts.push((key::KIND, protocol_name(*protocol)));
            texts.push((key::LOCAL, local.to_string()));
            texts.extend(remote.map(|remote| (key::REMOTE, remote.to_string())));
        }
        WaitObject::Socket { family, peer: of_socket } => {
            texts.push((key::KIND, family_name(*family)));
            peer = *of_socket;
        }
    }
    let mut args =
        vec![Arg::new(Text::Inline(key::DESCRIPTOR), Value::uint(waited.descriptor.into()))];
    args.extend(
        texts.iter().map(|(key, text)| Arg::new(Text::Inline(key), Value::Str(Text::Inline(text)))),
    );
    args.extend(peer.map(|pid| Arg::new(Text::Inline(key::PEER), Value::uint(pid.0.into()))));
    lanes.rolling(&Event {
        kind: EventKind::Instant,
        time: Ticks(since.0),
        thread,
        category: strings::FXTREC,
        name: Text::Inline(EVENT),
        args: &args,
    })?;
    Ok(())
}

/// The name of a protocol of IPv4 or IPv6.
fn protocol_name(number: u16) -> String {
    match i32::from(number) {
        libc::IPPROTO_TCP => "tcp".to_owned(),
        libc::IPPROTO_UDP => "udp".to_owned(),
        libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6 => "icmp".to_owned(),
        number => format!("ip-{number}"),
    }
}

/// The name of a kind of sockets.
fn family_name(number: u16) -> String {
    match i32::from(number) {
        libc::AF_UNIX => "unix".to_owned(),
        libc::AF_NETLINK => "netlink socket".to_owned(),
        libc::AF_PACKET => "packet socket".to_owned(),
        libc::AF_VSOCK => "vsock".to_owned(),
        number => format!("socket of family {number}"),
    }
}
