//! The arguments of `fxtrec daemon`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::daemon::{Alert, MetricsAddress};
use crate::control::RUNTIME_DIR;
use crate::control::policy::POLICY_PATH;
use crate::units::quantity::{ByteSize, TimeSpan};

/// The arguments of `fxtrec daemon`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Applications connect to the socket 'providers' in the runtime directory, clients (fxtrec ctl, and others that speak \
Varlink) to 'control'. If systemd passes sockets, the daemon uses those. docs/reference/sessions.md describes the protocol.

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
    /// A name or a numeric id. The policy determines what its users may record.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Directory for traces that cannot be sent yet, in unnamed files
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub spool_dir: PathBuf,

    /// Maximum size of those traces; a session that needs more is aborted
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    pub spool_limit: ByteSize,

    /// Count waits in the kernel, and serve the counts to Prometheus at http://ADDR/metrics
    ///
    /// ADDR is PORT (reachable only from this machine) or IP:PORT. The figures are histograms of run-queue wait, wakeup latency, slice
    /// length and blocked time for each cgroup. Everyone who can connect can read them; docs/reference/metrics.md says what they reveal.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<MetricsAddress>,

    /// Add the label `comm`, the name of the thread; everyone who can connect sees these names
    #[arg(long, requires = "metrics")]
    pub metrics_comm: bool,

    /// Maximum number of cgroups (or pairs of cgroup and thread name) with their own figures; the others are added up as `other`
    #[arg(long, value_name = "N", default_value_t = 200, requires = "metrics")]
    pub metrics_series: usize,

    /// Keep the last seconds in memory, and write them to a file when this condition is met; can be given more than once
    ///
    /// A trigger, as for `fxtrec record`: 'runqueue > 20ms if cgroup ~ "/kubepods*"'. With --metrics, also a statistic of what the kernel
    /// has counted since the last check: 'wakeup.p99 > 5ms if cgroup ~ "/kubepods*"', for wakeup, preempt, runqueue, slice, blocked and
    /// blocked_d (count, sum, mean, p50, p90, p99, p99.9, max), steal and throttled (count, sum). The files are DIR/alert-*.fxt.zst.
    #[arg(long = "alert", value_name = "EXPR", requires = "alert_dir")]
    pub alerts: Vec<Alert>,

    /// Directory for the files that alerts write
    #[arg(long, value_name = "DIR", requires = "alerts")]
    pub alert_dir: Option<PathBuf>,

    /// How often statistics are checked
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "alerts")]
    pub alert_every: TimeSpan,

    /// Minimum time between two files
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "alerts")]
    pub alert_interval: TimeSpan,

    /// Maximum total size of the alert files in the directory; the oldest are removed first, the newest is always kept
    #[arg(long, value_name = "SIZE", default_value = "1G", requires = "alerts")]
    pub alert_budget: ByteSize,

    /// Memory that holds the last seconds
    #[arg(long, value_name = "SIZE", default_value = "64M", requires = "alerts")]
    pub alert_buffer: ByteSize,

    /// Count the incidents of the machine by cause, as `fxtrec watch` finds them: units of work that took at least this much longer than
    /// usual
    #[arg(long, value_name = "TIME", requires = "metrics")]
    pub incidents: Option<TimeSpan>,

    /// Where the host's cgroups are mounted, if not at this process's own cgroup mount
    #[arg(long, value_name = "DIR", requires = "metrics")]
    pub cgroup_root: Option<PathBuf>,
}
