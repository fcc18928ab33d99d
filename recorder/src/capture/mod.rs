//! From kernel samples to typed events in time order, with every loss accounted for.
