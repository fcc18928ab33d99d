//! The files of a series: which files exist, which to keep, and which to remove when the disk is full.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::commands::plan::flight::FlightPlan;
use crate::flight::files::Files;
use crate::sink::outfile::OutputLocation;
use crate::sink::{MakeRoom, SinkError};

/// The files of rotation, or the snapshots of circular mode, of this run and of earlier ones to the same output.
#[derive(Debug)]
pub(super) struct Retained {
    next: u32,
    files: Mutex<Files>,
}

impl Retained {
    /// The files of earlier runs next to the output at `place`; none if `plan` writes one file.
    ///
    /// # Errors
    /// Returns an error when the directory cannot be read.
    pub(super) fn find(
        plan: &FlightPlan,
        place: Option<&OutputLocation>,
    ) -> Result<Arc<Retained>, SinkError> {
        let Some(place) = place else {
            let files = Mutex::new(Files::new(plan.bounds));
            return Ok(Arc::new(Retained { next: 1, files }));
        };
        let path: &Path = place.path();
        let series = place
            .series(|name| plan.number_of(path, name))
            .map_err(|source| SinkError::Refused { name: path.display().to_string(), source })?;
        let files = Mutex::new(Files::after(plan.bounds, series.files));
        Ok(Arc::new(Retained { next: series.next, files }))
    }

    /// The number of this run's first file.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    pub(super) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MakeRoom for Retained {
    fn make_room(&self) -> bool {
        self.files().free_oldest()
    }
}
