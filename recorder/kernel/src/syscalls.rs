//! The numbers and names of system calls.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// The number in tracepoints.
    pub number: usize,
    pub name: &'static str,
}

/// Above every number in every machine's table.
const END: usize = 1024;

/// System calls of this machine's native programs.
pub fn native() -> impl Iterator<Item = Syscall> {
    let name = |number| syscalls::Sysno::new(number).map(|call| call.name());
    (0..END).filter_map(move |number| Some(Syscall { number, name: name(number)? }))
}

/// System calls of the 32-bit programs that this machine can run.
pub fn of_32_bit_programs() -> impl Iterator<Item = Syscall> {
    #[cfg(target_arch = "x86_64")]
    let name = |number| syscalls::x86::Sysno::new(number).map(|call| call.name());
    #[cfg(target_arch = "aarch64")]
    let name = |number| syscalls::arm::Sysno::new(number).map(|call| call.name());
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let name = |_: usize| None::<&'static str>;
    (0..END).filter_map(move |number| Some(Syscall { number, name: name(number)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_the_c_librarys_numbers() {
        for (number, name) in [
            (libc::SYS_read, "read"),
            (libc::SYS_nanosleep, "nanosleep"),
            (libc::SYS_exit_group, "exit_group"),
            (libc::SYS_clone3, "clone3"),
        ] {
            let call = Syscall { number: number as usize, name };
            assert!(native().any(|known| known == call), "{call:?}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn programs_of_32_bits_have_a_table_of_their_own() {
        let exit = of_32_bit_programs().find(|call| call.name == "exit").expect("it is there");
        assert_eq!(exit.number, 1);
    }
}
