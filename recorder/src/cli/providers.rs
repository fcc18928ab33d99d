//! The options for applications that record their own events.

use clap::Args;

use crate::control::categories::Category;
use crate::units::quantity::ByteSize;

const PROVIDERS: &str = "Applications' own events";

/// Whether, and into which categories, COMMAND and its children may record their own spans.
#[derive(Args, Clone, Debug, Default)]
pub struct ProviderArgs {
    /// Do not record the events that COMMAND and its children write themselves
    ///
    /// Otherwise they find fxtrec through the variable FXTREC_PROVIDER_SOCKET, and the trace contains what they record with fxt-writer's
    /// `provider` module, or with another client of the protocol in docs/reference/providers.md.
    #[arg(long, conflicts_with_all = ["provider_buffer", "categories"], help_heading = PROVIDERS)]
    pub no_providers: bool,

    /// Size of the buffer of each application that records its own events [default: 4M, 16M with --trigger]
    ///
    /// If an application fills one half before fxtrec has saved the other, it drops events and counts them.
    #[arg(long, value_name = "SIZE", help_heading = PROVIDERS)]
    pub provider_buffer: Option<ByteSize>,

    /// Categories to record, for example net,app* (applications) and sched:waking,irq (kernel) [default: all application categories]
    ///
    /// A `*` at the end of a name matches anything. `sched:waking` is the same as --waking, `irq` as --irq, `syscall` as
    /// --syscalls, `uprobe:BINARY:SYMBOL` as -P BINARY:SYMBOL; `sched` is always recorded. All other names are
    /// categories of applications.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', help_heading = PROVIDERS)]
    pub categories: Vec<Category>,
}
