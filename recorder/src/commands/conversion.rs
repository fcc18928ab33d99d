//! Shared by the commands that write traces from traces: convert, cut and merge.

use std::io::Write;
use std::path::Path;

use crate::convert::{ConvertError, Report};
use crate::kernel::terminal;
use crate::units::text::counted;

/// Refuses to write FXT to a terminal.
///
/// # Errors
/// `output` is standard output, and that is a terminal.
pub(super) fn refuse_terminal(output: &Path) -> Result<(), ConvertError> {
    match output == Path::new("-") && terminal::stdout_is_terminal() {
        true => Err(ConvertError::Terminal),
        false => Ok(()),
    }
}

/// Reports how many records were converted; `of` names their source, if needed. An output that is
/// closed early is not a failure.
///
/// # Errors
/// The error of `result`.
pub(super) fn tell(
    result: Result<Report, ConvertError>,
    of: &str,
    output: &Path,
    messages: Option<&mut dyn Write>,
) -> Result<(), ConvertError> {
    match (result, messages) {
        (Ok(report), Some(messages)) => {
            // If standard error is closed, the message is lost.
            let (records, path) = (counted(report.read, "record", "records"), output.display());
            let _ = write!(messages, "fxtrec: {records} {of}to {path}\n{report}");
            Ok(())
        }
        (Ok(_), None) => Ok(()),
        (Err(error), _) if error.is_broken_pipe() => Ok(()),
        (Err(error), _) => Err(error),
    }
}
