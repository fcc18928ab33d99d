//! The options about applications that record their own spans.

use clap::Args;

use crate::control::categories::Category;
use crate::units::quantity::ByteSize;

const PROVIDERS: &str = "Applications' own events";

/// Whether COMMAND and its children may record their own spans into the trace, and which.
#[derive(Args, Clone, Debug, Default)]
pub struct ProviderArgs {
    /// Do not take events that COMMAND and its children record themselves
    ///
    /// Otherwise they find fxtrec by the variable FXTREC_PROVIDER_SOCKET, and what they record by fxt-writer's
    /// `provider` module, or by another client of the protocol in docs/providers.md, is in the trace.
    #[arg(long, conflicts_with_all = ["provider_buffer", "categories"], help_heading = PROVIDERS)]
    pub no_providers: bool,

    /// Buffer of each application that records its own events, for example 16M [default: 4M, 16M with --trigger]
    ///
    /// An application that fills half of it before fxtrec has saved the other half drops events, and counts them.
    #[arg(long, value_name = "SIZE", help_heading = PROVIDERS)]
    pub provider_buffer: Option<ByteSize>,

    /// The categories of events to record, for example net,app* of applications, sched:waking,irq of the kernel [default: all]
    ///
    /// `*` at the end of a name stands for whatever follows. `sched:waking` is the same as --waking, `irq` as --irq,
    /// `syscall` as --syscalls, `uprobe:BINARY:SYMBOL` as -P BINARY:SYMBOL; `sched` is always recorded. Applications
    /// are to record all others.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', help_heading = PROVIDERS)]
    pub categories: Vec<Category>,
}
