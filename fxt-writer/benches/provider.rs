//! The cost of a trace point to an application: without a session, with one, and
//! in a category that is off; compared with the crate `tracing` with this crate's
//! layer and with the layer of `tracing-chrome`, in the same run.
//!
//! ```sh
//! cargo bench -p fxt-writer --features tracing --bench provider
//! ```
//!
//! Each operation is a whole span: begin and end. The cost of the two clock reads
//! alone is measured, too. The session is in circular mode, so that nothing must
//! be saved and nothing is dropped.

use std::hint::black_box;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use fxt_writer::Koid;
use fxt_writer::engine::{BufferDisposition, Mode};
use fxt_writer::provider::wire::{FromManager, MAX_MESSAGE_BYTES, Session, Start};
use fxt_writer::provider::{self, Provider, duration, instant};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind,
    listen, recv, sendmsg, socket, socketpair,
};
use tracing_subscriber::layer::SubscriberExt;

const BUFFER_BYTES: u64 = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// A manager that starts one session and does nothing else.
struct Manager {
    listener: OwnedFd,
    address: String,
    provider: Option<(OwnedFd, OwnedFd)>,
}

impl Manager {
    fn listen() -> io::Result<Self> {
        let name = format!("fxt-bench-{}", std::process::id());
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        bind(listener.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        listen(&listener, Backlog::new(1)?)?;
        Ok(Self { listener, address: format!("@{name}"), provider: None })
    }

    /// Starts a session for these categories with the provider that connects.
    fn start(&mut self, categories: &[&str]) -> io::Result<()> {
        let control = accept(self.listener.as_raw_fd())?;
        // SAFETY: just made by the kernel for us.
        let control = unsafe { OwnedFd::from_raw_fd(control) };
        recv(control.as_raw_fd(), &mut vec![0; MAX_MESSAGE_BYTES], MsgFlags::empty())?;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let buffer = std::fs::File::from(memfd_create(c"buffer", flags)?);
        buffer.set_len(BUFFER_BYTES)?;
        fcntl(&buffer, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let (fifo, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        let start = Start {
            mode: Mode::Circular,
            disposition: BufferDisposition::ClearEntire,
            buffer_bytes: BUFFER_BYTES,
            process: Koid(u64::from(std::process::id())),
            categories: categories.iter().copied().map(String::from).collect(),
        };
        let session = Session::new(1).ok_or(io::ErrorKind::InvalidInput)?;
        let message = FromManager::Start { session, start }.encode().map_err(io::Error::other)?;
        let descriptors = [buffer.as_raw_fd(), theirs.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let bytes = [IoSlice::new(&message)];
        sendmsg::<()>(control.as_raw_fd(), &bytes, &rights, MsgFlags::empty(), None)?;
        self.provider = Some((control, fifo));
        Ok(())
    }
}

fn become_provider(manager: &Manager) -> Provider {
    provider::Builder::new("bench").address(&*manager.address).init().expect("a provider")
}

/// The minimum for every span: two reads of the clock.
fn clock(c: &mut Criterion) {
    c.bench_function("two reads of the clock", |b| {
        b.iter(|| (black_box(Instant::now()), black_box(Instant::now())));
    });
}

/// Spans and instants of the macros.
fn macros(c: &mut Criterion, session: &str) {
    let mut group = c.benchmark_group(format!("macros, {session}"));
    group.bench_function("duration", |b| {
        b.iter(|| {
            let _span = duration!("bench", "span");
        });
    });
    group.bench_function("duration with two arguments", |b| {
        b.iter(|| {
            let _span = duration!("bench", "span", number = black_box(7), yes = true);
        });
    });
    group.bench_function("duration, category off", |b| {
        b.iter(|| {
            let _span = duration!("off", "span");
        });
    });
    group.bench_function("instant", |b| b.iter(|| instant!("bench", "moment")));
    group.finish();
}

/// A span of `tracing` under a subscriber; the callsite is this function's own for
/// each layer, since callsites cache which layers are interested.
macro_rules! traced {
    ($group:expr, $name:literal, $layer:expr) => {{
        let subscriber = tracing_subscriber::registry().with($layer);
        tracing::subscriber::with_default(subscriber, || {
            $group.bench_function($name, |b| {
                b.iter(|| {
                    let _span = tracing::info_span!(target: "bench", "span").entered();
                });
            });
            $group.bench_function(concat!($name, ", two fields"), |b| {
                b.iter(|| {
                    let number = black_box(7);
                    let _span =
                        tracing::info_span!(target: "bench", "span", number, yes = true).entered();
                });
            });
        });
    }};
}

fn tracing_layers(c: &mut Criterion, session: &str) {
    let mut group = c.benchmark_group(format!("tracing, {session}"));
    // tracing-chrome keeps data in memory that it has not written yet.
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    group.sample_size(20);
    traced!(group, "span, provider's layer", provider::tracing::layer());
    let (chrome, guard) = tracing_chrome::ChromeLayerBuilder::new().writer(io::sink()).build();
    traced!(group, "span, tracing-chrome", chrome);
    drop(guard);
    group.finish();
}

fn trace_points(c: &mut Criterion) {
    let mut manager = Manager::listen().expect("a socket");
    let app = become_provider(&manager);
    macros(c, "no session");
    tracing_layers(c, "no session");
    manager.start(&["bench"]).expect("a session");
    assert!(app.wait_for_session(PATIENCE), "the session has begun");
    clock(c);
    macros(c, "in a session");
    tracing_layers(c, "in a session");
    assert!(app.is_recording(), "to the end");
}

criterion_group!(benches, trace_points);
criterion_main!(benches);
