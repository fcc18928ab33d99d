"""What scripts/bench-capture is made of.

workloads   programs that switch a lot, and how long one of their operations took
process     a recorder's processes: starting them, what they use, ending them
recorders   perf record, a raw ftrace reader, each source of fxtrec
rounds      running all of them in turn
table       medians, and how they are printed
"""
