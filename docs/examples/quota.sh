# A service in a cgroup uses up its quota when it has more to do than usual.
# shellcheck shell=bash
cat >checkout.py <<'P'
import time
open('/proc/self/comm', 'w').write('checkout')
def work(ms):
    end = time.process_time() + ms / 1e3
    while time.process_time() < end: pass
requests = 0
while True:
    requests += 1
    work(40 if requests % 20 == 0 else 3)
    time.sleep(.05)
P
# 20 ms of each 100 ms, with either version of cgroups.
if [[ -d /sys/fs/cgroup/cpu ]]; then
    group=/sys/fs/cgroup/cpu/shop
    limit() { echo 100000 >$group/cpu.cfs_period_us && echo "$1" >$group/cpu.cfs_quota_us; }
else
    group=/sys/fs/cgroup/shop
    limit() { echo "$1 100000" >$group/cpu.max; }
fi
finish() {
    kill "$service" 2>/dev/null && wait "$service" 2>/dev/null || true
    rmdir "$group"
}
mkdir $group
limit 20000
bash -c 'echo $$ >"$0/cgroup.procs"; exec python3 checkout.py' $group &
service=$!
trap finish EXIT
sleep 1

block record
run 'sudo fxtrec -a -d 5s' '/^  \(quotas\|throttled\|worst wait\)/!d'

block why
run 'fxtrec why system.fxt --thread checkout' '/^What it waited for/,/^$/d; / 0\.0 %/d'

limit 60000
block fixed
run "sudo fxtrec --no-summary -a -d 5s -o fixed.fxt --fail-if 'throttled.max > 10ms'"
