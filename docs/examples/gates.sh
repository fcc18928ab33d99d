# Tests of a server that shares its CPU with two other processes.
# shellcheck shell=bash
export PYTHONPATH=$TOP/fxt-writer/python
cat >server.py <<'P'
import sys, time
import fxt_provider as fxt
def name(text):
    open('/proc/self/comm', 'w').write(text)
def work(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end: pass
name('server')
fxt.init('app')
for _ in range(120):
    with fxt.span('app', 'request'):
        work(float(sys.argv[1]))
    time.sleep(.003)
P
cat >run-tests <<'S'
#!/bin/sh
exec taskset -c 0 python3 server.py "${WORK:-2}"
S
chmod +x run-tests

taskset -c 0 stress-ng --quiet --cpu 2 --cpu-method int64 &
others=$!
trap 'kill $others' EXIT

block fail
run 'sudo fxtrec -q --fail-if '\''runqueue.p99 > 5ms if command'\'' --fail-if '\''lost > 0'\'' -- ./run-tests'
[[ $STATUS == 3 ]]
run 'echo $?'

block why
run 'fxtrec why run-tests.fxt' '/^$/,$d'

block later
run 'fxtrec report run-tests.fxt --fail-if '\''cpu_time > 3s if command'\'' > /dev/null'

block disturbed
run 'sudo fxtrec -q --on-disturbed exit-4 --fail-if '\''span("app:request").p90 > 8ms'\'' -o spans.fxt -- ./run-tests'
[[ $STATUS == 4 ]]
run 'echo $?'

kill $others
wait $others || true
trap - EXIT
for run in 1 2 3 4 5; do
    for side in base:2 new:4; do
        WORK=${side#*:} fxtrec -q --scope app -o "${side%:*}-$run.fxt.zst" -- ./run-tests
    done
done

block compare
run 'fxtrec compare --fail-if-worse 10% base-*.fxt.zst -- new-*.fxt.zst'
[[ $STATUS == 3 ]]

block spans
run 'fxtrec compare --metric '\''span("app:request").p90'\'' base-*.fxt.zst -- new-*.fxt.zst'

block invalid
run 'fxtrec report run-tests.fxt --fail-if '\''wakeup.p98 > 2ms'\''' '/^$/{N;/--help/d}'
