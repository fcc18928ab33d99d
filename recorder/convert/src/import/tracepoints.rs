//! Decodes the raw data of tracepoints, by the descriptions in the trace.

use rustc_hash::FxHashMap;

use super::error::ImportError;
use super::tracing_data::Tracepoint;
use fxtrec_capture::event::{Kind, WakeKind};
use fxtrec_capture::life::{LifeFormats, LifeLayout};
use fxtrec_capture::sched::{SwitchLayout, WakeLayout};
use fxtrec_kernel::format::Format;
use fxtrec_units::Tid;

/// The meaning of a tracepoint's raw data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    /// A scheduler event.
    Event(Kind),
    /// Another tracepoint: its index among the described ones, and the thread that had the CPU.
    Other(usize, Tid),
    /// A tracepoint without a description.
    Unknown,
    /// Raw data that is too short.
    Damaged,
}

#[derive(Clone, Debug)]
enum Shape {
    Switch(Box<SwitchLayout>),
    Wake(WakeLayout),
}

/// The scheduler tracepoints of a trace, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracepoints {
    shapes: FxHashMap<u16, Shape>,
    life: Option<LifeLayout>,
    others: FxHashMap<u16, Other>,
}

#[derive(Clone, Copy, Debug)]
struct Other {
    /// Its index among the described ones.
    place: usize,
    /// The offset of the number of the thread that had the CPU.
    current: usize,
}

impl Tracepoints {
    /// Finds them among the described tracepoints.
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

    /// Whether the trace has the tracepoints that a scheduler trace requires.
    pub(super) fn has_switches(&self) -> bool {
        self.shapes.values().any(|shape| matches!(shape, Shape::Switch(_)))
    }

    /// Decodes raw data, which begins with the tracepoint's number.
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

/// The tracepoints for the creation and exit of threads, if all of them are described.
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
