# A thread of a Python program holds the interpreter's lock while it matches a regular expression that backtracks.
# shellcheck shell=bash
cat >shop.py <<'P'
import multiprocessing, re, sys, threading, time
def name(text):
    open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write(text)
def export():
    name('pdf-export')
    time.sleep(.4)
    re.match(r'(a+)+$', 'a' * 24 + 'b')
worker = multiprocessing.Process if '--process' in sys.argv else threading.Thread
worker(target=export).start()
name('request-loop')
end, worst = time.monotonic() + 1.5, 0
while time.monotonic() < end:
    begun = time.monotonic()
    time.sleep(.005)
    worst = max(worst, time.monotonic() - begun - .005)
print(f'the longest delay of a request was {worst * 1e3:.1f} ms')
P

block why
run 'sudo fxtrec -q -o shop.fxt -- python3 shop.py'
run 'fxtrec why shop.fxt' '/^$/,$d'

block fixed
run 'sudo fxtrec -q -o fixed.fxt -- python3 shop.py --process'
