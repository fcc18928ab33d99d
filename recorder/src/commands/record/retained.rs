//! The files of a series: which exist, which to keep, which to remove when the disk is full, and whose they are at the end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::commands::plan::flight::FlightPlan;
use crate::flight::files::Files;
use crate::sink::outfile::{Given, OutputLocation};
use crate::sink::{MakeRoom, SinkError};

/// The files of rotation, or the snapshots of circular mode, of this run and of earlier ones to the same output.
#[derive(Debug)]
pub(super) struct Retained {
    next: u32,
    files: Mutex<Files>,
    /// Where they are, until they are given to their owner.
    ungiven: Mutex<Option<OutputLocation>>,
}

/// The result of [`Retained::hand_over`].
#[derive(Debug, Default)]
pub(super) struct HandedOver {
    /// Names at which there is something else than what this run wrote.
    pub(super) replaced: Vec<PathBuf>,
    /// The first file that still belongs to root, and the reason.
    pub(super) failed: Option<String>,
}

impl Retained {
    /// The files of earlier runs next to the output at `place`; none if `plan` writes one file. If files are `given` to their owner at
    /// last, [`Retained::hand_over`] does that.
    ///
    /// # Errors
    /// Returns an error when the directory cannot be read.
    pub(super) fn find(
        plan: &FlightPlan,
        place: Option<&OutputLocation>,
        given: Given,
    ) -> Result<Arc<Retained>, SinkError> {
        let Some(place) = place else {
            let (files, ungiven) = (Mutex::new(Files::new(plan.bounds)), Mutex::new(None));
            return Ok(Arc::new(Retained { next: 1, files, ungiven }));
        };
        let path: &Path = place.path();
        let series = place
            .series(|name| plan.number_of(path, name))
            .map_err(|source| SinkError::Refused { name: path.display().to_string(), source })?;
        let files = Mutex::new(Files::after(plan.bounds, series.files));
        let ungiven = Mutex::new((given == Given::AtLast).then(|| place.clone()));
        Ok(Arc::new(Retained { next: series.next, files, ungiven }))
    }

    /// The number of this run's first file.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Gives the files of this run to their owner, once.
    pub(super) fn hand_over(&self) -> HandedOver {
        let place = self.ungiven.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut result = HandedOver::default();
        let Some(place) = place else { return result };
        for (path, id, bytes) in self.files().ours() {
            match place.beside(path.file_name().unwrap_or_default()).hand_over(id, bytes) {
                Ok(true) => {}
                Ok(false) => result.replaced.push(path.to_owned()),
                Err(error) => {
                    let text = || format!("{} still belongs to root: {error}", path.display());
                    result.failed.get_or_insert_with(text);
                }
            }
        }
        result
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
