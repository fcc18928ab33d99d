//! The kernel's symbols (`/proc/kallsyms`): names of its functions and variables, by address.
//!
//! A kernel has a hundred thousand of them, and takes 30 ms to list them. So a recording reads the list once, before there are events, and
//! all code that needs names shares it.

use std::path::Path;

use crate::sys::Sys;

/// How far after the beginning of a variable an address may be. The list has no lengths, and the memory after the last variable of a module
/// belongs to something else.
const LARGEST: u64 = 4096;

/// The kernel's functions and variables. Users who may not see addresses get no symbols.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KernelSymbols {
    functions: Table,
    variables: Table,
    /// Whether variables of single files are listed too (`CONFIG_KALLSYMS_ALL`). Otherwise, the memory after a listed variable may belong
    /// to another variable.
    all_variables: bool,
    /// Where the kernel's own code begins and ends. Other symbols have the same addresses.
    pub(crate) text: [Option<u64>; 2],
}

/// Names by address.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    /// Addresses in ascending order; where each name begins in `names`, and its length.
    starts: Vec<(u64, u32, u32)>,
    names: Vec<u8>,
}

impl Table {
    fn push(&mut self, address: u64, name: &[u8]) {
        let (Ok(at), Ok(length)) = (self.names.len().try_into(), name.len().try_into()) else {
            return;
        };
        self.names.extend_from_slice(name);
        self.starts.push((address, at, length));
    }

    /// Modules are listed after the kernel, in no particular order. If an address has several names, the first in the list stays.
    fn sort(&mut self) {
        self.starts.sort_by_key(|it| it.0);
        self.starts.dedup_by_key(|it| it.0);
        self.starts.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    /// The last symbol that begins at or before the address: its beginning and name.
    fn find(&self, address: u64) -> Option<(u64, &str)> {
        let next = self.starts.partition_point(|it| it.0 <= address);
        let &(start, at, length) = self.starts.get(next.checked_sub(1)?)?;
        let name = self.names.get(at as usize..at as usize + length as usize)?;
        Some((start, std::str::from_utf8(name).ok()?))
    }
}

impl KernelSymbols {
    /// Reads the list of the running kernel.
    pub fn read(files: &dyn Sys) -> KernelSymbols {
        let list = files.read(Path::new("/proc/kallsyms")).unwrap_or_default();
        let mut symbols = KernelSymbols::default();
        for line in list.split(|byte| *byte == b'\n') {
            let Some((address, kind, name)) = symbol(line) else { continue };
            match name {
                b"_stext" => symbols.text[0] = Some(address),
                b"_etext" => symbols.text[1] = Some(address),
                _ => {}
            }
            match kind {
                b't' | b'T' | b'w' | b'W' => symbols.functions.push(address, name),
                b'b' | b'B' | b'd' | b'D' => {
                    symbols.all_variables |= kind.is_ascii_lowercase();
                    symbols.variables.push(address, name);
                }
                _ => {}
            }
        }
        symbols.functions.sort();
        symbols.variables.sort();
        symbols
    }

    /// The function whose code `address` is in: its name, and the bytes from its beginning.
    pub fn function(&self, address: u64) -> Option<(&str, u64)> {
        let (start, name) = self.functions.find(address)?;
        Some((name, address - start))
    }

    /// The name of the function that begins at `address`.
    pub fn function_at(&self, address: u64) -> Option<&str> {
        self.function(address).filter(|it| it.1 == 0).map(|it| it.0)
    }

    /// The name of the variable that `address` is in, with the bytes from its beginning; `None` for other memory.
    pub fn variable(&self, address: u64) -> Option<String> {
        let (start, name) = self.variables.find(address)?;
        match address - start {
            0 => Some(name.to_owned()),
            behind if behind < LARGEST && self.all_variables => Some(format!("{name}+{behind:#x}")),
            _ => None,
        }
    }
}

/// Address, kind and name of a line: `ffffffff81000000 T _text`, with the module in brackets after a tab. Hidden addresses are 0.
fn symbol(line: &[u8]) -> Option<(u64, u8, &[u8])> {
    let (digits, rest) = line.split_first_chunk::<16>()?;
    let &[b' ', kind, b' ', ref name @ ..] = rest else { return None };
    let address = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    let name = match name {
        [.., b']'] => name.split(|byte| *byte == b'\t').next()?,
        name => name,
    };
    (address != 0).then_some((address, kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn of(list: &str) -> KernelSymbols {
        KernelSymbols::read(&Fake::default().file("/proc/kallsyms", list))
    }

    #[test]
    fn functions_have_names_at_their_beginning_and_behind_it() {
        let symbols = of("ffffffff81000010 t hrtimer_wakeup\nffffffff81000010 T alias\n\
                          ffffffff81000040 d tick_data\nffffffffc0000000 t own_timer_fn\t[module]\n\
                          ffffffff81000030 W schedule\n0000000000000000 t it_real_fn\nnonsense\n");
        assert_eq!(symbols.function_at(0xffff_ffff_8100_0010), Some("hrtimer_wakeup"));
        assert_eq!(symbols.function_at(0xffff_ffff_c000_0000), Some("own_timer_fn"));
        assert_eq!(symbols.function(0xffff_ffff_8100_0041), Some(("schedule", 0x11)));
        for other in [0, 0xffff_ffff_8100_0011, 0xffff_ffff_8100_0040] {
            assert_eq!(symbols.function_at(other), None, "{other:#x}");
        }
        assert_eq!(symbols.function(0x1000), None);
    }

    #[test]
    fn an_address_in_a_variable_has_its_name_and_others_have_none() {
        let list = "ffffffff81000000 T _text\nffffffff82000040 d rtnl_mutex\nffffffff82000080 D cgrp_dfl_root\n\
                    ffffffff82001000 T _einittext\nffffffffc0000000 b module_lock\t[module]\nffffffff82000000 d first\n";
        let symbols = of(list);
        let name = |address| symbols.variable(address);
        assert_eq!(name(0xffff_ffff_8200_0040).as_deref(), Some("rtnl_mutex"));
        assert_eq!(name(0xffff_ffff_8200_0060).as_deref(), Some("rtnl_mutex+0x20"));
        assert_eq!(name(0xffff_ffff_8200_0090).as_deref(), Some("cgrp_dfl_root+0x10"));
        assert_eq!(name(0xffff_ffff_c000_0000).as_deref(), Some("module_lock"));
        // Before the first symbol, in a function, and in allocated memory.
        for other in [0x1000, 0xffff_ffff_8100_0000, 0xffff_8881_0000_1000, 0xffff_ffff_8200_2000] {
            assert_eq!(name(other), None, "{other:#x}");
        }
    }

    #[test]
    fn where_not_all_are_listed_only_the_beginning_of_a_variable_is_certain() {
        let symbols = of("ffffffff82000040 D init_task\nffffffff82002000 T function\n");
        assert_eq!(symbols.variable(0xffff_ffff_8200_0040).as_deref(), Some("init_task"));
        assert_eq!(symbols.variable(0xffff_ffff_8200_0060), None);
    }

    #[test]
    fn where_addresses_are_hidden_there_are_no_names() {
        let symbols = of("0000000000000000 d rtnl_mutex\n0000000000000000 D other\n");
        assert_eq!(symbols, KernelSymbols::default());
        assert_eq!(
            (symbols.variable(0), symbols.variable(16), symbols.function(16)),
            (None, None, None)
        );
        assert_eq!(of("").variable(0xffff_ffff_8200_0040), None);
    }
}
