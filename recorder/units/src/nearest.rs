//! Suggestions for a mistyped name.

/// Longer names, in bytes, are not compared: the time grows with the square of the length.
const COMPARED: usize = 200;

/// At most `most` of the `names` that are similar to `wanted`, the most similar first.
pub fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let wanted_folded = wanted.to_lowercase();
    let letters = wanted_folded.trim_matches(['*', '?']);
    let bound = (letters.len() / 3).max(1);
    let mut ranked: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            let folded = name.to_lowercase();
            // A matching part of a name counts as one wrong letter.
            if letters.len() > 2 && folded.contains(letters) {
                return Some((1, name));
            }
            // If `wanted` has no path, only the last part of a path is compared.
            let tail = if letters.contains("::") { &folded } else { last_part(&folded) };
            distance(letters, tail, bound).map(|distance| (distance, name))
        })
        .collect();
    ranked.sort_by(|a, b| (a.0, a.1.len(), a.1).cmp(&(b.0, b.1.len(), b.1)));
    ranked.dedup_by(|a, b| a.1 == b.1);
    ranked.into_iter().take(most).map(|(_, name)| name).collect()
}

fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// How many letters must be changed, added, removed or swapped to get from one to the other, if not more than `bound`.
fn distance(a: &str, b: &str, bound: usize) -> Option<usize> {
    if a.len().max(b.len()) > COMPARED || a.len().abs_diff(b.len()) > bound {
        return None;
    }
    Some(strsim::osa_distance(a, b)).filter(|distance| *distance <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_what_was_meant() {
        let names = ["render_frame", "render_frames", "main", "_init", "app::render_frame"];
        assert_eq!(
            nearest("rendr_frame", names, 3),
            ["render_frame", "app::render_frame", "render_frames"]
        );
        assert_eq!(nearest("Render_Frame", names, 1), ["render_frame"]);
    }

    #[test]
    fn a_part_of_a_name_finds_it_and_nothing_alike_finds_nothing() {
        let names = ["__memcpy_avx_unaligned", "memmove", "main"];
        assert_eq!(nearest("memcpy", names, 5), ["__memcpy_avx_unaligned"]);
        assert!(nearest("quux", names, 5).is_empty());
    }

    #[test]
    fn a_slip_of_the_hand_is_understood_and_another_word_is_not() {
        let known = ["wakeup", "preempt", "runqueue", "switches_per_s"];
        let near = |word| nearest(word, known, 1).first().copied();
        assert_eq!(near("wakup"), Some("wakeup"));
        assert_eq!(near("Wakeup"), Some("wakeup"));
        assert_eq!(near("run_queue"), Some("runqueue"));
        assert_eq!(near("switches_per_sec"), Some("switches_per_s"));
        assert_eq!(near("throughput"), None);
    }
}
