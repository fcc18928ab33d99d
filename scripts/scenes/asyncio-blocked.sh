#!/bin/bash
# A coroutine hashes a password in the event loop, so its timer `tick` is late.
# needs: python3
# expect: event-loop\[\d+\].* ran (for )?[1-9]\d
. "$(dirname "$0")/lib.sh"
begin
cat >s.py <<'P'
from scene import *
import asyncio, hashlib
name('event-loop'); worst = Worst()
async def tick():
    for i in range(300):
        begun = now(); await asyncio.sleep(.004); worst.add(begun + .004, now() - begun - .004)
async def login():
    await asyncio.sleep(.7)
    if not quiet: hashlib.pbkdf2_hmac('sha256', b'secret', b'salt', 300000)
async def main(): await asyncio.gather(tick(), login())
asyncio.run(main()); worst.tell('event-loop')
P
python3 s.py
