//! The arguments of `fxtrec daemon`.

use std::path::PathBuf;

use clap::Args;

use crate::control::RUNTIME_DIR;
use crate::control::policy::POLICY_PATH;
use crate::units::quantity::ByteSize;

/// The arguments of `fxtrec daemon`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Applications find it at the socket 'providers' in the runtime directory, clients (fxtrec ctl, and whoever speaks
Varlink) at 'control'. Interface and protocol are in docs/sessions.md. Sockets that systemd passes are used instead.

Examples:
  sudo fxtrec daemon
  sudo fxtrec daemon --group tracers
  sudo fxtrec daemon --runtime-dir /tmp/trace --policy ./policy.toml")]
pub struct DaemonArgs {
    /// Where its sockets are
    #[arg(long, value_name = "DIR", default_value = RUNTIME_DIR)]
    pub runtime_dir: PathBuf,

    /// Who may record what [default: /etc/fxtrec/policy.toml, where that is]
    #[arg(long, value_name = "FILE", help = format!("Who may record what [default: {POLICY_PATH}, where that is]"))]
    pub policy: Option<PathBuf>,

    /// The group whose users may connect to the control socket [default: fxtrec, where there is one; else root alone]
    ///
    /// A name or a number. What they may record is for the policy to say.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Where traces wait that cannot be sent yet, in files without a name
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub spool_dir: PathBuf,

    /// The most that may wait there; a session that needs more is aborted
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    pub spool_limit: ByteSize,
}
