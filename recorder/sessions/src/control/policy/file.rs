//! Parses the policy's text: every mistake is reported with its position.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{DEFAULT_PROVIDERS_PER_USER, ProbeRight, Rights, Rule, Who};
use crate::control::categories::{self, KernelCategory, PROBE_PREFIX};
use crate::manager::MAX_PROVIDERS;
use crate::settings::{self, Problem, at, check_keys, expected, meant, string};
use fxtrec_kernel::user;
use fxtrec_probe::Spec;
use fxtrec_units::quantity::ByteSize;

const FILE_KEYS: [&str; 4] = ["providers-per-user", "own-processes", "probes", "allow"];
const RULE_KEYS: [&str; 5] = ["users", "groups", "kernel", "other-users", "max-buffer"];

/// The item that permits any user probe.
const ANY_PROBE: &str = "uprobe";

/// The name for every user.
const EVERYBODY: &str = "*";

/// Looks up the ids of users and groups.
pub trait Names {
    /// The id of the user of this name, if there is one.
    ///
    /// # Errors
    /// Why that cannot be determined.
    fn uid(&self, name: &str) -> Result<Option<u32>, String>;
    /// The id of the group of this name, if there is one.
    ///
    /// # Errors
    /// Why that cannot be determined.
    fn gid(&self, name: &str) -> Result<Option<u32>, String>;
}

/// The users and groups of this system.
#[derive(Clone, Copy, Debug)]
pub struct SystemNames;

impl Names for SystemNames {
    fn uid(&self, name: &str) -> Result<Option<u32>, String> {
        user::uid_of(name).map_err(|error| error.to_string())
    }

    fn gid(&self, name: &str) -> Result<Option<u32>, String> {
        user::gid_of(name).map_err(|error| error.to_string())
    }
}

pub(super) struct Parsed {
    pub(super) providers_per_user: usize,
    pub(super) own_processes: bool,
    pub(super) probes: BTreeMap<String, Spec>,
    pub(super) rules: Vec<Rule>,
}

pub(super) fn parse(text: &str, names: &dyn Names) -> Result<Parsed, Problem> {
    let file = settings::parse(text)?;
    let file = file.get_ref();
    check_keys(file, &FILE_KEYS)?;
    let share = file.get("providers-per-user").map(share).transpose()?;
    let providers_per_user = share.unwrap_or(DEFAULT_PROVIDERS_PER_USER);
    let own_processes = file.get("own-processes").map(boolean).transpose()?.unwrap_or(true);
    let mut probes = BTreeMap::new();
    if let Some(listed) = file.get("probes") {
        for (name, spec) in table(listed, "a table: [probes], with lines NAME = \"SPEC\"")? {
            let name_text = name.get_ref().to_string();
            check_name(&name_text).map_err(|text| at(name, text))?;
            probes.insert(name_text.clone(), probe(&name_text, spec)?);
        }
    }
    let mut rules = Vec::new();
    if let Some(listed) = file.get("allow") {
        const EXPECTED: &str = "rules, each beginning with a line [[allow]]";
        for rule in array(listed, EXPECTED)?.iter() {
            rules.push(self::rule(rule, table(rule, EXPECTED)?, &probes, names)?);
        }
    }
    Ok(Parsed { providers_per_user, own_processes, probes, rules })
}

fn boolean(value: &Spanned<DeValue<'_>>) -> Result<bool, Problem> {
    value.get_ref().as_bool().ok_or_else(|| expected(value, "true or false"))
}

/// How many applications a user may have connected.
fn share(value: &Spanned<DeValue<'_>>) -> Result<usize, Problem> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    number
        .filter(|number| (1..=MAX_PROVIDERS).contains(number))
        .ok_or_else(|| at(value, format!("expected a number from 1 to {MAX_PROVIDERS}")))
}

fn rule(
    whole: &Spanned<DeValue<'_>>,
    rule: &DeTable<'_>,
    probes: &BTreeMap<String, Spec>,
    names: &dyn Names,
) -> Result<Rule, Problem> {
    check_keys(rule, &RULE_KEYS)?;
    let mut who = Who::default();
    for user in list(rule, "users")? {
        if user.get_ref().as_str() == Some(EVERYBODY) {
            who.everybody = true;
        } else {
            who.uids.insert(number(user, "user", |name| names.uid(name))?);
        }
    }
    for group in list(rule, "groups")? {
        who.gids.insert(number(group, "group", |name| names.gid(name))?);
    }
    if who == Who::default() {
        return Err(at(
            whole,
            "this rule applies to no user: add users = [\"NAME\"] or groups = [\"NAME\"]",
        ));
    }
    let mut rights = Rights::nothing();
    for category in list(rule, "kernel")? {
        kernel_right(category, probes, &mut rights)?;
    }
    if let Some(other_users) = rule.get("other-users") {
        rights.other_users = boolean(other_users)?;
    }
    if let Some(most) = rule.get("max-buffer") {
        let text = string(most, "a size, such as \"64M\"")?;
        let size: ByteSize =
            text.parse().map_err(|error| at(most, format!("'{text}': {error}")))?;
        rights.max_buffer_bytes = size.bytes();
    }
    Ok(Rule { who, rights })
}

fn kernel_right(
    category: &Spanned<DeValue<'_>>,
    probes: &BTreeMap<String, Spec>,
    rights: &mut Rights,
) -> Result<(), Problem> {
    let text = string(category, "a category of the kernel, such as \"sched\"")?;
    if let Some(kernel) = KernelCategory::named(text) {
        rights.kernel.insert(kernel);
    } else if text == ANY_PROBE {
        rights.probes.push(ProbeRight::Any);
    } else if let Some(probe) = text.strip_prefix(PROBE_PREFIX) {
        let prefix = probe.strip_suffix('*');
        if prefix.is_none() && !probes.contains_key(probe) {
            let meant = meant(probe, probes.keys().map(String::as_str));
            return Err(at(category, format!("[probes] has no '{probe}'{meant}")));
        }
        let name = prefix.unwrap_or(probe).to_owned();
        rights.probes.push(ProbeRight::Listed { name, prefix: prefix.is_some() });
    } else {
        let known = KernelCategory::ALL.map(KernelCategory::name);
        let meant = meant(text, known.into_iter().chain([ANY_PROBE]));
        return Err(at(
            category,
            format!(
                "unknown kernel category '{text}'{meant}; expected sched, sched:own, sched:waking, irq, \
                 syscall, uprobe:NAME of a probe in [probes], or uprobe for any user probe"
            ),
        ));
    }
    Ok(())
}

/// The probe that the file calls `name`; its hits have this name, too, unless the spec gives another.
fn probe(name: &str, value: &Spanned<DeValue<'_>>) -> Result<Spec, Problem> {
    let text = string(value, "a SPEC as for fxtrec -P, such as \"/usr/bin/app:render\"")?;
    let bad = |error: categories::CategoryError| at(value, error.to_string());
    let spec = categories::probe(text).map_err(bad)?;
    if spec.name.is_some() {
        return Ok(spec);
    }
    categories::probe(&format!("{name}={}", text.trim_start())).map_err(bad)
}

/// Whether a probe can be requested by this name, as `uprobe:NAME` in a list with commas.
fn check_name(name: &str) -> Result<(), &'static str> {
    let good = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == '.';
    if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
        return Err("a probe's name has 1 to 64 letters, digits, '_', '-' and '.'");
    }
    Ok(())
}

fn number(
    value: &Spanned<DeValue<'_>>,
    what: &str,
    named: impl Fn(&str) -> Result<Option<u32>, String>,
) -> Result<u32, Problem> {
    match value.get_ref() {
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| at(value, format!("{number} is not a valid {what} id"))),
        DeValue::String(name) => match named(name) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(at(value, format!("unknown {what} '{name}'"))),
            Err(error) => Err(at(value, error)),
        },
        _ => Err(expected(value, &format!("the name or number of a {what}"))),
    }
}

/// The items of a list; none if the key does not exist.
fn list<'a, 'i>(
    table: &'a DeTable<'i>,
    key: &str,
) -> Result<impl Iterator<Item = &'a Spanned<DeValue<'i>>>, Problem> {
    let items =
        table.get(key).map(|value| array(value, "a list: [\"...\", \"...\"]")).transpose()?;
    Ok(items.into_iter().flat_map(|items| items.iter()))
}

fn table<'a, 'i>(value: &'a Spanned<DeValue<'i>>, what: &str) -> Result<&'a DeTable<'i>, Problem> {
    value.get_ref().as_table().ok_or_else(|| expected(value, what))
}

fn array<'a, 'i>(value: &'a Spanned<DeValue<'i>>, what: &str) -> Result<&'a DeArray<'i>, Problem> {
    value.get_ref().as_array().ok_or_else(|| expected(value, what))
}
