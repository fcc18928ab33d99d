//! The arguments of `fxtrec daemon`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::daemon::MetricsAddress;
use crate::control::RUNTIME_DIR;
use crate::control::policy::POLICY_PATH;
use crate::units::quantity::ByteSize;

/// The arguments of `fxtrec daemon`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Applications connect to the socket 'providers' in the runtime directory, clients (fxtrec ctl, and others that speak
Varlink) to 'control'. If systemd passes sockets, the daemon uses those. docs/sessions.md describes the protocol.

Examples:
  sudo fxtrec daemon
  sudo fxtrec daemon --group tracers
  sudo fxtrec daemon --metrics 9464
  sudo fxtrec daemon --runtime-dir /tmp/trace --policy ./policy.toml")]
pub struct DaemonArgs {
    /// Directory of the sockets
    #[arg(long, value_name = "DIR", default_value = RUNTIME_DIR)]
    pub runtime_dir: PathBuf,

    /// Policy file: who may record what [default: /etc/fxtrec/policy.toml, if it exists]
    #[arg(long, value_name = "FILE", help = format!("Policy file: who may record what [default: {POLICY_PATH}, if it exists]"))]
    pub policy: Option<PathBuf>,

    /// Group whose users may connect to the control socket [default: fxtrec if that group exists, else root only]
    ///
    /// A name or a number. The policy says what they may record.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Directory for traces that cannot be sent yet, in unnamed files
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub spool_dir: PathBuf,

    /// Maximum size of those traces; a session that needs more is aborted
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    pub spool_limit: ByteSize,

    /// Count waits in the kernel, and serve them to Prometheus at http://ADDR/metrics
    ///
    /// ADDR is PORT, of this machine alone, or IP:PORT. The figures are histograms of run-queue wait, wake-up latency, slices
    /// and blocked time of each cgroup. Everybody who can connect can read them; docs/metrics.md says what they tell.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<MetricsAddress>,

    /// Keep the figures of each cgroup apart by the names of threads, which then everybody can read
    #[arg(long, requires = "metrics")]
    pub metrics_comm: bool,

    /// Maximum number of cgroups (and names) with figures of their own; the rest is told as one
    #[arg(long, value_name = "N", default_value_t = 200, requires = "metrics")]
    pub metrics_series: usize,

    /// Where the cgroups of the host are mounted, if not where this process sees its own
    #[arg(long, value_name = "DIR", requires = "metrics")]
    pub cgroup_root: Option<PathBuf>,
}
