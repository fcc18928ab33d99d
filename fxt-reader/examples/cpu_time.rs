//! The CPU time of each thread, from its switches: `cargo run -p fxt-reader --example cpu_time -- app.fxt`.

use std::collections::HashMap;

use fxt_reader::record::IDLE_WEIGHT;
use fxt_reader::{Error, Koid, Names, Reader, Record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: cpu_time TRACE")?;
    let mut reader = Reader::open(path)?;
    let mut names = Names::default();
    // When each CPU's current thread was switched in, and the CPU time of each thread.
    let mut since = HashMap::new();
    let mut ran: HashMap<Koid, u64> = HashMap::new();
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                names.learn(&item.record);
                if let Record::ContextSwitch(switch) = item.record {
                    let begin = since.insert(switch.cpu, switch.time);
                    if let Some(begin) = begin
                        && switch.outgoing_weight() != Some(IDLE_WEIGHT)
                    {
                        *ran.entry(switch.outgoing).or_default() +=
                            switch.time.0.saturating_sub(begin.0);
                    }
                }
            }
            Ok(None) => break,
            // The next call continues after it.
            Err(Error::Damaged(damage)) => eprintln!("{damage}"),
            Err(error) => return Err(error.into()),
        }
    }
    let mut threads: Vec<_> = ran.into_iter().collect();
    threads.sort_by_key(|&(koid, nanos)| (std::cmp::Reverse(nanos), koid));
    for (koid, nanos) in threads {
        println!("{:>12.3} ms  {} ({})", nanos as f64 / 1e6, names.of(koid), koid.0);
    }
    Ok(())
}
