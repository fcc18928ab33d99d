//! Finds the locations of a USDT probe by its name.

use std::collections::BTreeSet;

use object::ReadRef;

use super::{File, SHOWN};
use crate::args::{self, Arguments, FetchArg, FetchPoint};
use crate::error::Problem;
use crate::spec::Spec;
use crate::usdt::{self, Probe};
use crate::{Site, SiteKind};
use fxtrec_units::glob;
use fxtrec_units::nearest::nearest;

impl<'d, R: ReadRef<'d>> File<'_, 'd, R> {
    pub(super) fn usdt(
        &self,
        spec: &Spec,
        provider: &str,
        name: &str,
    ) -> Result<Vec<Site>, Problem> {
        let all = usdt::probes(self.elf)
            .map_err(|source| Problem::Usdt { path: self.path.to_owned(), source })?;
        let globs = [provider, name].map(glob::of_name);
        let meant: Vec<_> = all
            .iter()
            .filter(|it| globs[0].matches(&it.provider) && globs[1].matches(&it.name))
            .collect();
        if meant.is_empty() {
            return Err(self.no_usdt(provider, name, &all));
        }
        let names: BTreeSet<_> = meant.iter().map(|it| (&it.provider, &it.name)).collect();
        let one = names.len() == 1;
        meant.iter().map(|probe| self.usdt_site(spec, probe, one)).collect()
    }

    pub(crate) fn no_usdt(&self, provider: &str, name: &str, all: &[Probe]) -> Problem {
        let there: BTreeSet<String> = all.iter().map(Probe::id).collect();
        let wanted = format!("{provider}:{name}");
        let names = || there.iter().map(String::as_str);
        let like = nearest(&wanted, names(), SHOWN);
        let rest = names().filter(|it| !like.contains(it)).take(SHOWN * 2);
        let nearest = like.iter().copied().chain(rest).map(str::to_owned).collect();
        Problem::NoUsdt {
            path: self.path.to_owned(),
            provider: provider.to_owned(),
            name: name.to_owned(),
            nearest,
        }
    }

    fn usdt_site(&self, spec: &Spec, probe: &Probe, one: bool) -> Result<Site, Problem> {
        let symbol = probe.id();
        let name = match (&spec.name, one) {
            (Some(name), true) => name.clone(),
            (Some(name), false) => format!("{name}:{symbol}"),
            (None, _) => symbol.clone(),
        };
        if !self.elf.is_executable(probe.address) {
            return Err(self.not_code(probe.address));
        }
        let offset =
            self.elf.file_offset(probe.address).ok_or_else(|| self.not_code(probe.address))?;
        let semaphore = probe.semaphore.map(|address| {
            self.elf.file_offset(address).ok_or_else(|| Problem::Semaphore {
                path: self.path.to_owned(),
                probe: symbol.clone(),
                address,
            })
        });
        Ok(Site {
            name,
            binary: self.path.to_owned(),
            version: self.version,
            offset,
            symbol: symbol.clone(),
            kind: SiteKind::Usdt,
            semaphore: semaphore.transpose()?,
            args: self.usdt_args(spec, probe)?,
        })
    }

    /// A probe's arguments as the kernel fetches them, or, where it cannot, as the assembler wrote them.
    pub(crate) fn operands(&self, probe: &Probe) -> Vec<Result<String, String>> {
        let operands = self.parsed_operands(probe).into_iter();
        operands.map(|it| it.map(|it| format!("{}:{}", it.fetch, it.kind))).collect()
    }

    fn parsed_operands(&self, probe: &Probe) -> Vec<Result<args::Operand, String>> {
        let variable = |name: &str| self.variable(name, probe.address);
        usdt::operands(&probe.arguments, self.elf.arch(), &variable)
    }

    /// The requested arguments; by default, all that the kernel can fetch.
    fn usdt_args(&self, spec: &Spec, probe: &Probe) -> Result<Vec<FetchArg>, Problem> {
        let arch = self.elf.arch();
        let operands = self.parsed_operands(probe);
        let mut fetched = Vec::new();
        for arg in &spec.args {
            fetched.push(args::lower(arg, arch, Arguments::Note(&operands))?);
        }
        if spec.args.is_empty() {
            for (index, operand) in operands.iter().enumerate() {
                let Ok(operand) = operand else { continue };
                fetched.push(FetchArg {
                    name: format!("arg{}", index + 1),
                    fetch: format!("{}:{}", operand.fetch, operand.kind),
                    kind: operand.kind,
                    moment: FetchPoint::Hit,
                });
            }
        }
        Ok(fetched)
    }

    /// The location of a variable, in the only form that is valid wherever the file is loaded: the
    /// kernel takes an offset of the file and adds the distance between the probe's offset and its
    /// address. So it is not the variable's own offset if the two are mapped differently.
    fn variable(&self, name: &str, probe: u64) -> Option<args::Fetch> {
        let address = self.elf.variable(name)?;
        let place = self.elf.file_offset(probe)?.wrapping_sub(probe).wrapping_add(address);
        Some(args::Verbatim::FileMemory(place).into())
    }
}
