//! `-P`: user probes.
//!
//! A probe without arguments is a separate perf event, which leaves nothing
//! behind but needs `CAP_SYS_ADMIN`. The kernel fetches arguments only for a
//! probe that is defined in tracefs. The two ends of a span carry the stack
//! pointer, by which they are paired.
//!
//! The kernel removes probe events one after another, which takes about a tenth of a second each, and for perf's own on each CPU. So if BPF
//! may be used and the kernel has links for several uprobes (6.6), a program records all probes whose arguments it can fetch: see
//! [`crate::kernel::bpf::probes`]. The other probes use as few events as possible: locations whose arguments have the same types share an
//! event, with the number of the location as an additional argument:
//!
//! ```text
//!  p:group/p0 app:0x1139 site=\0:u16 arg1=%di:s32    both are opened, and closed, at once
//!  p:group/p0 app:0x1200 site=\1:u16 arg1=%si:s32
//! ```

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::live::Live;
use super::{Call, ExtraError, Extras};
use crate::cli::Progress;
use crate::commands::plan::Plan;
use crate::encode::probes::catalog::{Act, Catalog, Class, Entry};
use crate::encode::probes::fields::{FieldArg, MAX_ARGS, Show};
use crate::encode::probes::spans::SpanId;
use crate::file_worker::Files;
use crate::kernel::bpf;
use crate::kernel::bpf::probes::{Links, Probe, Value};
use crate::kernel::bpf::sys::BpfSys;
use crate::kernel::caps::{Capabilities, Capability};
use crate::kernel::cpus;
use crate::kernel::extra::{Extra, ExtraIndex, What};
use crate::kernel::format::Format;
use crate::kernel::patience::locked_process;
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::Tracefs;
use crate::kernel::uprobe::definitions::{Defined, Definitions, Fetch};
use crate::kernel::uprobe::{Binary, Pmu, ProbeSite, Uprobe};
use crate::probe::{ArgKind, Context, FetchArg, FetchPoint, FileVersion, Site, SiteKind};

/// Adds every location that the specs name. With `bpf`, a program records as many of them as it can.
///
/// # Errors
/// Returns [`ExtraError`].
pub(super) fn open(
    sys: &dyn Sys,
    bpf: Option<&dyn BpfSys>,
    tracefs: &Tracefs,
    plan: &Plan,
    context: &Context,
) -> Result<Extras, ExtraError> {
    let specs = &plan.trace_points.probes;
    let mut opening = Opening::new(plan.display.progress);
    let (mut sites, mut files) = (Vec::new(), Files::default());
    for (done, spec) in specs.iter().enumerate() {
        opening.draw("finding probes", (done, specs.len()));
        sites.extend(files.sites(spec, context)?);
    }
    // Without a list of processes, skip the check.
    if let Ok(Some(pid)) = locked_process() {
        return Err(ExtraError::Locked(pid));
    }
    let (pmu, cpus) = (Pmu::read(sys)?, cpus::online(sys)?.len());
    let own_kind = match Capabilities::own(sys).has(Capability::SysAdmin) {
        true if sites.iter().map(ends).sum::<usize>() * cpus < MANY => OwnKind::Preferred,
        true => OwnKind::Possible,
        false => OwnKind::Refused,
    };
    let places = Places {
        pmu,
        own_kind,
        tracefs,
        files,
        binaries: HashMap::new(),
        shared: HashMap::new(),
        spans: 0,
        in_scope_only: plan.trace_points.in_scope_only,
        by_program: None,
        opening,
    };
    places.place_all(sys, bpf, &sites)
}

/// A progress line for opening probes, shown if opening takes a long time.
struct Opening {
    begun: Instant,
    progress: Progress,
    /// The inner value is `None` if no line is requested.
    live: Option<Option<Live>>,
}

impl Opening {
    /// Shorter work shows no line.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new(progress: Progress) -> Opening {
        Opening { begun: Instant::now(), progress, live: None }
    }

    fn draw(&mut self, what: &str, (done, all): (usize, usize)) {
        if self.begun.elapsed() < Opening::PATIENCE {
            return;
        }
        // COMMAND does not run yet.
        let live = self.live.get_or_insert_with(|| Live::new(self.progress, false));
        // If the terminal is gone, the line is gone too.
        let _ = live.as_mut().map(|live| live.draw_part(what, (done as u64, all as u64), ""));
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to clear.
        let _ = self.live.take().flatten().map(|mut live| live.clear());
    }
}

/// If the number of probes times CPUs reaches this value, probes without arguments are also defined in tracefs: perf's own kind leaves
/// nothing behind, but takes a long time to remove.
const MANY: usize = 8;

/// The number of probes that a site needs.
fn ends(site: &Site) -> usize {
    if site.kind == SiteKind::Span { 2 } else { 1 }
}

/// Whether probes without arguments are of perf's own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnKind {
    Preferred,
    /// When the probe cannot be defined.
    Possible,
    Refused,
}

/// The argument that identifies the location.
const NUMBER: &str = "fxtrec_site";

/// The name of an argument in tracefs.
fn nth(index: usize) -> String {
    format!("arg{}", index + 1)
}

/// The common properties of locations that share an event: whether it is on return, whether samples have the stack pointer, and the types
/// of arguments.
type Likeness = (bool, bool, Vec<String>);

/// State while sites are added.
struct Places<'a> {
    pmu: Pmu,
    own_kind: OwnKind,
    tracefs: &'a Tracefs,
    files: Files,
    binaries: HashMap<(PathBuf, FileVersion), Binary>,
    /// Events that more locations may share.
    shared: HashMap<Likeness, Defined>,
    spans: u16,
    in_scope_only: bool,
    /// The program for locations, if BPF may be used.
    by_program: Option<ByProgram<'a>>,
    opening: Opening,
}

/// The locations that a program will record.
struct ByProgram<'a> {
    bpf: &'a dyn BpfSys,
    /// The number of possible CPUs.
    possible: usize,
    outputs: [Option<Arc<OwnedFd>>; 2],
    probes: Vec<Probe>,
}

impl<'a> ByProgram<'a> {
    fn new(bpf: &'a dyn BpfSys, sys: &dyn Sys) -> Result<ByProgram<'a>, ExtraError> {
        let possible = cpus::possible(sys)?.last().map_or(0, |cpu| cpu.0 as usize + 1);
        Ok(ByProgram { bpf, possible, outputs: [None, None], probes: Vec::new() })
    }

    /// Adds a location; `None` if a program cannot fetch its arguments.
    fn add(
        &mut self,
        catalog: &mut Catalog,
        place: &ProbeSite,
        number: u16,
        args: &[&FetchArg],
        user_stack: bool,
    ) -> Result<Option<(What, Vec<FieldArg>)>, ExtraError> {
        let (mut values, mut fields) = (Vec::new(), Vec::new());
        for (index, arg) in args.iter().enumerate() {
            let Some((value, bytes)) = Value::parse(&arg.fetch) else { return Ok(None) };
            let Some(field) = bpf::probes::field(&arg.name, index, bytes) else { return Ok(None) };
            values.push(value);
            fields.push(FieldArg::new(catalog.text(&arg.name)?, &field, Some(show(arg.kind))));
        }
        let output = &mut self.outputs[usize::from(user_stack)];
        let what = match output {
            Some(_) => What::Elsewhere,
            None => {
                let map = bpf::probes::output(self.bpf, self.possible)?;
                *output = Some(map.clone());
                What::Program { map, number_at: bpf::probes::NUMBER_AT }
            }
        };
        self.probes.push(Probe { place: place.clone(), number, user_stack, values });
        Ok(Some((what, fields)))
    }

    fn attach(&self) -> Result<Links, ExtraError> {
        let outputs = self.outputs.each_ref().map(|map| map.as_ref().map(|map| map.as_fd()));
        Ok(Links::open(self.bpf, &self.probes, outputs)?)
    }
}

impl<'a> Places<'a> {
    fn place_all(
        mut self,
        sys: &dyn Sys,
        bpf: Option<&'a dyn BpfSys>,
        sites: &[Site],
    ) -> Result<Extras, ExtraError> {
        if let Some(bpf) = bpf {
            self.by_program = Some(ByProgram::new(bpf, sys)?);
            // The kernel's reason for refusing programs is not reported, because the fallback records the same. Any other error would occur
            // again.
            if let Ok(extras) = self.add_all(sites) {
                return Ok(extras);
            }
            (self.by_program, self.spans) = (None, 0);
            self.shared.clear();
        }
        self.add_all(sites)
    }

    fn add_all(&mut self, sites: &[Site]) -> Result<Extras, ExtraError> {
        let mut extras = Extras::default();
        for (done, site) in sites.iter().enumerate() {
            self.opening.draw("placing probes", (done, sites.len()));
            self.add(&mut extras, site)?;
        }
        if let Some(by_program) = self.by_program.as_ref().filter(|it| !it.probes.is_empty()) {
            extras.placed.links = Some(by_program.attach()?);
        }
        Ok(extras)
    }

    fn add(&mut self, extras: &mut Extras, site: &Site) -> Result<(), ExtraError> {
        self.pmu.check_semaphore(site.semaphore)?;
        match site.kind {
            SiteKind::Entry | SiteKind::Usdt => self.put(extras, site, false, Act::Instant, None),
            SiteKind::Return => self.put(extras, site, true, Act::Instant, None),
            SiteKind::Span => {
                let id = SpanId(self.spans);
                self.spans = self.spans.saturating_add(1);
                self.put(extras, site, false, Act::Call(id), Some(FetchPoint::Hit))?;
                self.put(extras, site, true, Act::Return(id), Some(FetchPoint::Return))
            }
        }
    }

    /// Adds one end of a site, with the arguments to be recorded at `moment`, or all arguments.
    fn put(
        &mut self,
        extras: &mut Extras,
        site: &Site,
        on_return: bool,
        act: Act,
        moment: Option<FetchPoint>,
    ) -> Result<(), ExtraError> {
        let wanted = |arg: &&FetchArg| moment.is_none_or(|moment| arg.moment == moment);
        let args: Vec<&FetchArg> = site.args.iter().filter(wanted).collect();
        if args.len() > MAX_ARGS {
            return Err(ExtraError::TooManyArgs { probe: site.name.clone(), count: args.len() });
        }
        let binary = self.open(site)?;
        let (offset, semaphore) = (site.offset, site.semaphore);
        let place = ProbeSite { binary, offset, on_return, semaphore };
        let own = |pmu| (What::Uprobe(Uprobe { pmu, place: place.clone() }), Vec::new());
        let number = u16::try_from(extras.events.len());
        let number = number.map_err(|_| ExtraError::TooMany(extras.events.len()))?;
        let has_stack = moment.is_some();
        let by_program = match &mut self.by_program {
            Some(program) => program.add(&mut extras.catalog, &place, number, &args, has_stack)?,
            None => None,
        };
        let (what, args) = match (by_program, args.is_empty(), self.own_kind) {
            (Some(added), ..) => added,
            (None, true, OwnKind::Preferred) => own(self.pmu),
            (None, true, OwnKind::Possible) => {
                match self.define(extras, number, &place, &args, has_stack) {
                    Err(ExtraError::Definition(_)) => own(self.pmu),
                    defined => defined?,
                }
            }
            _ => self.define(extras, number, &place, &args, has_stack)?,
        };
        let catalog = &mut extras.catalog;
        let is_end = matches!(act, Act::Return(_));
        let entry = Entry {
            act,
            class: Class::Probe,
            category: catalog.text(site.category())?,
            name: catalog.text(&site.name)?,
            args,
            in_scope_only: self.in_scope_only,
        };
        if is_end {
            let (name, binary, symbol) =
                (site.name.clone(), site.binary.clone(), site.symbol.clone());
            extras.calls.push(Call { returns: ExtraIndex(number), name, binary, symbol });
        }
        let label = format!("probe {} in {}", site.symbol, site.binary.display());
        extras.add(Extra { label, what, user_stack: moment.is_some(), filter: None }, entry);
        Ok(())
    }

    fn open(&mut self, site: &Site) -> Result<Binary, ExtraError> {
        let key = (site.binary.clone(), site.version);
        if let Some(binary) = self.binaries.get(&key) {
            return Ok(binary.clone());
        }
        // Its file system may hang on open, or even on close.
        let held = self.files.hold(site);
        let file =
            held.map_err(|source| ExtraError::Binary { path: site.binary.clone(), source })?;
        let binary = Binary::new(file);
        self.binaries.insert(key, binary.clone());
        Ok(binary)
    }

    /// Defines an event whose arguments the kernel fetches at a location.
    fn define(
        &mut self,
        extras: &mut Extras,
        number: u16,
        place: &ProbeSite,
        args: &[&FetchArg],
        has_stack: bool,
    ) -> Result<(What, Vec<FieldArg>), ExtraError> {
        let definitions = extras
            .placed
            .definitions
            .get_or_insert_with(|| Definitions::new(Box::new(Linux), self.tracefs.clone()));
        // Arguments are named by position, since different names would prevent sharing.
        let fetch =
            |(index, arg): (usize, &&FetchArg)| Fetch { name: nth(index), how: arg.fetch.clone() };
        let fetches: Vec<Fetch> = args.iter().enumerate().map(fetch).collect();
        let number = Fetch { name: NUMBER.to_owned(), how: format!("\\{number}:u16") };
        let numbered: Vec<Fetch> = std::iter::once(number).chain(fetches.iter().cloned()).collect();
        let likeness = likeness(place, has_stack, &fetches);
        if let Some(shared) = self.shared.get(&likeness)
            && definitions.extend(&shared.name, place, &numbered).is_ok()
        {
            let fields = fields(&mut extras.catalog, &shared.format, args)?;
            return Ok((What::Elsewhere, fields));
        }
        // Before Linux 5.4 there are no such numbers.
        let Ok(defined) = definitions.add(place, &numbered) else {
            let Defined { format, .. } = definitions.add(place, &fetches)?;
            let fields = fields(&mut extras.catalog, &format, args)?;
            return Ok((What::Tracepoint(format.id), fields));
        };
        let field = defined.format.field(NUMBER).map_err(ExtraError::Field)?;
        let number_at = u16::try_from(field.offset).unwrap_or(u16::MAX);
        let fields = fields(&mut extras.catalog, &defined.format, args)?;
        let what = What::Shared { tracepoint: defined.format.id, number_at };
        self.shared.insert(likeness, defined);
        Ok((what, fields))
    }
}

fn likeness(place: &ProbeSite, has_stack: bool, fetches: &[Fetch]) -> Likeness {
    // The type follows the last colon.
    let kind = |fetch: &Fetch| fetch.how.rsplit_once(':').map_or("", |(_, kind)| kind).to_owned();
    (place.on_return, has_stack, fetches.iter().map(kind).collect())
}

/// The positions of the arguments in the samples.
fn fields(
    catalog: &mut Catalog,
    format: &Format,
    args: &[&FetchArg],
) -> Result<Vec<FieldArg>, ExtraError> {
    let mut fields = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        let field = format.field(&nth(index)).map_err(ExtraError::Field)?;
        fields.push(FieldArg::new(catalog.text(&arg.name)?, field, Some(show(arg.kind))));
    }
    Ok(fields)
}

fn show(kind: ArgKind) -> Show {
    match kind {
        ArgKind::Unsigned(_) => Show::Unsigned,
        ArgKind::Signed(_) => Show::Signed,
        ArgKind::Str => Show::Text,
        ArgKind::Ptr => Show::Pointer,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::path::Path;

    use super::*;
    use crate::kernel::bpf::sys::{self, MapSpec, ProgramSpec};
    use crate::kernel::fake::Fake;
    use crate::kernel::regular::Regular;
    use crate::probe::Width;

    /// A kernel that accepts programs, and links if it is new enough.
    #[derive(Debug)]
    struct Kernel {
        has_links: bool,
    }

    fn descriptor() -> io::Result<OwnedFd> {
        Ok(File::open("/dev/null")?.into())
    }

    impl BpfSys for Kernel {
        fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
            crate::kernel::bpf::fake::map(spec)
        }

        fn map_set_maps(&self, _: BorrowedFd<'_>, _: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn program_load(&self, _: &ProgramSpec<'_>, _: Option<&mut [u8]>) -> io::Result<OwnedFd> {
            descriptor()
        }

        fn attach(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn attach_to_places(&self, _: BorrowedFd<'_>, _: &sys::Places<'_>) -> io::Result<OwnedFd> {
            match self.has_links {
                true => descriptor(),
                false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            }
        }

        fn missed(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            Ok(0)
        }
    }

    const BINARY: &str = "/bin/app";

    fn version() -> FileVersion {
        let own = Regular::hold(Path::new("/proc/self/exe")).expect("this program");
        FileVersion::of(&own).expect("known")
    }

    fn site(offset: u64, kind: SiteKind, args: &[(&str, FetchPoint)]) -> Site {
        let arg = |(fetch, moment): &(&str, FetchPoint)| FetchArg {
            name: "n".to_owned(),
            fetch: (*fetch).to_owned(),
            kind: ArgKind::Signed(Width::Bits32),
            moment: *moment,
        };
        Site {
            name: format!("place_{offset}"),
            binary: BINARY.into(),
            version: version(),
            offset,
            symbol: format!("place_{offset}"),
            kind,
            semaphore: None,
            args: args.iter().map(arg).collect(),
        }
    }

    /// The kinds of events that are opened for these sites.
    fn kinds(bpf: Option<&dyn BpfSys>, sites: &[Site]) -> (Vec<&'static str>, bool) {
        let pmu = "/sys/bus/event_source/devices/uprobe";
        let sys = Fake::default()
            .file(&format!("{pmu}/type"), "8")
            .file(&format!("{pmu}/format/retprobe"), "config:0")
            .file("/sys/devices/system/cpu/possible", "0-3")
            .refuse("/sys/kernel/tracing/events", libc::EISDIR);
        let tracefs = Tracefs::find(&sys).expect("mounted");
        let binary = Binary::new(File::open("/dev/null").expect("there is one"));
        let places = Places {
            pmu: Pmu::read(&sys).expect("described"),
            own_kind: OwnKind::Preferred,
            tracefs: &tracefs,
            files: Files::default(),
            binaries: HashMap::from([((BINARY.into(), version()), binary)]),
            shared: HashMap::new(),
            spans: 0,
            in_scope_only: true,
            by_program: None,
            opening: Opening::new(Progress::Never),
        };
        let extras = places.place_all(&sys, bpf, sites).expect("nothing else is refused");
        let kind = |extra: &Extra| match &extra.what {
            What::Program { .. } => "program",
            What::Elsewhere => "elsewhere",
            What::Uprobe(_) => "own",
            _ => "other",
        };
        (extras.events.iter().map(kind).collect(), extras.placed.links.is_some())
    }

    #[test]
    fn a_program_has_one_event_for_each_shape_of_its_samples() {
        let sites = [
            site(1, SiteKind::Entry, &[("%di:s32", FetchPoint::Hit)]),
            site(2, SiteKind::Span, &[(r"\7:s32", FetchPoint::Hit)]),
            site(3, SiteKind::Return, &[]),
            site(4, SiteKind::Usdt, &[("%bx:s32", FetchPoint::Hit)]),
        ];
        let kernel = Kernel { has_links: true };
        let expected = ["program", "program", "elsewhere", "elsewhere", "elsewhere"];
        assert_eq!(kinds(Some(&kernel), &sites), (expected.to_vec(), true));
    }

    #[test]
    fn a_kernel_without_links_has_probes_of_its_own() {
        let sites = [site(1, SiteKind::Entry, &[]), site(2, SiteKind::Span, &[])];
        let kernel = Kernel { has_links: false };
        for bpf in [None, Some(&kernel as &dyn BpfSys)] {
            assert_eq!(kinds(bpf, &sites), (vec!["own"; 3], false));
        }
    }
}
