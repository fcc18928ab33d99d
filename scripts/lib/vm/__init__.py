"""Boots real kernels in QEMU and runs fxtrec there: see scripts/vm."""
