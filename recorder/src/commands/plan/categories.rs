//! `--categories`: kernel categories act like the corresponding options; the rest is for applications.

use super::PlanError;
use crate::cli::RecordArgs;
use crate::control::categories::{KernelCategory, ProbeCategory, Selection};
use crate::units::glob::Pattern;

/// Enables the kernel categories; returns the application categories, empty for all.
pub(super) fn switch_on(args: &mut RecordArgs) -> Result<Vec<String>, PlanError> {
    let selection = Selection::of(std::mem::take(&mut args.providers.categories));
    let wanted = |category| selection.kernel.contains(&category);
    if wanted(KernelCategory::Own) {
        return Err(PlanError::OwnCategory);
    }
    args.waking |= wanted(KernelCategory::Waking);
    args.trace_points.irq |= wanted(KernelCategory::Irq);
    if wanted(KernelCategory::Syscall) {
        args.trace_points.syscalls.extend(Pattern::new("*"));
    }
    for probe in selection.probes {
        match probe {
            ProbeCategory::Spec(spec) => args.trace_points.probes.push(*spec),
            ProbeCategory::Named(name) => return Err(PlanError::NamedProbe(name)),
            ProbeCategory::Prefix(prefix) => {
                return Err(PlanError::NamedProbe(format!("{prefix}*")));
            }
        }
    }
    Ok(selection.applications)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    fn switched_on(words: &[&str]) -> (RecordArgs, Result<Vec<String>, String>) {
        let line = ["fxtrec", "record", "-a"].iter().chain(words).copied();
        let Ok(Command::Record(mut args)) = Cli::parse_line(line) else { panic!("{words:?}") };
        let reported = switch_on(&mut args).map_err(|error| error.to_string());
        (args, reported)
    }

    #[test]
    fn categories_of_the_kernel_are_the_same_as_the_options_for_them() {
        let (args, reported) =
            switched_on(&["--categories", "sched:waking,irq,net,syscall,uprobe:libc:malloc"]);
        assert!(args.waking && args.trace_points.irq);
        assert_eq!(args.trace_points.syscalls, [Pattern::new("*").expect("good")]);
        assert_eq!(args.trace_points.probes, ["libc:malloc".parse().expect("good")]);
        let reported = reported.expect("good");
        assert_eq!(reported, ["sched:waking", "irq", "net", "syscall", "uprobe"]);
    }

    #[test]
    fn options_stay_on_when_no_category_names_them() {
        let (args, reported) = switched_on(&["--waking", "--irq", "--categories", "net"]);
        assert!(args.waking && args.trace_points.irq);
        assert!(args.trace_points.syscalls.is_empty());
        assert_eq!(reported.expect("good"), ["net"]);
    }

    #[test]
    fn without_categories_applications_record_all_they_have() {
        let (args, reported) = switched_on(&[]);
        assert!(!args.waking && !args.trace_points.irq);
        assert!(reported.expect("good").is_empty());
    }

    #[test]
    fn a_probe_of_the_daemons_policy_is_unknown_to_a_recording() {
        for name in ["uprobe:render", "uprobe:*"] {
            let error = switched_on(&["--categories", name]).1.expect_err("refused");
            assert!(error.starts_with(name) && error.contains("or -P"), "{error}");
        }
    }
}
