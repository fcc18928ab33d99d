//! Defaults of the user or of the machine: `config.toml`.
//!
//! ```toml
//! color = "never"
//! pager = "less -FRX"
//! source = "perf"
//! ring-size = "8M"
//! buffer-size = "16M"
//! ```
//!
//! The first file that exists is used: the user's own, else the machine's. The command line overrides it. A process of root reads root's
//! own file, even if the environment of sudo's caller points elsewhere: a planted file could name any program as the pager.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use nix::unistd::geteuid;

use crate::cli::{ColorWhen, Command, SourceChoice};
use crate::kernel::user::Account;
use crate::units::quantity::ByteSize;
use fxtrec_sessions::settings::{self, Problem, SettingsError};

/// The configuration file of the machine.
const OF_THE_MACHINE: &str = "/etc/fxtrec/config.toml";

const KEYS: [&str; 5] = ["color", "pager", "source", "ring-size", "buffer-size"];

const WHAT: &str = "configuration";

/// The file's settings; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The file.
    pub path: Option<PathBuf>,
    /// When to use colours.
    pub color: Option<ColorWhen>,
    /// The pager for long output; empty for none.
    pub pager: Option<String>,
    /// The source of events.
    pub source: Option<SourceChoice>,
    /// The size of each CPU's kernel ring.
    pub ring_size: Option<ByteSize>,
    /// The size of the trace buffer.
    pub buffer_size: Option<ByteSize>,
}

impl Config {
    /// Reads the user's file, or else the machine's.
    ///
    /// # Errors
    /// Returns an error if users other than the owner could have written the file, or it contains an error.
    pub fn find() -> Result<Config, SettingsError> {
        let user = geteuid().as_raw();
        let own = match user {
            0 => Account::by_uid(0).ok().map(|root| root.home.join(".config")),
            _ => own_folder(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME")),
        };
        let own = own.map(|folder| folder.join("fxtrec/config.toml"));
        Config::first(own.as_deref(), Path::new(OF_THE_MACHINE), user)
    }

    /// Reads `own`, or `general` if there is no such file. The files must belong to the user or root.
    fn first(own: Option<&Path>, general: &Path, user: u32) -> Result<Config, SettingsError> {
        let read = own.map(|path| Config::read(path, &[0, user]));
        match read {
            Some(Err(error)) if !is_out_of_reach(&error) => Err(error),
            Some(Ok(config)) => Ok(config),
            _ => match Config::read(general, &[0]) {
                Err(error) if is_out_of_reach(&error) => Ok(Config::default()),
                read => read,
            },
        }
    }

    fn read(path: &Path, owners: &[u32]) -> Result<Config, SettingsError> {
        let text = settings::read(WHAT, path, owners)?;
        let parsed = Config::parse(&text).map_err(|problem| problem.in_file(path, &text))?;
        Ok(Config { path: Some(path.to_owned()), ..parsed })
    }

    fn parse(text: &str) -> Result<Config, Problem> {
        let file = settings::parse(text)?;
        let file = file.get_ref();
        settings::check_keys(file, &KEYS)?;
        let text = |key: &str, what: &str| {
            let value = file.get(key);
            value.map(|value| Ok::<_, Problem>((value, settings::string(value, what)?))).transpose()
        };
        let color = text("color", "auto, always or never")?;
        let source = text("source", "auto, perf, ftrace or bpf")?;
        let size = |key: &str| {
            let Some((value, text)) = text(key, "a size, such as \"64M\"")? else {
                return Ok(None);
            };
            let size = text.parse::<ByteSize>();
            size.map(Some).map_err(|error| settings::at(value, format!("'{text}': {error}")))
        };
        let choice = |text: &str| format!("unknown value '{text}'");
        Ok(Config {
            path: None,
            color: color
                .map(|(value, text)| {
                    ColorWhen::from_str(text, false).map_err(|_| {
                        settings::at(value, choice(text) + "; expected auto, always or never")
                    })
                })
                .transpose()?,
            pager: text("pager", "a command, such as \"less -FRX\"")?
                .map(|(_, text)| text.to_owned()),
            source: source
                .map(|(value, text)| {
                    SourceChoice::from_str(text, false).map_err(|_| {
                        settings::at(value, choice(text) + "; expected auto, perf, ftrace or bpf")
                    })
                })
                .transpose()?,
            ring_size: size("ring-size")?,
            buffer_size: size("buffer-size")?,
        })
    }

    /// Applies the defaults to a recording's options that the command line does not set.
    pub fn apply(&self, command: &mut Command) {
        let Command::Record(args) = command else { return };
        args.source.choice = args.source.choice.or(self.source);
        args.ring_size = args.ring_size.or(self.ring_size);
        args.buffer_size = args.buffer_size.or(self.buffer_size);
    }
}

/// The user's configuration directory, according to the XDG Base Directory Specification.
fn own_folder(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))
}

/// Whether the file does not exist, or is in another user's directory, as HOME may be after su.
fn is_out_of_reach(error: &SettingsError) -> bool {
    let kinds = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];
    matches!(error, SettingsError::Read { source, .. } if kinds.contains(&source.kind()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;
    use crate::cli::Cli;

    fn problem(text: &str) -> String {
        Config::parse(text).expect_err("refused").in_file(Path::new("c"), text).to_string()
    }

    #[test]
    fn the_file_sets_what_the_command_line_leaves_open() {
        let text = "color = \"never\"\npager = \"\"\nsource = \"ftrace\"\nring-size = \"8M\"\nbuffer-size = \"16M\"\n";
        let config = Config::parse(text).unwrap_or_else(|problem| panic!("{problem:?}"));
        assert_eq!((config.color, config.pager.as_deref()), (Some(ColorWhen::Never), Some("")));
        let applied = |line: &[&str]| {
            let mut command = Cli::parse_line(line).expect("good");
            config.apply(&mut command);
            match command {
                Command::Record(args) => {
                    let size = |size: Option<ByteSize>| size.map(ByteSize::bytes);
                    (args.source.choice, size(args.ring_size), size(args.buffer_size))
                }
                other => panic!("{other:?}"),
            }
        };
        let (ring, buffer) = (Some(8 << 20), Some(16 << 20));
        assert_eq!(applied(&["fxtrec", "ls"]), (Some(SourceChoice::Ftrace), ring, buffer));
        let line = ["fxtrec", "--source", "auto", "--ring-size", "1M", "ls"];
        assert_eq!(applied(&line), (Some(SourceChoice::Auto), Some(1 << 20), buffer));
        assert_eq!(Config::parse("# nothing\n").expect("good"), Config::default());
    }

    #[test]
    fn mistakes_are_reported_with_their_place_and_what_was_meant() {
        let key = problem("color = \"auto\"\nbufer-size = \"1M\"\n");
        assert!(
            key.starts_with("c:2:1: unknown key 'bufer-size', did you mean 'buffer-size'?"),
            "{key}"
        );
        let value = problem("source = \"bfp\"\n");
        assert_eq!(value, "c:1:10: unknown value 'bfp'; expected auto, perf, ftrace or bpf");
        assert!(problem("ring-size = 8\n").starts_with("c:1:13: expected a size"));
        assert!(problem("ring-size = \"much\"\n").starts_with("c:1:13: 'much': "));
        assert!(problem("color = \"blue\"\n").contains("expected auto, always or never"));
        assert!(problem("pager = [\"less\"]\n").contains("expected a command"));
        assert!(problem("color =\n").starts_with("c:1:"));
    }

    #[test]
    fn the_users_own_file_goes_before_that_of_the_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, general) = (folder.path().join("own"), folder.path().join("general"));
        let user = geteuid().as_raw();
        let first = || Config::first(Some(&own), &general, user);
        assert_eq!(first().expect("no file is needed"), Config::default());
        fs::write(&own, "color = \"always\"\n").expect("room");
        assert_eq!(first().expect("good").path.as_ref(), Some(&own));
        fs::write(&own, "colour = \"always\"\n").expect("room");
        assert!(first().expect_err("a mistake").to_string().contains("did you mean 'color'?"));
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.toml");
        fs::write(&file, "pager = \"sh\"\n").expect("room");
        let user = geteuid().as_raw();
        let read = || Config::first(Some(&file), Path::new("/nowhere/at.all"), user);
        for mode in [0o620, 0o602, 0o666] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("its own file");
            assert!(matches!(read(), Err(SettingsError::Mode { .. })), "{mode:o}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its own file");
        assert_eq!(read().expect("good").pager.as_deref(), Some("sh"));
        if user == 0 {
            chown(&file, Some(65_533), None).expect("root may");
            assert!(matches!(read(), Err(SettingsError::Owner { uid: 65_533, .. })));
        }
    }

    #[test]
    fn the_folder_is_that_of_xdg_and_relative_ones_are_ignored() {
        let folder = |xdg: Option<&str>, home: Option<&str>| {
            own_folder(xdg.map(OsString::from), home.map(OsString::from))
        };
        assert_eq!(folder(Some("/x"), Some("/home/me")), Some("/x".into()));
        assert_eq!(folder(Some("x"), Some("/home/me")), Some("/home/me/.config".into()));
        assert_eq!(folder(None, Some("")), None);
    }
}
