//! The trace points of `tracing`'s callsites.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_core::Metadata;

use crate::provider::site::{Name, Site};

/// A callsite as a trace point, with its fields' names in their order.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) site: &'static Site,
    pub(super) names: Box<[Name]>,
}

/// Callsites that a thread finds without a lock.
const CACHED: usize = 64;

thread_local! {
    /// By the callsite's address; of those with the same slot, the last one is kept.
    static CACHE: [Cell<Option<(usize, &'static Point)>>; CACHED] =
        const { [const { Cell::new(None) }; CACHED] };
}

/// The trace point of this callsite; created on first use and never freed, like
/// callsites.
pub(super) fn point(metadata: &Metadata<'_>) -> &'static Point {
    let callsite = metadata.callsite();
    let address = std::ptr::from_ref(callsite.0).addr();
    let place = (address / align_of::<u64>()) % CACHED;
    let cached = CACHE.try_with(|cache| cache[place].get()).ok().flatten();
    if let Some((_, point)) = cached.filter(|(known, _)| *known == address) {
        return point;
    }
    let point = look_up(address, metadata);
    // A thread that is about to end has no cache.
    let _ = CACHE.try_with(|cache| cache[place].set(Some((address, point))));
    point
}

#[cold]
fn look_up(address: usize, metadata: &Metadata<'_>) -> &'static Point {
    static POINTS: OnceLock<Mutex<HashMap<usize, &'static Point>>> = OnceLock::new();
    let points = POINTS.get_or_init(Mutex::default);
    let mut points = points.lock().unwrap_or_else(PoisonError::into_inner);
    points.entry(address).or_insert_with(|| {
        let names = metadata.fields().iter().map(|field| Name::leaked(field.name())).collect();
        let site = Site::leaked(metadata.target(), metadata.name());
        Box::leak(Box::new(Point { site, names }))
    })
}
