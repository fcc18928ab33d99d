//! Which thread sent the packet that wakes another one on this host.
//!
//! A packet that stays on the host (by a loopback device, or between two ends such as those of containers) is received by a soft
//! interrupt, often on another CPU than the one where it was sent. So whoever runs there has nothing to do with it. These programs
//! (`packets.bpf.c`) follow the packet by the address of its `sk_buff`:
//!
//! ```text
//!   CPU 0   client: send() -- net_dev_queue P                 packets: P -> client       sockets: S -> client
//!   CPU 1   softirq_entry NET_RX -- netif_receive_skb P       the CPU receives what the client sent
//!                                   sched_waking server       woken by the client's packet
//!           softirq_exit                                      the CPU receives nothing
//! ```
//!
//! - What a thread sends is its own, and so is its socket from then on if the packet carries data, or nobody sent by it before.
//! - A thread that is in a call that only receives may send what another one left, on the way: that is of who last sent by the socket.
//! - A soft interrupt sends for who last sent by the socket (an acknowledgement made room, or a timer was due). By no socket, it
//!   forwards or answers the packet that it receives, and its sender is that one's. By a socket without a sender it is unknown: the
//!   packets of several threads may have waited for the address of their next host (ARP), which another thread has asked for.
//! - Who is woken by its own packet was woken by the kernel's answer to it, or since there is room again: no thread did that.
//!
//! A packet that is cut into several is not followed, nor is one that comes from or goes to a device of hardware or a program. Each table has
//! 1024 places, found by the address: who finds another's entry knows nothing. Where a thread hands a socket on which something is
//! still to be sent to another one that sends, too, the kernel may send for both in one call, and the packet is the second one's.

use super::object::{Choice, Given, Object, ObjectError};
use super::programs::{Program, Setting};

/// Bytes of the tables of packets and of sockets, each.
pub const TABLE_BYTES: usize = 1024 * 16;

/// The programs; none where the kernel lacks a tracepoint, or nobody says whether an interrupt runs.
///
/// # Errors
/// [`ObjectError`].
pub fn programs(
    object: &Object,
    setting: &Setting<'_>,
    tables: [(&'static str, Given<'_>); 2],
) -> Result<Vec<Program>, ObjectError> {
    let names = ["inet_sock_set_state", "netif_receive_skb", "net_dev_queue"];
    let [Ok(closed), Ok(receive), Ok(queue)] = names.map(|name| setting.types.tracepoint(name))
    else {
        return Ok(Vec::new());
    };
    let mut choices: Vec<Choice> = setting.of_interrupts().to_vec();
    choices.push(setting.accounts.choice());
    choices.push(("knows_calls", setting.way.syscalls.into()));
    let mut maps = setting.maps();
    maps.extend(tables);
    let programs = object.with(&choices, &maps, &setting.externs())?;
    Ok(vec![
        programs.on("fxtrec_closed", closed)?,
        programs.on("fxtrec_receive", receive)?,
        programs.on("fxtrec_queue", queue)?,
    ])
}
