//! `-P`: user probes.
//!
//! A probe without arguments is perf's own kind, of which nothing can be left
//! behind, but which takes `CAP_SYS_ADMIN`. The kernel fetches arguments only for
//! a probe that is defined in tracefs. The two ends of a span carry the stack
//! pointer, by which they are paired.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{ExtraError, Extras};
use crate::encode::probes::catalog::{Act, Catalog, Class, Entry};
use crate::encode::probes::fields::{FieldArg, MAX_ARGS, Show};
use crate::encode::probes::spans::SpanId;
use crate::kernel::caps::{Capabilities, Capability};
use crate::kernel::extra::{Extra, What};
use crate::kernel::format::Format;
use crate::kernel::regular;
use crate::kernel::sys::{Linux, Sys};
use crate::kernel::tracefs::Tracefs;
use crate::kernel::uprobe::definitions::{Definitions, Fetch};
use crate::kernel::uprobe::{Binary, Place, Pmu, Uprobe};
use crate::probe::{self, ArgKind, Context, FetchArg, Moment, Site, SiteKind, Spec};

/// Adds every place that the specs name.
pub(super) fn add(
    extras: &mut Extras,
    sys: &dyn Sys,
    tracefs: &Tracefs,
    specs: &[Spec],
    context: &Context,
    in_scope_only: bool,
) -> Result<(), ExtraError> {
    let mut sites = Vec::new();
    for spec in specs {
        sites.extend(probe::resolve(spec, context)?);
    }
    let pmu = Pmu::read(sys)?;
    let define_all = !Capabilities::own(sys).has(Capability::SysAdmin);
    let binaries = HashMap::new();
    let mut places = Places { pmu, define_all, tracefs, binaries, spans: 0, in_scope_only };
    sites.iter().try_for_each(|site| places.add(extras, site))
}

/// What one site after the other is added with.
struct Places<'a> {
    pmu: Pmu,
    /// Whether perf's own kind of probe would be refused.
    define_all: bool,
    tracefs: &'a Tracefs,
    binaries: HashMap<PathBuf, Binary>,
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
        let (what, args) = match args.is_empty() && !self.define_all {
            true => (What::Uprobe(Uprobe { pmu: self.pmu, place }), Vec::new()),
            false => self.define(extras, &place, &args)?,
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
        let opened = regular::open(path);
        let file = opened.map_err(|source| ExtraError::Binary { path: path.to_owned(), source })?;
        let binary = Binary::new(file);
        self.binaries.insert(path.to_owned(), binary.clone());
        Ok(binary)
    }

    /// Has the kernel fetch arguments at a place.
    fn define(
        &self,
        extras: &mut Extras,
        place: &Place,
        args: &[&FetchArg],
    ) -> Result<(What, Vec<FieldArg>), ExtraError> {
        let definitions = extras
            .definitions
            .get_or_insert_with(|| Definitions::new(Box::new(Linux), self.tracefs.clone()));
        let fetch = |arg: &&FetchArg| Fetch { name: arg.name.clone(), how: arg.fetch.clone() };
        let fetches: Vec<Fetch> = args.iter().map(fetch).collect();
        let format = definitions.add(place, &fetches)?;
        let fields = fields(&mut extras.catalog, &format, args)?;
        Ok((What::Tracepoint(format.id), fields))
    }
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
