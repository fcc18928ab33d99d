# Functions, USDT probes, tracepoints, system calls, interrupts, and spans of an application.
# shellcheck shell=bash
gcc -O2 -g -pthread "$TOP/tests/programs/audio.c" -o audio
gcc -O1 -g -pthread "$TOP/tests/programs/calls.c" -o app
cat >app.py <<'P'
import json, time
import fxt_provider as fxt

fxt.init('app')

@fxt.traced('app')
def load(text):
    with fxt.span('app', 'parse', size=len(text)):
        data = json.loads(text)
    fxt.counter('app', 'items', count=len(data))
    time.sleep(0.002)

text = json.dumps(list(range(20000)))
for _ in range(40):
    load(text)
P
echo 'import gc; gc.collect()' >collect.py
export PYTHONPATH=$TOP/fxt-writer/python

block span
run 'sudo fxtrec -q -P :process_block%span -- ./audio' '/^the longest/d'
run 'fxtrec report audio.fxt --show spans' '/^$/,$d'
run 'fxtrec why audio.fxt --span process_block' '/^$/,$d'

block list
run 'fxtrec probes ./app work'

# Lines of `dump` without the columns before the kind of record: offset and time.
block arguments
run 'sudo fxtrec -q -P '\'':work number=arg1:s32 name=arg2:str'\'' -- ./app 2'
run 'fxtrec dump app.fxt | grep '\''instant.*"work"'\''' 's/^ *[0-9]* *[0-9.]* *//'
run 'sudo fxtrec -q -o returns.fxt -P '\'':work%return v=ret:s32'\'' -- ./app 2'
run 'fxtrec dump returns.fxt | grep '\''instant.*"work'\''' 's/^ *[0-9]* *[0-9.]* *//'

block usdt
run 'fxtrec probes /usr/bin/python3.11 '\''usdt:python:gc*'\'''
run 'sudo fxtrec -q -P '\''/usr/bin/python3.11:usdt:python:gc__*'\'' -o gc.fxt -- /usr/bin/python3.11 collect.py'
run 'fxtrec dump gc.fxt | grep '\''instant.*"usdt"'\'' | head -2' 's/^ *[0-9]* *[0-9.]* *//'

block provider
run 'sudo fxtrec -q -o py.fxt -- python3 app.py'
run 'fxtrec report py.fxt' '/^\(Spans\|Counters\)/,/^$/!d'
run 'fxtrec why py.fxt --span load' '/^$/,$d'

block tracepoint
run 'sudo fxtrec -q -e sched:sched_process_exec -o exec.fxt -- ./app 1'
run 'fxtrec dump exec.fxt | grep exec.*filename=' 's/^ *[0-9]* *[0-9.]* *//'

block syscalls
run 'sudo fxtrec -q --syscalls=*nanosleep -- sleep 0.1'
run 'fxtrec dump sleep.fxt | grep '\''duration.*"syscall"'\''' 's/^ *[0-9]* *[0-9.]* *//'

block interrupts
run 'sudo fxtrec -q --irq -o irq.fxt -- sleep 0.1'
run 'fxtrec dump irq.fxt | grep '\''duration.*"irq"'\'' | head -2' 's/^ *[0-9]* *[0-9.]* *//'
