//! A file on a slow disk: this process mounts the file system itself (FUSE), and its server delays `fsync`.
//!
//! The root of the file system is the file, so only few requests arrive. The layouts are those of `linux/fuse.h`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const INIT: u32 = 26;

/// Lengths of `fuse_in_header`, `fuse_init_out`, `fuse_attr_out` and `fuse_open_out`.
const HEADER: usize = 40;
const INIT_OUT: usize = 64;
const ATTR_OUT: usize = 104;
const OPEN_OUT: usize = 16;

/// Larger than any request that arrives, as the kernel requires.
const REQUEST: usize = 1 << 17;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// The answer to a request, or the error; `fsync` takes this long.
fn answer(opcode: u32, fsync: Duration) -> Result<Vec<u8>, i32> {
    match opcode {
        INIT => {
            let mut out = vec![0; INIT_OUT];
            // Version 7.31; the maximum size of a write.
            put(&mut out, 0, 7);
            put(&mut out, 4, 31);
            put(&mut out, 20, 4096);
            Ok(out)
        }
        GETATTR => {
            let mut out = vec![0; ATTR_OUT];
            // The inode's number, mode and number of links, after the time for which they are valid.
            put(&mut out, 16, 1);
            put(&mut out, 76, libc::S_IFREG | 0o600);
            put(&mut out, 80, 1);
            Ok(out)
        }
        OPEN => Ok(vec![0; OPEN_OUT]),
        RELEASE => Ok(Vec::new()),
        FSYNC => {
            std::thread::sleep(fsync);
            Ok(Vec::new())
        }
        _ => Err(libc::ENOSYS),
    }
}

/// Answers requests until the file system is unmounted.
fn serve(mut device: File, fsync: Duration) {
    let mut request = vec![0; REQUEST];
    while let Ok(length) = device.read(&mut request) {
        assert!(length >= HEADER, "a request begins with a header");
        let (body, error) = match answer(u32_at(&request, 4), fsync) {
            Ok(body) => (body, 0),
            Err(error) => (Vec::new(), -error),
        };
        let length = u32::try_from(16 + body.len()).expect("a short answer");
        let unique = &request[8..16];
        let reply = [&length.to_ne_bytes(), &error.to_ne_bytes(), unique, &body[..]].concat();
        // The caller may have ended.
        let _ = device.write(&reply);
    }
}

/// Mounts a file there that only this process sees, served by a thread that calls `begin` first.
pub(crate) fn slow(path: &Path, fsync: Duration, begin: impl FnOnce() + Send + 'static) -> File {
    // It disappears with this process.
    unshare(CloneFlags::CLONE_NEWNS).expect("root may");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("root may");
    File::create(path).expect("a place for a file");
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").expect("FUSE");
    let options = format!("fd={},rootmode=100000,user_id=0,group_id=0", device.as_raw_fd());
    mount(Some("slow"), path, Some("fuse"), MsFlags::empty(), Some(options.as_str()))
        .expect("root may");
    std::thread::spawn(move || {
        begin();
        serve(device, fsync);
    });
    OpenOptions::new().write(true).open(path).expect("it is served")
}
