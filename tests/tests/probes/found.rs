//! The places that fxtrec finds in programs to put probes at, compared with the results of binutils and the loader.
//!
//! Nothing here places a probe, so only inspecting other processes needs root.

mod binaries;
mod functions;
mod instructions;
mod listing;
mod refusals;
mod usdt;

use fxtrec::probe::{Context, ProbeError, Site, Spec, resolve};
use fxtrec_tests::tools;

const NO_CONTEXT: Context = Context { program: None, pids: Vec::new(), most: 64 };

fn try_resolve(spec: &str, context: &Context) -> Result<Vec<Site>, ProbeError> {
    let spec: Spec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    resolve(&spec, context)
}

/// The places that a spec names.
fn sites(spec: &str) -> Vec<Site> {
    try_resolve(spec, &NO_CONTEXT).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, found in another version of the file.
fn as_in(version: &[Site], mut found: Vec<Site>) -> Vec<Site> {
    for site in &mut found {
        assert_ne!(site.version, version[0].version, "the file was written");
        site.version = version[0].version;
    }
    found
}

/// The error for a spec that names no place.
fn refusal(spec: &str, context: &Context) -> String {
    try_resolve(spec, context).expect_err(spec).to_string()
}

/// The names of the sites, in order.
fn symbols(sites: &[Site]) -> Vec<&str> {
    sites.iter().map(|site| site.symbol.as_str()).collect()
}

fn compilers() -> bool {
    tools::or_skip(&["gcc", "g++", "rustc", "nm", "objdump", "readelf", "strip", "objcopy"])
}
