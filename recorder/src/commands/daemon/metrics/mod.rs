//! `fxtrec daemon --metrics`: serves the kernel's counts to Prometheus and compatible scrapers.
//!
//! ```text
//!   a scraper --> one thread: request --> tables of the kernel, emptied into the ledger --> families --> text or protobuf
//! ```
//!
//! One thread answers all requests without blocking on any peer: a peer has a few seconds to send its request and to read the response.
//! Requests within a short time get the same response: see [`rendered`]. Hand-written, as in `fxtrec open`: the small HTTP crates are
//! unmaintained.

mod families;
mod format;
mod ledger;
mod peers;
mod protobuf;
mod rendered;
mod text;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::ParseIntError;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ledger::Ledger;

use super::alerts::{AlertFiles, FigureAlerts, ForMetrics};
use super::incidents;
use crate::commands::http::Request;
use crate::commands::live::{self, LiveError, groups::Groups};
use crate::kernel::bpf::counts::{KeyBy, SchedCounts};
use crate::kernel::stop_token::StopToken;
use families::CountedFacts;
use format::Format;
use peers::Peers;
use rendered::Rendered;

/// How often to empty the kernel's tables if no scrape does, because their counters have 32 bits.
const PERIOD: Duration = Duration::from_secs(60);

/// How long to wait before accepting new connections when there are no resources to serve them.
const DEAF: Duration = Duration::from_millis(200);

/// Maximum number of slots of a table: cgroups that run threads between two scrapes.
const SLOTS: usize = 512;

/// Where to listen. A port without an address listens on the loopback address only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress(pub SocketAddr);

/// Text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    #[error("expected PORT, or IP:PORT as in 127.0.0.1:9464")]
    Form,
    #[error("not a port: {0}")]
    Port(#[from] ParseIntError),
}

impl FromStr for MetricsAddress {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<MetricsAddress, NoAddress> {
        if let Ok(address) = text.parse() {
            return Ok(MetricsAddress(address));
        }
        let port = text.strip_prefix(':').unwrap_or(text);
        match port.contains(':') || port.starts_with('[') || port.contains('.') {
            true => Err(NoAddress::Form),
            false => Ok(MetricsAddress((Ipv4Addr::LOCALHOST, port.parse()?).into())),
        }
    }
}

/// What is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) address: SocketAddr,
    /// Whether thread names are exported.
    pub(super) names: bool,
    /// The most sets of labels.
    pub(super) most_series: usize,
    /// Where the hierarchy with all cgroups is mounted.
    pub(super) cgroup_root: Option<PathBuf>,
    /// Alerts to check in addition.
    pub(super) alerts: Option<ForMetrics>,
    /// The incidents, if they are counted.
    pub(super) incidents: Option<incidents::Counts>,
}

/// The reason why there are no metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("cannot listen on {address}: {source}; choose another address with --metrics")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot start the thread for metrics: {0}")]
    Thread(io::Error),
}

/// The thread that answers requests. Dropping this ends the thread.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) address: SocketAddr,
    stop: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.stop();
        // The thread has already reported its panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Makes the kernel count, and answers scrapes.
pub(super) fn start(wanted: Wanted) -> Result<Metrics, MetricsError> {
    let failed = |source| MetricsError::Listen { address: wanted.address, source };
    let listener = TcpListener::bind(wanted.address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let key = if wanted.names { KeyBy::CgroupAndName } else { KeyBy::Cgroup };
    let (hierarchy, groups) = Groups::new(wanted.cgroup_root);
    let counts = live::start(key, hierarchy, SLOTS)?;
    let ledger = Ledger::new(groups, wanted.most_series);
    let stop = StopToken::new().map_err(MetricsError::Thread)?;
    let (alerts, files) = wanted.alerts.unzip();
    let alerts = alerts.flatten();
    let (rendered, stop_server) = (Rendered::default(), stop.clone());
    let others = Others { files, incidents: wanted.incidents };
    let mut server =
        Server { listener, address, counts, ledger, alerts, others, rendered, stop: stop_server };
    let thread = std::thread::Builder::new()
        .name("fxtrec-metrics".to_owned())
        .spawn(move || server.run())
        .map_err(MetricsError::Thread)?;
    Ok(Metrics { address, stop, thread: Some(thread) })
}

/// Figures that are counted elsewhere, if they are.
#[derive(Debug)]
struct Others {
    files: Option<Arc<AlertFiles>>,
    incidents: Option<incidents::Counts>,
}

#[derive(Debug)]
struct Server {
    listener: TcpListener,
    address: SocketAddr,
    counts: SchedCounts,
    ledger: Ledger,
    alerts: Option<FigureAlerts>,
    others: Others,
    rendered: Rendered,
    stop: StopToken,
}

impl Server {
    fn run(&mut self) {
        let mut emptied = Instant::now();
        let mut peers = Peers::default();
        while !self.stop.is_stopped() {
            match self.listener.accept() {
                // An error of one connection must not affect the next.
                Ok((peer, from)) => drop(peers.add(peer, from.ip(), Instant::now())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let idle = PERIOD.saturating_sub(emptied.elapsed());
                    let until_look = self.alerts.as_ref().map_or(idle, FigureAlerts::until_look);
                    let others = [self.stop.fd(), self.listener.as_fd()];
                    peers.wait(others, idle.min(until_look));
                }
                Err(_) => std::thread::sleep(DEAF),
            }
            peers.serve(Instant::now(), |request| self.answer(request));
            let is_due = |alerts: &FigureAlerts| alerts.until_look().is_zero();
            let looks = self.alerts.as_ref().is_some_and(is_due);
            if looks || emptied.elapsed() >= PERIOD {
                self.empty();
                emptied = Instant::now();
            }
            if let Some(alerts) = self.alerts.as_mut().filter(|_| looks) {
                alerts.look(self.ledger.groups());
            }
        }
    }

    /// Counts that cannot be read now stay in the kernel's tables.
    fn empty(&mut self) {
        if let Ok(rows) = self.counts.take() {
            if let Some(alerts) = &mut self.alerts {
                alerts.add(&rows);
            }
            self.ledger.add(rows, Instant::now());
        }
    }

    /// The whole response to a request or to invalid input.
    fn answer(&mut self, request: Option<Request>) -> Arc<[u8]> {
        let (status, format, body) = match request {
            None => ("400 Bad Request", Format::Plain, Vec::new()),
            Some(request) => match self.respond(&request) {
                Response::Metrics(format) => return self.metrics(format),
                Response::Other(status, body) => (status, Format::Plain, body),
            },
        };
        whole(status, format, &body)
    }

    /// The metrics, possibly from a recent response.
    fn metrics(&mut self, format: Format) -> Arc<[u8]> {
        if let Some(answer) = self.rendered.of(format, Instant::now()) {
            return answer;
        }
        let begun = Instant::now();
        self.empty();
        let missing = self.counts.missing();
        let tells = CountedFacts {
            steal: self.counts.reports_steal(),
            throttles: self.counts.reports_throttles(),
        };
        let families = families::families(&self.ledger, missing, tells, &self.others);
        let body = match format {
            Format::Protobuf => protobuf::write(&families),
            Format::Plain | Format::OpenMetrics => text::write(&families, format).into_bytes(),
        };
        let answer = whole("200 OK", format, &body);
        self.rendered.keep(format, (begun, Instant::now()), answer.clone());
        answer
    }

    fn respond(&self, request: &Request) -> Response {
        // With DNS rebinding, a web page could otherwise read the figures through a local user's browser.
        if self.address.ip().is_loopback() && !request.host.as_deref().is_none_or(is_of_here) {
            return Response::Other("421 Misdirected Request", Vec::new());
        }
        match (request.path.as_str(), request.method.as_str()) {
            ("/metrics", "GET") => Response::Metrics(Format::wanted(request.accept.as_deref())),
            ("/metrics", _) => Response::Other("405 Method Not Allowed", Vec::new()),
            _ => Response::Other("404 Not Found", b"metrics are at /metrics\n".to_vec()),
        }
    }
}

/// The response to a request.
enum Response {
    Metrics(Format),
    /// Status and text.
    Other(&'static str, Vec<u8>),
}

/// A response with its head.
fn whole(status: &str, format: Format, body: &[u8]) -> Arc<[u8]> {
    let head = format!(
        "HTTP/1.1 {status}\r\n\
         Content-Type: {}\r\n\
         Content-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        format.media_type(),
        body.len()
    );
    [head.as_bytes(), body].concat().into()
}

/// Whether a request is meant for this machine's own loopback address.
fn is_of_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine_alone() {
        let parse = |text: &str| text.parse::<MetricsAddress>().map(|it| it.0.to_string());
        for text in ["9464", ":9464", "127.0.0.1:9464"] {
            assert_eq!(parse(text).as_deref(), Ok("127.0.0.1:9464"), "{text}");
        }
        assert_eq!(parse("0.0.0.0:80").as_deref(), Ok("0.0.0.0:80"));
        assert_eq!(parse("[::1]:80").as_deref(), Ok("[::1]:80"));
        for text in ["127.0.0.1", "::1", "host:80", "[::1]", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_of_the_web_are_not_of_here() {
        for host in ["localhost", "localhost:9464", "127.0.0.1:9464", "[::1]:9464", "127.9.9.9"] {
            assert!(is_of_here(host), "{host}");
        }
        for host in ["example.org", "example.org:9464", "10.0.0.1:9464", "localhost.example.org"] {
            assert!(!is_of_here(host), "{host}");
        }
    }
}
