//! `-P`: user probes.
//!
//! A probe without arguments is perf's own kind, of which nothing can be left
//! behind, but which takes `CAP_SYS_ADMIN`. The kernel fetches arguments only for
//! a probe that is defined in tracefs. The two ends of a span carry the stack
//! pointer, by which they are paired.
//!
//! The kernel takes the events of probes back one after the other, and waits about a tenth of a second for each, on each CPU
//! if they are perf's own. So many probes are defined as few events: those whose arguments have the same names and types
//! share one, and the number of the place is one more argument:
//!
//! ```text
//!  p:group/p0 app:0x1139 site=\0:u16 n=%di:s32       both are opened, and closed, at once
//!  p:group/p0 app:0x1200 site=\1:u16 n=%si:s32
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{ExtraError, Extras};
use crate::apart::Files;
use crate::encode::probes::catalog::{Act, Catalog, Class, Entry};
use crate::encode::probes::fields::{FieldArg, MAX_ARGS, Show};
use crate::encode::probes::spans::SpanId;
use crate::kernel::caps::{Capabilities, Capability};
use crate::kernel::extra::{Extra, What};
use crate::kernel::format::Format;
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::Tracefs;
use crate::kernel::uprobe::definitions::{Defined, Definitions, Fetch};
use crate::kernel::uprobe::{Binary, Place, Pmu, Uprobe};
use crate::probe::{ArgKind, Context, FetchArg, Moment, Site, SiteKind, Spec};

/// Adds every place that the specs name.
pub(super) fn add(
    extras: &mut Extras,
    sys: &dyn Sys,
    tracefs: &Tracefs,
    specs: &[Spec],
    context: &Context,
    in_scope_only: bool,
) -> Result<(), ExtraError> {
    let (mut sites, mut files) = (Vec::new(), Files::default());
    for spec in specs {
        sites.extend(files.sites(spec, context)?);
    }
    let pmu = Pmu::read(sys)?;
    let own_kind = match Capabilities::own(sys).has(Capability::SysAdmin) {
        true if sites.len() < MANY => OwnKind::Preferred,
        true => OwnKind::Possible,
        false => OwnKind::Refused,
    };
    let (binaries, shared) = (HashMap::new(), HashMap::new());
    let mut places =
        Places { pmu, own_kind, tracefs, files, binaries, shared, spans: 0, in_scope_only };
    sites.iter().try_for_each(|site| places.add(extras, site))
}

/// From so many places on, those without arguments are defined as well: nothing of perf's own kind can be left behind, but it
/// takes long to be taken back.
const MANY: usize = 8;

/// Whether a probe without arguments is of perf's own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnKind {
    Preferred,
    /// If it cannot be defined.
    Possible,
    Refused,
}

/// The argument that numbers places.
const NUMBER: &str = "fxtrec_site";

/// What places have in common that share an event: whether it is on return, whether samples carry the stack pointer, and the
/// names and types of arguments.
type Likeness = (bool, bool, Vec<(String, String)>);

/// What one site after the other is added with.
struct Places<'a> {
    pmu: Pmu,
    own_kind: OwnKind,
    tracefs: &'a Tracefs,
    files: Files,
    binaries: HashMap<PathBuf, Binary>,
    /// Events that more places may share.
    shared: HashMap<Likeness, Defined>,
    spans: u16,
    in_scope_only: bool,
}

impl Places<'_> {
    fn add(&mut self, extras: &mut Extras, site: &Site) -> Result<(), ExtraError> {
        self.pmu.check_semaphore(site.semaphore)?;
        match site.kind {
            SiteKind::Entry | SiteKind::Usdt => self.put(extras, site, false, Act::Instant, None),
            SiteKind::Return => self.put(extras, site, true, Act::Instant, None),
            SiteKind::Span => {
                let id = SpanId(self.spans);
                self.spans = self.spans.saturating_add(1);
                self.put(extras, site, false, Act::Call(id), Some(Moment::Hit))?;
                self.put(extras, site, true, Act::Return(id), Some(Moment::Return))
            }
        }
    }

    /// Adds one end of a site, with the arguments of `moment`, or all.
    fn put(
        &mut self,
        extras: &mut Extras,
        site: &Site,
        on_return: bool,
        act: Act,
        moment: Option<Moment>,
    ) -> Result<(), ExtraError> {
        let wanted = |arg: &&FetchArg| moment.is_none_or(|moment| arg.moment == moment);
        let args: Vec<&FetchArg> = site.args.iter().filter(wanted).collect();
        if args.len() > MAX_ARGS {
            return Err(ExtraError::TooManyArgs { probe: site.name.clone(), count: args.len() });
        }
        let binary = self.open(&site.binary)?;
        let (offset, semaphore) = (site.offset, site.semaphore);
        let place = Place { binary, offset, on_return, semaphore };
        let own = |pmu| (What::Uprobe(Uprobe { pmu, place: place.clone() }), Vec::new());
        let (what, args) = match (args.is_empty(), self.own_kind) {
            (true, OwnKind::Preferred) => own(self.pmu),
            (true, OwnKind::Possible) => match self.define(extras, &place, &args, moment.is_some())
            {
                Err(ExtraError::Definition(_)) => own(self.pmu),
                defined => defined?,
            },
            _ => self.define(extras, &place, &args, moment.is_some())?,
        };
        let catalog = &mut extras.catalog;
        let entry = Entry {
            act,
            class: Class::Probe,
            category: catalog.text(site.category())?,
            name: catalog.text(&site.name)?,
            args,
            in_scope_only: self.in_scope_only,
        };
        let label = format!("probe {} in {}", site.symbol, site.binary.display());
        extras.add(Extra { label, what, user_stack: moment.is_some(), filter: None }, entry);
        Ok(())
    }

    fn open(&mut self, path: &Path) -> Result<Binary, ExtraError> {
        if let Some(binary) = self.binaries.get(path) {
            return Ok(binary.clone());
        }
        // It may not answer when it is opened, and not even when it is closed.
        let held = self.files.hold(path);
        let file = held.map_err(|source| ExtraError::Binary { path: path.to_owned(), source })?;
        let binary = Binary::new(file);
        self.binaries.insert(path.to_owned(), binary.clone());
        Ok(binary)
    }

    /// Has the kernel fetch arguments at a place.
    fn define(
        &mut self,
        extras: &mut Extras,
        place: &Place,
        args: &[&FetchArg],
        has_stack: bool,
    ) -> Result<(What, Vec<FieldArg>), ExtraError> {
        let definitions = extras
            .definitions
            .get_or_insert_with(|| Definitions::new(Box::new(Linux), self.tracefs.clone()));
        let fetch = |arg: &&FetchArg| Fetch { name: arg.name.clone(), how: arg.fetch.clone() };
        let fetches: Vec<Fetch> = args.iter().map(fetch).collect();
        let place_in_list = u16::try_from(extras.events.len());
        let number = place_in_list.map_err(|_| ExtraError::TooMany(extras.events.len()))?;
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

fn likeness(place: &Place, has_stack: bool, fetches: &[Fetch]) -> Likeness {
    // The type is behind the last colon.
    let kind = |fetch: &Fetch| {
        let kind = fetch.how.rsplit_once(':').map_or("", |(_, kind)| kind);
        (fetch.name.clone(), kind.to_owned())
    };
    (place.on_return, has_stack, fetches.iter().map(kind).collect())
}

/// Where the arguments lie in the samples.
fn fields(
    catalog: &mut Catalog,
    format: &Format,
    args: &[&FetchArg],
) -> Result<Vec<FieldArg>, ExtraError> {
    let mut fields = Vec::new();
    for arg in args {
        let show = match arg.kind {
            ArgKind::Unsigned(_) => Show::Unsigned,
            ArgKind::Signed(_) => Show::Signed,
            ArgKind::Str => Show::Text,
            ArgKind::Ptr => Show::Pointer,
        };
        let field = format.field(&arg.name).map_err(ExtraError::Field)?;
        fields.push(FieldArg::new(catalog.text(&arg.name)?, field, Some(show)));
    }
    Ok(fields)
}
