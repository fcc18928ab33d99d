# Many traces, hosts and users: the examples of docs/hosts.md.
# shellcheck shell=bash
user=()
fxtrec() { "${user[@]}" "$(type -P fxtrec)" "$@"; }
mkdir runs alerts
for number in 1 2 3; do
    fxtrec -q -o "runs/run-$number.fxt.zst" -- sh -c 'for i in 1 2 3 4 5; do sleep 0.02; ls -R /usr/share/doc >/dev/null; done'
done
fxtrec -q -a -d 1s -o app.fxt

block report
run 'fxtrec report runs/' '/^$/{x;s/^/x/;/^xx/Q;x}'

# DuckDB, for `fxtrec query`.
python3 -m venv --system-site-packages venv
venv/bin/python -c 'import duckdb' 2>/dev/null || venv/bin/pip install --quiet duckdb
PATH=$PWD/venv/bin:$PATH

block query
run "fxtrec query app.fxt 'SELECT count(*), max(dur) FROM wait'" '/^$/d'

fxtrec export -q runs/ -o fleet --format csv --label commit=8f3a2c1
block fleet
run "fxtrec query fleet 'SELECT file, count(*) AS waits, max(dur) AS max_ns FROM wait JOIN trace USING (trace_id) GROUP BY file ORDER BY file'" '/^$/d'

for host in client server; do
    unshare --uts sh -c "hostname $host; fxtrec -q -a -d 300ms -o $host.fxt"
done
block merge
run 'fxtrec merge client.fxt server.fxt -o both.fxt'

block top
run 'sudo fxtrec top --count 1 --interval 2s --rows 3' '/^$/d'

# Users of the group record what the policy permits: here the user nobody.
cat >policy.toml <<'END'
[[allow]]
users = ["nobody"]
kernel = ["sched"]
END
[[ ! -e /run/fxtrec ]] || { echo "/run/fxtrec: there is a daemon already" >&2; exit 1; }
"$(type -P fxtrec)" daemon --group nogroup --policy policy.toml --metrics 9464 --alert-dir alerts \
    --alert 'wakeup.p99 > 1ms' --alert 'runqueue > 5ms' 2>daemon.log &
daemon=$!
trap 'kill "$daemon"; wait "$daemon"; rm -rf /tmp/app.fxt /run/fxtrec' EXIT
until [[ -S /run/fxtrec/control ]] && curl -s http://127.0.0.1:9464/metrics >scrape; do sleep 0.1; done
chmod 755 .. ../bin
rm -f /tmp/app.fxt

user=(setpriv --reuid nobody --regid nogroup --clear-groups)
block session
run 'fxtrec ctl categories'
run 'fxtrec ctl start -o /tmp/app.fxt --categories sched'
sleep 1
run 'fxtrec ctl status'
run 'fxtrec ctl stop'

user=()

# Four programs that share a CPU wait for more than 5 ms.
for _ in 1 2 3 4; do timeout 2 taskset -c 0 sh -c 'while :; do :; done' & done
# Statistics are checked every 10 s; the snapshot follows.
sleep 14
block metrics
run 'curl -s http://127.0.0.1:9464/metrics | grep wakeup_latency_seconds_sum'
kill "$daemon"
wait "$daemon" || true
trap - EXIT
rm -r /tmp/app.fxt /run/fxtrec
block alerts
run 'cat daemon.log'
run 'fxtrec why alerts/alert-*.1.fxt.zst' '/^$/,$d'

perf record -q -a -e sched:sched_switch,sched:sched_wakeup -o perf.data sleep 0.2
block import
run 'fxtrec why perf.data' '/^$/,$d'
