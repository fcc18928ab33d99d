//! The completed spans of each thread, with their arguments: `cargo run -p fxt-reader --example spans -- app.fxt`.

use std::collections::HashMap;

use fxt_reader::record::EventKind;
use fxt_reader::{Error, Koid, Names, Nanos, Reader, Record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: spans TRACE")?;
    let mut reader = Reader::open(path)?;
    let mut names = Names::default();
    // The open spans of each thread, innermost last: beginning, name and arguments.
    let mut open: HashMap<Koid, Vec<(Nanos, String)>> = HashMap::new();
    loop {
        let item = match reader.next() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(()),
            Err(Error::Damaged(damage)) => {
                eprintln!("{damage}");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        names.learn(&item.record);
        let Record::Event(event) = item.record else { continue };
        let thread = event.thread.thread;
        let title = || {
            let args = event.args.iter().map(|arg| format!(" {}={:?}", arg.name, arg.value));
            format!("{}:{}{}", event.category, event.name, args.collect::<String>())
        };
        let ended = match event.kind {
            EventKind::DurationBegin => {
                open.entry(thread).or_default().push((event.time, title()));
                continue;
            }
            EventKind::DurationEnd => {
                open.get_mut(&thread).and_then(Vec::pop).map(|it| (it, event.time))
            }
            EventKind::DurationComplete { end } => Some(((event.time, title()), end)),
            _ => None,
        };
        if let Some(((begin, title), end)) = ended {
            let length = Nanos(end.0.saturating_sub(begin.0));
            println!("{begin}  {length}  {} ({})  {title}", names.of(thread), thread.0);
        }
    }
}
