//! What the kernel's own variables are called, by their addresses.

use std::path::Path;

use crate::sys::Sys;

/// So far behind the beginning of a variable an address may be. The list has no lengths, and what follows the last one of a module
/// is something else.
const LARGEST: u64 = 4096;

/// The kernel's variables, by address.
#[derive(Debug, Default)]
pub struct Variables {
    /// Where each begins, and its name among the names.
    starts: Vec<(u64, u32, u32)>,
    names: String,
    /// Whether those of single files are listed too (`CONFIG_KALLSYMS_ALL`). Else what follows one may be another.
    are_all: bool,
}

impl Variables {
    /// What `/proc/kallsyms` lists; nothing for users who may not see addresses.
    pub fn read(files: &dyn Sys) -> Variables {
        let list = files.read(Path::new("/proc/kallsyms")).unwrap_or_default();
        let mut found = Variables::default();
        for line in list.split(|byte| *byte == b'\n') {
            let Some((address, is_static, name)) =
                std::str::from_utf8(line).ok().and_then(variable)
            else {
                continue;
            };
            found.are_all |= is_static;
            let (Ok(at), Ok(length)) = (found.names.len().try_into(), name.len().try_into()) else {
                break;
            };
            found.names.push_str(name);
            found.starts.push((address, at, length));
        }
        // Modules are listed behind the kernel, in no order.
        found.starts.sort_unstable();
        found
    }

    /// The name of the variable in which the address is, with how far behind its beginning that is; `None` of memory that is none.
    pub fn name(&self, address: u64) -> Option<String> {
        let next = self.starts.partition_point(|it| it.0 <= address);
        let &(start, at, length) = self.starts.get(next.checked_sub(1)?)?;
        let name = self.names.get(at as usize..at as usize + length as usize)?;
        match address - start {
            0 => Some(name.to_owned()),
            behind if behind < LARGEST && self.are_all => Some(format!("{name}+{behind:#x}")),
            _ => None,
        }
    }
}

/// The address of a variable, whether it is one of a single file, and its name, if that is what a line is about. Hidden addresses are 0.
fn variable(line: &str) -> Option<(u64, bool, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    let is_static = matches!(kind, "b" | "d");
    (matches!(kind, "b" | "B" | "d" | "D") && address != 0).then_some((address, is_static, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn of(list: &str) -> Variables {
        Variables::read(&Fake::default().file("/proc/kallsyms", list))
    }

    #[test]
    fn an_address_in_a_variable_has_its_name_and_others_have_none() {
        let list = "ffffffff81000000 T _text\nffffffff82000040 d rtnl_mutex\nffffffff82000080 D cgrp_dfl_root\n\
                    ffffffff82001000 T _einittext\nffffffffc0000000 b module_lock\t[module]\nffffffff82000000 d first\n";
        let variables = of(list);
        let name = |address| variables.name(address);
        assert_eq!(name(0xffff_ffff_8200_0040).as_deref(), Some("rtnl_mutex"));
        assert_eq!(name(0xffff_ffff_8200_0060).as_deref(), Some("rtnl_mutex+0x20"));
        assert_eq!(name(0xffff_ffff_8200_0090).as_deref(), Some("cgrp_dfl_root+0x10"));
        assert_eq!(name(0xffff_ffff_c000_0000).as_deref(), Some("module_lock"));
        // Before the first, in a function, and in memory that was allocated.
        for other in [0x1000, 0xffff_ffff_8100_0000, 0xffff_8881_0000_1000, 0xffff_ffff_8200_2000] {
            assert_eq!(name(other), None, "{other:#x}");
        }
    }

    #[test]
    fn where_not_all_are_listed_only_the_beginning_of_one_is_certain() {
        let variables = of("ffffffff82000040 D init_task\nffffffff82002000 T function\n");
        assert_eq!(variables.name(0xffff_ffff_8200_0040).as_deref(), Some("init_task"));
        assert_eq!(variables.name(0xffff_ffff_8200_0060), None);
    }

    #[test]
    fn where_addresses_are_hidden_there_are_no_names() {
        let variables = of("0000000000000000 d rtnl_mutex\n0000000000000000 D other\n");
        assert_eq!(variables.name(0), None);
        assert_eq!(variables.name(16), None);
        assert_eq!(of("").name(0xffff_ffff_8200_0040), None);
    }
}
