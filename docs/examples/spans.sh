# A service with spans and a counter, whose CPU three processes of xz use too, from its sixteenth request on.
# shellcheck shell=bash
export PYTHONPATH=$TOP/fxt-writer/python
cat >shop.py <<'P'
import os, subprocess, time
import fxt_provider as fxt
os.sched_setaffinity(0, {0})
open('/proc/self/comm', 'w').write('shop')
fxt.init('shop')
fxt.wait_for_session(2)
def work(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end: pass
waiting = 40
for number in range(40):
    waiting -= 1
    if number == 15:
        command = ['xz', '-c', '/dev/urandom']
        others = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    fxt.counter('shop', 'queue', waiting=waiting)
    with fxt.span('shop', 'request', number=number):
        work(3)
        with open('shop.log', 'a') as log:
            log.write('request %d\n' % number)
            log.flush()
            os.fsync(log.fileno())
    time.sleep(.01)
for other in others: other.kill()
P

block report
run 'sudo fxtrec -q -o shop.fxt -- python3 shop.py'
run 'fxtrec report shop.fxt --show spans,counters'
run 'fxtrec why shop.fxt --span request' '/^What it waited for/,/^$/d; /^Where in the code/,/^$/d; / 0\.[01] %/d'
