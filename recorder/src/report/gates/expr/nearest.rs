//! What somebody may have meant who wrote a name that is not known.

/// The known name that differs least from `word`, when one is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .map(|name| (strsim::osa_distance(&lower, name), name))
        // One slip in a short name, one for each three letters in a long one.
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_understood_and_another_word_is_not() {
        let known = ["wakeup", "preempt", "runqueue", "switches_per_s"];
        let near = |word| nearest(word, known.into_iter());
        assert_eq!(near("wakup"), Some("wakeup"));
        assert_eq!(near("Wakeup"), Some("wakeup"));
        assert_eq!(near("run_queue"), Some("runqueue"));
        assert_eq!(near("switches_per_sec"), Some("switches_per_s"));
        assert_eq!(near("throughput"), None);
    }
}
