//! Values of options that are looked up at completion time: process ids, users, tracepoints, and the probe names of a program or library.

use std::io;

use crate::cli::Shell;

/// Beginnings of option lines in zsh's completions, and the functions that look up their values.
const ZSH: [(&[&str], &str); 5] = [
    (&["-p+[", "--pid=["], "_fxtrec_pids"),
    (&["-u+[", "--user=["], "_fxtrec_users"),
    (&["-e+[", "--event=["], "_fxtrec_events"),
    (&["-P+[", "--probe=["], "_fxtrec_probes"),
    (&["--categories=["], "_fxtrec_categories"),
];

/// The completions that clap generates, with these values added.
///
/// # Errors
/// Returns an error if a new version of clap generates a script to which they cannot be added.
pub(super) fn add(shell: Shell, script: String) -> io::Result<String> {
    match shell {
        // They run before clap's function.
        Shell::Bash => Ok(script + include_str!("values.bash")),
        Shell::Zsh => add_to_zsh(&script),
        // Another line for an option adds to its values.
        Shell::Fish => Ok(script + include_str!("values.fish")),
    }
}

fn add_to_zsh(script: &str) -> io::Result<String> {
    let mut changed = [false; ZSH.len()];
    let mut added = String::new();
    for line in script.lines() {
        let option = line.trim_start().trim_start_matches(['\'', '*']);
        let known = ZSH
            .iter()
            .position(|(options, _)| options.iter().any(|beginning| option.starts_with(beginning)));
        match (known, line.split_once(":_default'")) {
            (Some(at), Some((before, after))) => {
                changed[at] = true;
                added.extend([before, ":", ZSH[at].1, "'", after]);
            }
            _ => added.push_str(line),
        }
        added.push('\n');
    }
    // The functions precede the script's own function, which is called at the end of the script.
    let own = added.find("_fxtrec() {").filter(|_| changed == [true; ZSH.len()]);
    let Some(own) = own else {
        return Err(io::Error::other("clap's completions for zsh have an unexpected form"));
    };
    added.insert_str(own, include_str!("values.zsh"));
    Ok(added)
}
