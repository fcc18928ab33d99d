//! From the bytes of a tracepoint to an event, by the descriptions that came with the trace.

use rustc_hash::FxHashMap;

use super::error::ImportError;
use super::tracing_data::Tracepoint;
use crate::capture::decode::{SwitchLayout, WakeLayout};
use crate::capture::event::{Kind, WakeKind};
use crate::capture::life::{LifeFormats, LifeLayout};
use crate::kernel::format::Format;

/// What the bytes of a tracepoint turned out to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    /// An event of the scheduler.
    Event(Kind),
    /// Another tracepoint, by its number.
    Other(u16),
    /// Too short for what it says it is.
    Damaged,
}

#[derive(Clone, Debug)]
enum Shape {
    Switch(Box<SwitchLayout>),
    Wake(WakeLayout),
}

/// The tracepoints of one trace that say something about the scheduler, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracepoints {
    shapes: FxHashMap<u16, Shape>,
    life: Option<LifeLayout>,
}

impl Tracepoints {
    /// Finds them among all that are described.
    pub(super) fn new(described: &[Tracepoint]) -> Result<Tracepoints, ImportError> {
        let mut shapes = FxHashMap::default();
        for Tracepoint { group, format } in described {
            let shape = match (group.as_str(), format.name.as_str()) {
                ("sched", "sched_switch") => Shape::Switch(Box::new(SwitchLayout::new(format)?)),
                ("sched", "sched_wakeup") => {
                    Shape::Wake(WakeLayout::new(format, WakeKind::Wakeup)?)
                }
                ("sched", "sched_wakeup_new") => {
                    Shape::Wake(WakeLayout::new(format, WakeKind::New)?)
                }
                ("sched", "sched_waking") => {
                    Shape::Wake(WakeLayout::new(format, WakeKind::Waking)?)
                }
                _ => continue,
            };
            if let Ok(id) = u16::try_from(format.id) {
                shapes.insert(id, shape);
            }
        }
        Ok(Tracepoints { shapes, life: life(described)? })
    }

    /// Whether there is a tracepoint that a scheduler trace can be made of.
    pub(super) fn has_switches(&self) -> bool {
        self.shapes.values().any(|shape| matches!(shape, Shape::Switch(_)))
    }

    /// What the bytes mean, which begin with the tracepoint's number.
    pub(super) fn decode(&self, raw: &[u8]) -> Meaning {
        let Some(id) = raw.first_chunk().map(|id| u16::from_ne_bytes(*id)) else {
            return Meaning::Damaged;
        };
        let kind = match self.shapes.get(&id) {
            Some(Shape::Switch(layout)) => layout.decode(raw),
            Some(Shape::Wake(layout)) => layout.decode(raw),
            None => match self.life.and_then(|layout| layout.decode(raw)) {
                Some(kind) => Some(kind),
                None => return Meaning::Other(id),
            },
        };
        kind.map_or(Meaning::Damaged, Meaning::Event)
    }
}

/// The tracepoints of threads that come and go, where all of them are described.
fn life(described: &[Tracepoint]) -> Result<Option<LifeLayout>, ImportError> {
    let find = |group: &str, name: &str| -> Option<Format> {
        let is_it = |point: &&Tracepoint| point.group == group && point.format.name == name;
        described.iter().find(is_it).map(|point| point.format.clone())
    };
    let all = (
        find("task", "task_newtask"),
        find("task", "task_rename"),
        find("sched", "sched_process_exit"),
    );
    match all {
        (Some(newtask), Some(rename), Some(exit)) => {
            Ok(Some(LifeLayout::new(&LifeFormats { newtask, rename, exit })?))
        }
        _ => Ok(None),
    }
}
