#!/bin/bash
# A writer locks the database for 300 ms. SQLite's busy handler in `order-entry` sleeps and tries again. needs: python3
# expect: order-entry\[\d+\].*slept \d+ times in \w+.*nightly-batch\[\d+\]
. "$(dirname "$0")/lib.sh"
begin
cat >s.py <<'P'
from scene import *
import sqlite3
main = sqlite3.connect('x.db'); main.execute('pragma journal_mode=wal'); main.execute('create table t(n)'); main.commit()
def batch():
    name('nightly-batch'); own = sqlite3.connect('x.db', isolation_level=None); time.sleep(.4)
    own.execute('begin immediate'); own.execute('insert into t values(1)')
    if not quiet: time.sleep(.3)
    own.execute('commit')
thread = threading.Thread(target=batch); thread.start(); name('order-entry'); worst = Worst()
for i in range(150):
    begun = now(); main.execute('insert into t values(2)'); main.commit(); worst.add(begun, now() - begun); time.sleep(.005)
thread.join(); worst.tell('order-entry')
P
rm -f x.db*
python3 s.py
