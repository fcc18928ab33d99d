//! The arguments of `fxtrec daemon`.

use std::path::PathBuf;

use clap::Args;

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
}
