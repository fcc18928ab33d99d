#!/bin/bash
# The last wait of `request-loop` for Python's interpreter lock is long; after it, the program ends.
# needs: python3
# expect: request-loop\[\d+\].*after its last idle wait.*pdf-export\[\d+\]
. "$(dirname "$0")/lib.sh"
begin
cat >s.py <<'P'
from scene import *
import re
def export():
    name('pdf-export'); time.sleep(.4)
    if not quiet: re.match(r'(a+)+$', 'a' * 24 + 'b')
thread = threading.Thread(target=export); thread.start(); name('request-loop'); worst, end = Worst(), now() + .5
while now() < end:
    begun = now(); time.sleep(.005); worst.add(begun + .005, now() - begun - .005)
thread.join(); worst.tell('request-loop')
P
python3 s.py
