//! The trace points of C programs.

use std::ffi::c_char;
use std::sync::atomic::{AtomicPtr, Ordering};

use fxt_writer::provider::{Name, Site};

use crate::arg::{Arg, text};

/// A trace point of C: two constant strings, and the library's data about it.
#[derive(Debug)]
#[repr(C)]
pub struct CSite {
    category: *const c_char,
    name: *const c_char,
    known: AtomicPtr<Known>,
}

/// A trace point that has been passed in a session.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) site: &'static Site,
    /// The names of its arguments, with the addresses of their constants.
    names: Box<[(usize, Name)]>,
}

impl Known {
    /// The known names, if they were made from the constants in `args`.
    pub(crate) fn names_of(&'static self, args: &[Arg]) -> Option<&'static [(usize, Name)]> {
        let same = args.len() == self.names.len()
            && args.iter().zip(&self.names).all(|(arg, (known, _))| arg.name.addr() == *known);
        same.then_some(&self.names)
    }
}

impl CSite {
    /// The library's data about it, made on the first pass and never freed.
    ///
    /// # Safety
    ///
    /// Category, name and the names of the arguments must be strings that end in a
    /// NUL; `known` must have been null at first, and only this function may have written it since.
    pub(crate) unsafe fn known(&self, args: &[Arg]) -> &'static Known {
        // Acquire: the data that it points to is visible.
        let known = self.known.load(Ordering::Acquire);
        // SAFETY: null, or a pointer that was leaked below.
        match unsafe { known.as_ref() } {
            Some(known) => known,
            // SAFETY: guaranteed by the caller.
            None => unsafe { self.look_up(args) },
        }
    }

    /// # Safety
    ///
    /// The same as [`known`](Self::known).
    #[cold]
    unsafe fn look_up(&self, args: &[Arg]) -> &'static Known {
        // SAFETY: the caller guarantees that these are strings.
        let (category, name) = unsafe { (text(self.category), text(self.name)) };
        let names = args.iter().map(|arg| {
            // SAFETY: the caller guarantees that this is a string.
            let name = unsafe { text(arg.name) };
            (arg.name.addr(), Name::leaked(&name))
        });
        let known = Known { site: Site::leaked(&category, &name), names: names.collect() };
        let known: &'static Known = Box::leak(Box::new(known));
        // Release: the data that it points to is visible. If two threads race, each creates a trace point; the one that is not stored is
        // leaked.
        self.known.store(std::ptr::from_ref(known).cast_mut(), Ordering::Release);
        known
    }
}
