#!/bin/bash
# A ticker that works for a millisecond shares CPU 1 with four processes of xz for half a second.
# needs: python3 xz-utils
# expect: ticker\[\d+\].*xz\[\d+\]
. "$(dirname "$0")/lib.sh"
prepared || head -c 30000000 /dev/urandom >data
begin
cat >s.py <<'P'
from scene import *
name('ticker'); worst, end = Worst(), now() + 1.6
while now() < worst.until(end):
    begun = now()
    while now() < begun + .001: pass
    worst.add(begun, now() - begun); time.sleep(.005)
P
if [[ ! $quiet ]]; then
    for i in 1 2 3 4; do (sleep 0.8; exec taskset -c 1 timeout 0.5 xz -9 -c data >/dev/null) & done
fi
taskset -c 1 python3 s.py
