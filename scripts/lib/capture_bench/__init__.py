"""The modules of scripts/bench-capture.

workloads   programs that switch a lot, and how long one of their operations took
process     a recorder's processes: starting them, what they use, ending them
recorders   perf record, a raw ftrace reader, tracebox, wprof, each source of fxtrec
rounds      running all of them in turn
quiet       whether the machine was quiet meanwhile
results     all runs as a file, to make tables from
table       medians, and how they are printed
"""
