//! The thread that sent the packet which wakes another thread on this host.
//!
//! A packet that stays on the host (through a loopback device, or between two ends such as those of containers) is received by a soft
//! interrupt, often on a different CPU than the one where it was sent. The thread that runs on that CPU is unrelated. These programs
//! (`packets.bpf.c`) follow the packet by the address of its `sk_buff`:
//!
//! ```text
//!   CPU 0   client: send() -- net_dev_queue P                 packets: P -> client       sockets: S -> client
//!   CPU 1   softirq_entry NET_RX -- netif_receive_skb P       the CPU receives what the client sent
//!                                   sched_waking server       woken by the client's packet
//!           softirq_exit                                      the CPU receives nothing
//! ```
//!
//! - A packet belongs to the thread that sends it, and from then on so does its socket, if the packet carries data or no thread sent by the
//!   socket before.
//! - A thread in a call that only receives may send data that another thread left: that packet belongs to the last sender by the socket.
//! - A packet that a soft interrupt sends by a socket belongs to the last sender by that socket (an acknowledgement freed room, or a timer
//!   expired). Without a socket, the interrupt forwards or answers the packet that it receives, and the sender is the sender of that
//!   packet. If the socket has no known sender, it is unknown: the packets of several threads may have waited for the address of their next
//!   host (ARP), which another thread has requested.
//! - A thread that is woken by its own packet was woken by the kernel's answer to it, or because there is space again: no thread caused
//!   that.
//!
//! A packet that is split is not followed; neither is one from or to a hardware device or a program. Each table has 1024 entries, indexed
//! by the address: a lookup that finds the entry of another address returns nothing. If a thread passes a socket with unsent data to
//! another thread that also sends, the kernel may send for both in one call, and the packet is attributed to the second thread.

use super::object::{Choice, Given, Object, ObjectError};
use super::programs::{Program, Setting};

/// Bytes of each of the tables of packets and of sockets.
pub const TABLE_BYTES: usize = 1024 * 16;

/// The programs; none if the kernel lacks a tracepoint, or if programs cannot determine whether an interrupt is running.
///
/// # Errors
/// Returns [`ObjectError`].
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
