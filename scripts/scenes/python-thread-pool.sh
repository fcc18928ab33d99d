#!/bin/bash
# Both workers of a pool wait for slow storage (a sleep), and a small task of `request-loop` waits for one of them.
# needs: python3
# expect: request-loop\[\d+\].*woken by pool-[01]\[\d+\], which (slept|was blocked)
. "$(dirname "$0")/lib.sh"
begin
cat >s.py <<'P'
from scene import *
from concurrent.futures import ThreadPoolExecutor
names = iter(['pool-0', 'pool-1'])
pool = ThreadPoolExecutor(2, initializer=lambda: name(next(names)))
small = lambda: sum(range(2000))
name('request-loop'); worst, begun_at, planted = Worst(), now(), quiet
while now() < worst.until(begun_at + 1.5):
    if not planted and now() > begun_at + .6:
        planted = True
        for i in range(2): pool.submit(time.sleep, .25)
    begun = now(); pool.submit(small).result(); worst.add(begun, now() - begun); time.sleep(.004)
worst.tell('request-loop')
P
python3 s.py
