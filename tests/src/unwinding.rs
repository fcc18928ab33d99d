//! Tests of stacks that are unwound by registers, and of kernels that do not provide them.

use crate::machine;
use crate::root::may_record;
use crate::skip::skip;
use crate::tools;

/// The first version in which the stack of a program is recorded with its registers.
const SINCE: (u32, u32) = (6, 15);

/// Whether a test that unwinds stacks, and needs these tools for its programs, can run; prints a message if not.
///
/// # Panics
/// When it cannot, and the variable `CI` is set.
pub fn may_unwind(tools: &[&str]) -> bool {
    if !may_record() || !tools::or_skip(tools) {
        return false;
    }
    if machine::release() < SINCE {
        skip("this kernel has no tracepoint behind a switch");
        return false;
    }
    true
}
