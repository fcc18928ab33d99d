//! Where threads of the critical path were blocked: on which lock, and where in their code.

use std::cmp::Reverse;

use fxt_reader::Koid;
use fxtrec_blame::chain::{Blocked, Ended, Frame, Step, What};
use fxtrec_blame::parts::{EndedBy, ended_by};
use fxtrec_blame::track::{By, Lock};
use fxtrec_report::stacks::{Recorded, Runtime, Stack};
use fxtrec_sched::backtrace::PROBLEMS;

use crate::answer::Wait;
use crate::explain::{Names, blame};

/// Maximum number of waits listed, the longest first.
const MOST: usize = 64;

/// The waits of a frame and of the frames inside it.
pub(crate) fn waits(frame: &Frame, names: &Names<'_>) -> Vec<Wait> {
    longest(frame)
        .into_iter()
        .map(|(depth, frame, step, blocked)| wait(depth, frame, step, blocked, names))
        .collect()
}

/// The runtimes whose functions have no names in the stacks of these waits.
pub(crate) fn nameless_runtimes(frame: &Frame, names: &Names<'_>) -> Vec<Runtime> {
    let Some(recorded) = &names.stacks else { return Vec::new() };
    let found = longest(frame).into_iter().filter_map(|(_, frame, step, blocked)| {
        let (own, waker) = stack(recorded, frame, step, blocked, names)?;
        Some([Some(own), waker])
    });
    recorded.nameless_runtimes(found.flatten().flatten())
}

fn longest(frame: &Frame) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    collect(frame, 0, &mut found);
    found.sort_by_key(|(depth, _, step, _)| (Reverse(step.length()), *depth, step.from));
    found.truncate(MOST);
    found
}

/// The stack of a wait, and that of its waker.
fn stack<'a>(
    recorded: &'a Recorded,
    frame: &Frame,
    step: &Step,
    blocked: &Blocked,
    names: &Names<'_>,
) -> Option<(&'a Stack, Option<&'a Stack>)> {
    let koid = names.tracker.known_threads.koid(frame.thread);
    let until = match blocked.ended {
        Ended::NotYet => u64::MAX,
        Ended::Woken(_) => step.to,
    };
    recorded.of_wait(Koid(koid), (blocked.since, until))
}

type Found<'a> = (usize, &'a Frame, &'a Step, &'a Blocked);

fn collect<'a>(frame: &'a Frame, depth: usize, found: &mut Vec<Found<'a>>) {
    for step in &frame.steps {
        let What::Blocked(blocked) = &step.what else { continue };
        found.push((depth, frame, step, blocked));
        if let Some(inside) = &blocked.inside {
            collect(inside, depth + 1, found);
        }
    }
}

fn wait(depth: usize, frame: &Frame, step: &Step, blocked: &Blocked, names: &Names<'_>) -> Wait {
    let waker = match blocked.ended {
        Ended::Woken(By::Thread(waker)) => Some(waker),
        _ => None,
    };
    let stacks = names.stacks.as_ref();
    let found = stacks.and_then(|it| Some((it, stack(it, frame, step, blocked, names)?)));
    let lacks = found.map_or(0, |(_, (stack, _))| stack.problems);
    Wait {
        from_ns: step.from,
        to_ns: step.to,
        depth,
        thread: names.who(frame.thread),
        class: names.class(blocked).name(),
        syscall: blocked.syscall.map(|number| names.syscall(number)),
        object: names.object(names.tracker.known_threads.koid(frame.thread), step, blocked),
        futex: blocked.lock.and_then(Lock::futex).map(|address| format!("{address:#x}")),
        owner: blocked.lock.and_then(Lock::holder).map(|owner| names.who(owner)),
        end_of: blocked.lock.and_then(Lock::ending).map(|thread| names.who(thread)),
        kernel_lock: blocked.lock.and_then(Lock::kernel_id).map(|id| format!("{id:#x}")),
        kernel_lock_kind: blocked.lock.and_then(|lock| Some(lock.kernel?.name())),
        kernel_lock_name: names.kernel_lock(blocked),
        owner_blame: blocked.holder.as_deref().map(|frame| blame(frame, names)),
        ended_by: ended_by(EndedBy::of(blocked.ended)),
        interrupt: match blocked.ended {
            Ended::Woken(By::Interrupt(origin)) => Some(names.interrupt(origin)),
            _ => None,
        },
        waker: waker.map(|waker| names.who(waker)),
        request: match blocked.ended {
            Ended::Woken(By::Interrupt(origin)) => {
                blocked.request.map(|request| names.request(request, origin, (step.from, step.to)))
            }
            _ => None,
        },
        via: blocked.sent.map(|_| "packet"),
        waker_ended: waker.is_some_and(|waker| names.ended_then(waker, step.to)),
        stack: found.map(|(recorded, (stack, _))| functions(recorded, stack)),
        stack_lacks: PROBLEMS.iter().filter(|it| lacks & it.0 != 0).map(|it| it.1).collect(),
        waker_stack: found.and_then(|(recorded, (_, wake))| Some(functions(recorded, wake?))),
    }
}

fn functions(recorded: &Recorded, stack: &Stack) -> Vec<String> {
    let name = |frame: fxtrec_report::stacks::Frame<'_>| match frame.in_kernel {
        true => format!("{}_[k]", frame.label()),
        false => frame.label(),
    };
    recorded.frames(stack).map(name).collect()
}
