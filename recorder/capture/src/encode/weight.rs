//! The `weight` arguments of scheduling records.
//!
//! Readers show them as a thread's priority, and take the least value as the
//! sign that a side of a switch is the idle task.

use fxtrec_units::Tid;

/// The weight that marks the idle task.
pub const IDLE: i32 = i32::MIN;

/// The weight of threads that always go before others: real-time and deadline.
pub const REAL_TIME: i32 = i32::MAX;

/// The weight of a thread that nobody has made nicer or less nice.
pub const NICE_0: i32 = 1024;

/// Kernel priority of nice -20; everything below is real-time or deadline.
const FIRST_NICE_PRIO: i32 = 100;

/// Load weights of the fair scheduler for nice -20 to 19: each step is about 25 %, nice 0 is 1024.
const NICE_WEIGHTS: [i32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, //
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, //
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, //
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a thread with the kernel priority `prio`: 100 to 139 stand for nice -20 to 19.
pub fn weight(tid: Tid, prio: i32) -> i32 {
    if tid == Tid::IDLE {
        return IDLE;
    }
    if prio < FIRST_NICE_PRIO {
        return REAL_TIME;
    }
    let step = (prio - FIRST_NICE_PRIO) as usize;
    NICE_WEIGHTS[step.min(NICE_WEIGHTS.len() - 1)]
}

/// The kernel priority that has this weight: for weights between two nice levels that of the
/// lower one, for real-time threads the highest of theirs, for the idle task that of nice 0.
pub fn priority(weight: i32) -> i32 {
    match weight {
        IDLE => FIRST_NICE_PRIO + 20,
        REAL_TIME => FIRST_NICE_PRIO - 1,
        weight => {
            let step = NICE_WEIGHTS.partition_point(|level| *level > weight);
            FIRST_NICE_PRIO + step.min(NICE_WEIGHTS.len() - 1) as i32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_levels_have_the_kernels_load_weights() {
        assert_eq!(weight(Tid(1), 120), 1024);
        assert_eq!(weight(Tid(1), 100), 88761);
        assert_eq!(weight(Tid(1), 139), 15);
        let weights: Vec<i32> = (100..140).map(|prio| weight(Tid(1), prio)).collect();
        assert!(weights.is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn real_time_deadline_and_idle_have_their_marks() {
        assert_eq!(weight(Tid(1), 99), REAL_TIME);
        assert_eq!(weight(Tid(1), -1), REAL_TIME);
        assert_eq!(weight(Tid(0), 120), IDLE);
        assert_eq!(weight(Tid(1), 140), 15);
    }

    #[test]
    fn a_weight_leads_back_to_its_priority() {
        for prio in 100..140 {
            assert_eq!(priority(weight(Tid(1), prio)), prio);
        }
        assert_eq!((priority(REAL_TIME), priority(IDLE), priority(1000)), (99, 120, 121));
    }
}
