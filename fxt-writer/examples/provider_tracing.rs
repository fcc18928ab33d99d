//! An application that uses `tracing`: one line makes its spans appear next to the scheduler's events.
//!
//! ```sh
//! cargo build -p fxt-writer --features tracing --example provider_tracing
//! sudo fxtrec -o trace.fxt -- target/debug/examples/provider_tracing
//! ```

use std::error::Error;
use std::thread;
use std::time::Duration;

use tracing::{info, info_span, warn};

fn main() -> Result<(), Box<dyn Error>> {
    let _provider = fxt_writer::provider::tracing::init("tracing example")?;

    let _everything = info_span!("everything").entered();
    for number in 0..10 {
        let _step = info_span!("step", number).entered();
        info!(half = number / 2, "a step is taken");
        thread::sleep(Duration::from_millis(1));
    }
    warn!("there are no more steps");
    Ok(())
}
