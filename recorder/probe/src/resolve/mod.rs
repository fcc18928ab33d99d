//! Finds the locations that a spec names.

mod usdt;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use object::ReadRef;

use super::args::{self, Arguments, FetchArg, FetchPoint};
use super::elf::{self, Elf, Functions, Selection};
use super::error::{Problem, Symbols};
use super::locate::{self, Context, Located};
use super::spec::{Mode, ProbePoint, Spec, Value};
use super::{FileVersion, ProbeError, Site, SiteKind};
use fxtrec_units::glob::is_glob;
use fxtrec_units::nearest::nearest;

/// The number of names similar to a mistyped one that are shown.
const SHOWN: usize = 4;

/// Finds the locations that a spec names: one, or several for a glob, for a name that several functions have, and for a USDT probe that was
/// inlined.
///
/// # Errors
/// Returns an error if there is no such binary or function, or a probe there would break the program or cannot fetch its arguments.
pub fn resolve(spec: &Spec, context: &Context) -> Result<Vec<Site>, ProbeError> {
    resolve_all(spec, context).map_err(|problem| ProbeError { spec: spec.text.clone(), problem })
}

fn resolve_all(spec: &Spec, context: &Context) -> Result<Vec<Site>, Problem> {
    let mut sites = Vec::new();
    for located in locate::locate(&spec.binary, context)? {
        sites.extend(in_file(spec, &located)?);
    }
    if sites.len() > context.most {
        return Err(Problem::TooMany { found: sites.len(), most: context.most });
    }
    Ok(sites)
}

fn in_file(spec: &Spec, located: &Located) -> Result<Vec<Site>, Problem> {
    let path = &located.path;
    let of_elf = |source| Problem::Elf { path: path.clone(), source };
    let (version, data) = elf::open_version(path)
        .map_err(|source| locate::LocateError::Open { path: path.clone(), source })?;
    let elf = Elf::parse(&data).map_err(of_elf)?;
    if elf.arch() != elf::Arch::HOST {
        return Err(Problem::OtherArch { path: path.clone(), arch: elf.arch() });
    }
    let (functions, _) = all_functions(&elf, located).map_err(of_elf)?;
    let file = File { path, version, elf: &elf, functions: &functions };
    match &spec.place {
        ProbePoint::Function { pattern, offset } => file.functions(spec, pattern, *offset),
        ProbePoint::Address(address) => file.address(spec, *address).map(|site| vec![site]),
        ProbePoint::Usdt { provider, name } => file.usdt(spec, provider, name),
    }
}

/// The functions of a file, including those of its separate debug file, and the path of that file.
pub(super) fn all_functions<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    located: &Located,
) -> Result<(Functions, Option<PathBuf>), elf::ElfError> {
    let mut functions = elf.functions()?;
    if functions.complete {
        return Ok((functions, None));
    }
    let Some((path, data)) = elf::separate_debug_file(elf, &located.path, &located.root) else {
        return Ok((functions, None));
    };
    // A symbol file that cannot be read is ignored, so the file counts as stripped.
    match Elf::parse(&data).and_then(|debug| debug.functions_of(elf)) {
        Ok(more) if more.complete => {
            functions.merge(more);
            Ok((functions, Some(path)))
        }
        _ => Ok((functions, None)),
    }
}

/// A file with the data read from it.
pub(super) struct File<'a, 'd, R: ReadRef<'d>> {
    pub(super) path: &'a Path,
    pub(super) version: FileVersion,
    pub(super) elf: &'a Elf<'d, R>,
    pub(super) functions: &'a Functions,
}

impl<'d, R: ReadRef<'d>> File<'_, 'd, R> {
    fn functions(&self, spec: &Spec, pattern: &str, offset: u64) -> Result<Vec<Site>, Problem> {
        let selected = elf::select(self.functions, pattern);
        if selected.is_empty() {
            return Err(self.no_function(pattern));
        }
        // A glob may skip functions that cannot be probed. A name that an old version of the function has as well must not silently select
        // that version.
        let strict = !is_glob(pattern);
        let (chosen, plain): (Vec<_>, Vec<_>) =
            selected.into_iter().partition(|selection| selection.function.chooses);
        if let Some(chosen) = chosen.first()
            && (plain.is_empty() || strict)
        {
            return Err(self.chosen(&chosen.name));
        }
        let (plain, jumped_to): (Vec<_>, Vec<_>) = plain.into_iter().partition(|selection| {
            spec.mode == Mode::Hit || self.elf.is_called(selection.function)
        });
        if let Some(jumped_to) = jumped_to.first()
            && (plain.is_empty() || strict)
        {
            return Err(self.not_called(&jumped_to.name));
        }
        let one = plain.len() == 1;
        plain.iter().map(|selection| self.function(spec, selection, offset, one)).collect()
    }

    fn function(
        &self,
        spec: &Spec,
        selection: &Selection<'_>,
        offset: u64,
        one: bool,
    ) -> Result<Site, Problem> {
        let Selection { function, name } = selection;
        elf::check_bounds(self.elf, self.functions, function, name, offset)
            .map_err(|source| Problem::Bounds { path: self.path.to_owned(), source })?;
        let address = function.address.saturating_add(offset);
        let symbol = if offset == 0 { name.clone() } else { format!("{name}+{offset:#x}") };
        let shown = match (&spec.name, one) {
            (Some(name), true) => name.clone(),
            (Some(name), false) => format!("{name}:{symbol}"),
            (None, _) if spec.mode == Mode::Return => format!("{symbol}%return"),
            (None, _) => symbol.clone(),
        };
        self.site(spec, shown, symbol, address)
    }

    fn address(&self, spec: &Spec, address: u64) -> Result<Site, Problem> {
        if !self.elf.is_executable(address) {
            return Err(self.not_code(address));
        }
        let path = || self.path.to_owned();
        let function = self.functions.at(address);
        let begins = matches!(function, Some((_, 0)));
        if !begins && spec.mode != Mode::Hit {
            return Err(Problem::NotEntry { path: path(), address });
        }
        if let Some((function, 0)) = function
            && spec.mode != Mode::Hit
            && !self.elf.is_called(function)
        {
            return Err(self.not_called(&elf::Names::of(&function.raw).short));
        }
        if !begins
            && spec.args.iter().any(|arg| matches!(arg.value.innermost(), Value::Argument(_)))
        {
            return Err(Problem::NoConvention { path: path(), address });
        }
        let symbol = match function {
            Some((function, into)) => {
                let name = elf::Names::of(&function.raw).short.into_owned();
                elf::check_bounds(self.elf, self.functions, function, &name, into)
                    .map_err(|source| Problem::Bounds { path: path(), source })?;
                if into == 0 { name } else { format!("{name}+{into:#x}") }
            }
            None => {
                elf::check_unnamed(self.elf, address)
                    .map_err(|source| Problem::Bounds { path: path(), source })?;
                format!("{address:#x}")
            }
        };
        let name = spec.name.clone().unwrap_or_else(|| symbol.clone());
        self.site(spec, name, symbol, address)
    }

    fn site(
        &self,
        spec: &Spec,
        name: String,
        symbol: String,
        address: u64,
    ) -> Result<Site, Problem> {
        let mut fetched = Vec::new();
        for arg in &spec.args {
            fetched.push(args::lower(arg, self.elf.arch(), Arguments::Convention)?);
        }
        let kind = match spec.mode {
            Mode::Hit => SiteKind::Entry,
            Mode::Return => SiteKind::Return,
            Mode::Span => SiteKind::Span,
        };
        if kind == SiteKind::Return {
            at_return(&mut fetched);
        }
        let offset = self.elf.file_offset(address).ok_or_else(|| self.not_code(address))?;
        Ok(Site {
            name,
            binary: self.path.to_owned(),
            version: self.version,
            offset,
            symbol,
            kind,
            semaphore: None,
            args: fetched,
        })
    }

    fn not_code(&self, address: u64) -> Problem {
        let code: Vec<String> = self
            .elf
            .segments()
            .iter()
            .filter(|segment| segment.executable)
            .map(|segment| {
                format!(
                    "{:#x} to {:#x}",
                    segment.address,
                    segment.address.saturating_add(segment.size)
                )
            })
            .collect();
        let code = if code.is_empty() { "nowhere".to_owned() } else { code.join(", ") };
        Problem::NotCode { path: self.path.to_owned(), address, code }
    }

    pub(super) fn no_function(&self, pattern: &str) -> Problem {
        let path = self.path.to_owned();
        if self.functions.imported.iter().any(|name| name == pattern) {
            let libraries = self.elf.dynamic().map(|dynamic| dynamic.needed).unwrap_or_default();
            return Problem::Imported { path, name: pattern.to_owned(), libraries };
        }
        let symbols = self.symbols();
        let mut budget = elf::Budget::default();
        let mut short = |function: &'_ elf::Function| {
            elf::Names::within(&mut budget, &function.raw).short.into_owned()
        };
        let names: BTreeSet<String> = self.functions.all.iter().map(&mut short).collect();
        let nearest = nearest(pattern, names.iter().map(String::as_str), SHOWN);
        let nearest = nearest.into_iter().map(str::to_owned).collect();
        Problem::NoFunction { path, pattern: pattern.to_owned(), symbols, nearest }
    }

    /// The symbols that the file has for its functions.
    pub(super) fn symbols(&self) -> Symbols {
        if self.functions.complete {
            Symbols::Complete
        } else if matches!(self.elf.section(".gnu_debugdata"), Ok(Some(_))) {
            Symbols::Packed
        } else if self.functions.all.is_empty() {
            Symbols::Stripped
        } else {
            Symbols::Exported
        }
    }

    fn not_called(&self, name: &str) -> Problem {
        Problem::NotCalled { path: self.path.to_owned(), name: name.to_owned() }
    }

    /// Only an IFUNC has the name.
    fn chosen(&self, name: &str) -> Problem {
        let implementations: BTreeSet<&str> = self
            .functions
            .all
            .iter()
            .filter(|function| !function.chooses && function.raw.contains(&format!("{name}_")))
            .map(|function| function.raw.as_str())
            .collect();
        Problem::Chosen {
            path: self.path.to_owned(),
            name: name.to_owned(),
            implementations: implementations.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// At a return probe everything is fetched at the return.
fn at_return(args: &mut Vec<FetchArg>) {
    for arg in args.iter_mut() {
        arg.moment = FetchPoint::Return;
    }
    if args.is_empty() {
        args.push(FetchArg {
            name: "ret".to_owned(),
            fetch: "$retval:s64".to_owned(),
            kind: args::ArgKind::Signed(args::Width::Bits64),
            moment: FetchPoint::Return,
        });
    }
}
