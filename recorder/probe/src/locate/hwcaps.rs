//! Libraries built for newer processors, which the loader prefers if the processor supports them.

use std::path::Path;

/// Names below `glibc-hwcaps` whose code this processor runs, the best first.
pub(super) fn levels() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let v2 = has!("sse4.2") && has!("ssse3") && has!("popcnt") && has!("cmpxchg16b");
        let v3 = v2
            && has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("f16c")
            && has!("fma")
            && has!("lzcnt")
            && has!("movbe");
        let v4 = v3
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512cd")
            && has!("avx512dq")
            && has!("avx512vl");
        let levels = [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")];
        levels.into_iter().filter(|(runs, _)| *runs).map(|(_, name)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// The loader's preference for a library at `path`: higher is better, `None` means that it is never used.
pub(super) fn preference(path: &Path, levels: &[&str]) -> Option<usize> {
    let mut components = path.components().map(|component| component.as_os_str());
    if !components.any(|component| component == "glibc-hwcaps") {
        return Some(0);
    }
    let level = components.next()?;
    let place = levels.iter().position(|name| level == *name)?;
    Some(levels.len() - place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_level_that_the_processor_has_is_preferred() {
        let levels = ["x86-64-v3", "x86-64-v2"];
        let of = |path: &str| preference(Path::new(path), &levels);
        assert_eq!(of("/lib/libx.so.1"), Some(0));
        assert_eq!(of("/lib/glibc-hwcaps/x86-64-v2/libx.so.1"), Some(1));
        assert_eq!(of("/lib/glibc-hwcaps/x86-64-v3/libx.so.1"), Some(2));
        assert_eq!(of("/lib/glibc-hwcaps/x86-64-v4/libx.so.1"), None);
    }
}
