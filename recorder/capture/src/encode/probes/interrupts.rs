//! The interrupts that are open on each CPU, and the pseudo-threads on which they are shown.
//!
//! An interrupt belongs to no thread: it delays whichever thread is on the CPU. So each CPU gets a pseudo-thread in the trace, in a process
//! called `interrupts`.

use fxt_writer::{Koid, Text};

use fxtrec_units::Cpu;

/// The process of the pseudo-threads. Its koid is greater than every tid of the first generations, and than the ids of processes of inner
/// pid namespaces, but within the 32 bits that readers keep.
pub const PROCESS: Koid = Koid(0xc000_0000);

/// The pseudo-thread of a CPU.
pub fn thread_of(cpu: Cpu) -> Koid {
    Koid(PROCESS.0 + 1 + u64::from(cpu.0))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A device's, by its number.
    Hard(i64),
    /// A soft interrupt, identified by its vector.
    Soft(i64),
    /// An interrupt between CPUs or of a single CPU, by its index in the catalog.
    Vector(u16),
}

/// The name of an interrupt's handler. The kernel reports it only at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Known(Text<'static>),
    /// Up to 63 bytes of text.
    Copied([u8; 63], u8),
}

impl Name {
    /// Keeps a name, truncated to 63 bytes.
    pub fn copied(name: &str) -> Name {
        let mut bytes = [0; 63];
        let mut end = name.len().min(bytes.len());
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        Name::Copied(bytes, end as u8)
    }

    /// The text of a copied name; empty for a registered one.
    pub fn own_text(&self) -> String {
        match self.text() {
            Text::Inline(text) => text.to_owned(),
            _ => String::new(),
        }
    }

    /// The name in the form that records take.
    pub fn text(&self) -> Text<'_> {
        match self {
            Name::Known(text) => *text,
            Name::Copied(bytes, len) => {
                let bytes = &bytes[..usize::from(*len)];
                Text::Inline(std::str::from_utf8(bytes).unwrap_or("?"))
            }
        }
    }
}

/// An interrupt that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub line: Line,
    /// The category of its begin.
    pub category: Text<'static>,
    /// The name of its begin.
    pub name: Name,
}

#[derive(Clone, Debug, Default)]
pub struct CpuInterrupts {
    /// Whether the trace has the pseudo-thread's name.
    pub named: bool,
    /// The open interrupts of the CPU, the outermost first.
    pub open: Vec<Open>,
}

impl CpuInterrupts {
    /// The number of open interrupts, counted from the innermost, that must have ended when this one begins.
    ///
    /// Hard interrupts interrupt soft ones. No interrupt interrupts another of the same kind, and a soft one waits for hard ones.
    pub fn ended_by(&self, line: Line) -> usize {
        let lasts = |open: &&Open| {
            matches!(open.line, Line::Soft(_)) && !matches!(line, Line::Soft(_))
                || matches!(open.line, Line::Vector(_)) && matches!(line, Line::Hard(_))
        };
        self.open.iter().rev().take_while(|open| !lasts(open)).count()
    }

    /// The number of open interrupts inside the one that ends now; `None` if its beginning was not recorded.
    pub fn inside_of(&self, line: Line) -> Option<usize> {
        self.open.iter().rev().position(|open| open.line == line)
    }
}

#[derive(Debug, Default)]
pub struct Interrupts(Vec<CpuInterrupts>);

impl Interrupts {
    pub fn of(&mut self, cpu: Cpu) -> &mut CpuInterrupts {
        let at = cpu.0 as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, CpuInterrupts::default);
        }
        &mut self.0[at]
    }

    /// The CPUs whose pseudo-threads are in the trace.
    pub fn named(&self) -> impl Iterator<Item = Cpu> {
        let cpus = (0..).map(Cpu).zip(&self.0);
        cpus.filter(|(_, interrupts)| interrupts.named).map(|(cpu, _)| cpu)
    }

    /// The CPUs with open interrupts.
    pub fn open(&self) -> Vec<Cpu> {
        self.all().map(|(cpu, _)| cpu).collect()
    }

    /// For each CPU with open interrupts: these interrupts, the outermost first.
    pub fn all(&self) -> impl Iterator<Item = (Cpu, &[Open])> {
        let cpus = (0..).map(Cpu).zip(&self.0);
        let open = cpus.map(|(cpu, interrupts)| (cpu, interrupts.open.as_slice()));
        open.filter(|(_, open)| !open.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(lines: &[Line]) -> CpuInterrupts {
        let open = |line: &Line| Open {
            line: *line,
            category: Text::EMPTY,
            name: Name::Known(Text::EMPTY),
        };
        CpuInterrupts { named: true, open: lines.iter().map(open).collect() }
    }

    #[test]
    fn a_hard_interrupt_is_inside_of_a_soft_one_and_not_the_other_way_round() {
        assert_eq!(inside(&[Line::Soft(1)]).ended_by(Line::Hard(9)), 0);
        assert_eq!(inside(&[Line::Soft(1)]).ended_by(Line::Vector(0)), 0);
        assert_eq!(inside(&[Line::Hard(9)]).ended_by(Line::Soft(1)), 1);
        assert_eq!(inside(&[Line::Hard(9)]).ended_by(Line::Hard(8)), 1);
        assert_eq!(inside(&[Line::Soft(1), Line::Hard(9)]).ended_by(Line::Soft(2)), 2);
    }

    #[test]
    fn an_end_is_that_of_the_same_interrupt() {
        let cpu = inside(&[Line::Soft(1), Line::Hard(9)]);
        assert_eq!(cpu.inside_of(Line::Hard(9)), Some(0));
        assert_eq!(cpu.inside_of(Line::Soft(1)), Some(1));
        assert_eq!(cpu.inside_of(Line::Hard(1)), None);
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let name = format!("{}é", "x".repeat(62));
        assert_eq!(Name::copied(&name).text(), Text::Inline(&"x".repeat(62)));
        assert_eq!(Name::copied("eth0").text(), Text::Inline("eth0"));
    }
}
