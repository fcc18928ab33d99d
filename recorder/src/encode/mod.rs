//! From typed events to FXT records: koids, names, states, weights, and each CPU's chain of threads.
