//! An application whose own spans appear next to the scheduler's events.
//!
//! ```sh
//! cargo build -p fxt-writer --features provider --example provider
//! sudo fxtrec -o trace.fxt -- target/debug/examples/provider
//! ```

use std::error::Error;
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fxt_writer::provider::{self, counter, duration, flow_begin, flow_end, instant, log};

fn main() -> Result<(), Box<dyn Error>> {
    let _provider =
        provider::Builder::new("example").category("app").category("app:work").init()?;

    let _everything = duration!("app", "everything", threads = 2);
    let (jobs, inbox) = mpsc::channel();
    let worker = thread::Builder::new().name("worker".into()).spawn(move || {
        for (number, flow) in inbox {
            let _job = duration!("app:work", "job", number = number);
            flow_end!("app:work", "job", flow);
            let sum = (0..200_000_u64).fold(number, |sum, value| sum ^ black_box(value));
            instant!("app:work", "result", sum = sum);
        }
    })?;
    for number in 0..20_u64 {
        let _request = duration!("app", "request", number = number);
        let flow = provider::unique_id();
        flow_begin!("app:work", "job", flow);
        counter!("app", "requests", sent = number + 1);
        jobs.send((number, flow))?;
        thread::sleep(Duration::from_millis(2));
    }
    drop(jobs);
    worker.join().map_err(|_| "the worker has panicked")?;
    log!("app", "{} requests are through", 20);
    Ok(())
}
