# The effects of the host, quotas, interrupts and the scheduler on threads: an example of each fact.
# shellcheck shell=bash
# 5 ms of each 100 ms, with either version of cgroups.
if [[ -d /sys/fs/cgroup/cpu ]]; then
    group=/sys/fs/cgroup/cpu/quota
    mkdir $group
    echo 100000 >$group/cpu.cfs_period_us
    echo 5000 >$group/cpu.cfs_quota_us
else
    group=/sys/fs/cgroup/quota
    mkdir $group
    echo '5000 100000' >$group/cpu.max
fi
trap 'rmdir $group' EXIT
cat >busy.sh <<S
echo \$\$ >$group/cgroup.procs
exec timeout 2 sh -c 'while :; do :; done'
S

block throttled
run 'sudo fxtrec -o throttled.fxt -- sh busy.sh' '/^  \(quotas\|throttled\)/!d'
run 'fxtrec report throttled.fxt --comm sh --show threads --rows 1' '/^  \(TOTAL\|and\) /d; /^$/d'
run 'fxtrec why throttled.fxt' '/^$/,$d'

block periods
run 'fxtrec dump throttled.fxt | grep throttled | grep async' '3,$d'

block gate
run "fxtrec report throttled.fxt --show head --fail-if 'throttled.max > 10ms'" '/^gate/,$!d'
sleep 0.2

cat >loops.sh <<'S'
for cpu in 0 1; do taskset -c $cpu timeout 2 sh -c 'while :; do :; done' & done
dd if=/dev/zero of=disk bs=4k count=8000 oflag=direct
wait
S
block interrupted
run 'sudo fxtrec -q -o irq.fxt -- sh loops.sh' d
run 'fxtrec report irq.fxt --comm sh --show causes' '/Blocked in/,/^  [^s-]* /{/^  the host/!d}; /^  sh.* \(wait4\|rt_sigsuspend\|vfork\) /d; /^$/d'

cat >send.sh <<'S'
taskset -c 0 sh -c 'while :; do :; done' & first=$!
taskset -c 0 sh -c 'while :; do :; done' & second=$!
for cpu in 1 0 1; do sleep 0.3; taskset -p -c $cpu $first >/dev/null; done
sleep 0.3; kill $first $second
S
block moved
run 'sudo fxtrec -q -o moved.fxt -- sh send.sh'
run 'fxtrec report moved.fxt --comm sh --show causes' '/Blocked in/,$d'
run 'fxtrec dump moved.fxt | grep migrate | grep :sh' '4,$d'

cat >across.sh <<'S'
mkfifo fifo
taskset -c 0 cat fifo >/dev/null &
taskset -c 1 sh -c 'for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.01; echo $n; done' >fifo
wait
S
block woken
run 'sudo fxtrec -q -o woken.fxt -- sh across.sh'
run "fxtrec dump woken.fxt | grep -E 'wakeup .*(:cat|:sleep) '" '1,4d; 9,$d'
run 'fxtrec report woken.fxt --comm cat --show worst --worst 1' '/^The worst/d; /^$/d'

cat >maps.py <<'P'
import mmap, os, time
open('/proc/self/comm', 'w').write('maps')
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
kept = [mmap.mmap(-1, 4096, flags, 1 + n % 2 * 2) for n in range(60_000)]
for _ in range(5):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    time.sleep(0.05)
P
cat >tick.py <<'P'
import time
open('/proc/self/comm', 'w').write('tick')
while True:
    time.sleep(0.001)
P
cat >late.sh <<'S'
chrt -f 1 timeout 2 python3 tick.py &
python3 maps.py
S
block yielded
run 'sudo fxtrec -q --need-resched -o late.fxt -- taskset -c 1 sh late.sh'
run 'fxtrec report late.fxt --comm tick --show worst --worst 1' '/^The worst/d; /^$/d'
run 'fxtrec report late.fxt --comm maps --show threads --metric need_resched --rows 2' '/^$/d'

cat >calls.py <<'P'
import os, select, threading, time
def run(name, call):
    open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write(name)
    for _ in range(100):
        call()
ours, others = os.pipe()
calls = {
    'sleeper': lambda: time.sleep(.002),
    'poller': lambda: select.select([], [], [], .002),
    'reader': lambda: os.read(ours, 1),
    'writer': lambda: (time.sleep(.002), os.write(others, b'x')),
}
for name, call in calls.items():
    threading.Thread(target=run, args=(name, call)).start()
P
block calls
run 'sudo fxtrec -q -o calls.fxt -- python3 calls.py'
run "fxtrec report calls.fxt --comm '*er' --show causes" '/Blocked in/,/not recorded/!d; /not recorded/d'
