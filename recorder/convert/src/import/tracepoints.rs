//! From the bytes of a tracepoint to an event, by the descriptions that came with the trace.

use rustc_hash::FxHashMap;

use super::error::ImportError;
use super::tracing_data::Tracepoint;
use fxtrec_capture::event::{Kind, WakeKind};
use fxtrec_capture::life::{LifeFormats, LifeLayout};
use fxtrec_capture::sched::{SwitchLayout, WakeLayout};
use fxtrec_kernel::format::Format;
use fxtrec_units::Tid;

/// What the bytes of a tracepoint turned out to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    /// An event of the scheduler.
    Event(Kind),
    /// Another tracepoint: its place among those that are described, and the thread that had the CPU.
    Other(usize, Tid),
    /// One that is not described.
    Unknown,
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
    others: FxHashMap<u16, Other>,
}

#[derive(Clone, Copy, Debug)]
struct Other {
    /// Its place among those that are described.
    place: usize,
    /// Where the number of the thread that had the CPU is.
    current: usize,
}

impl Tracepoints {
    /// Finds them among all that are described.
    pub(super) fn new(described: &[Tracepoint]) -> Result<Tracepoints, ImportError> {
        let mut shapes = FxHashMap::default();
        let mut others = FxHashMap::default();
        for (place, Tracepoint { group, format }) in described.iter().enumerate() {
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
                _ => {
                    let current = format.find("common_pid").filter(|field| field.size == 4);
                    if let (Ok(id), Some(current)) = (u16::try_from(format.id), current) {
                        others.insert(id, Other { place, current: current.offset });
                    }
                    continue;
                }
            };
            if let Ok(id) = u16::try_from(format.id) {
                shapes.insert(id, shape);
            }
        }
        Ok(Tracepoints { shapes, life: life(described)?, others })
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
                None => return self.other(id, raw),
            },
        };
        kind.map_or(Meaning::Damaged, Meaning::Event)
    }
}

impl Tracepoints {
    fn other(&self, id: u16, raw: &[u8]) -> Meaning {
        let Some(other) = self.others.get(&id) else { return Meaning::Unknown };
        let current = raw.get(other.current..).and_then(|bytes| bytes.first_chunk());
        current.map_or(Meaning::Damaged, |tid| {
            Meaning::Other(other.place, Tid(u32::from_ne_bytes(*tid)))
        })
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
