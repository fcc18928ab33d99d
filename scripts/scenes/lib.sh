# Shared by the scenes: real programs with one cause planted by configuration or input. scripts/check-scenes records each as COMMAND, and
# compares the first sentence of `fxtrec why` with the line `# expect:` of the scene. QUIET=1 omits the cause. The victim prints its worst
# interval by CLOCK_MONOTONIC.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
quiet=${QUIET:-}
scene_dir=${SCENE_DIR:-$(mktemp -d)}
chmod 755 "$scene_dir"
cd "$scene_dir"
children=()
finish() {
    local child
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    wait
    [[ ${SCENE_DIR:-} ]] || { cd / && rm -rf "$scene_dir"; }
}
trap finish EXIT
trap 'exit 143' TERM INT HUP

# The part that is built before the recording: PREPARE=1 does only that, in SCENE_DIR; a later run in that directory finds it there.
prepared() { [[ ${SCENE_DIR:-} && ! ${PREPARE:-} ]]; }
begin() { [[ ! ${PREPARE:-} ]] || exit 0; }

# Waits until a port of this machine accepts connections.
await_port() {
    local try
    for ((try = 0; try < 100; try++)); do
        if (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        sleep 0.05
    done
    echo "nobody listens on port $1" >&2
    exit 1
}

# client NAME PORT SECONDS MESSAGE: a thread NAME that sends MESSAGE repeatedly, with 3 ms between answers.
cat >client.py <<'P'
import socket, sys, time
name, port, seconds, message = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
message = message.encode().decode('unicode_escape').encode()
open('/proc/self/comm', 'w').write(name)
connection = socket.create_connection(('127.0.0.1', port))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
now = lambda: time.clock_gettime(time.CLOCK_MONOTONIC)
worst, at, end = 0, 0, now() + seconds
# It goes on for a while after the worst interval: that must not be the end of the recording.
while now() < max(end, at + worst + 0.3):
    begun = now()
    connection.sendall(message)
    if not connection.recv(65536):
        sys.exit('the server closed the connection')
    took = now() - begun
    if took > worst:
        worst, at = took, begun
    time.sleep(0.003)
print('victim %s from %.6f to %.6f' % (name, at, at + worst), flush=True)
P
client() { python3 client.py "$@"; }

# For threads of Python programs: `from scene import *`.
cat >scene.py <<'P'
import os, threading, time
quiet = bool(os.environ.get('QUIET'))
def name(text): open('/proc/self/task/%d/comm' % threading.get_native_id(), 'w').write(text)
now = lambda: time.clock_gettime(time.CLOCK_MONOTONIC)
class Worst:
    def __init__(self): self.took, self.at = 0, 0
    def add(self, begun, took):
        if took > self.took: self.took, self.at = took, begun
    # A loop goes on for a while after the worst interval: that must not be the end of the recording.
    def until(self, end): return max(end, self.at + self.took + .3)
    def tell(self, who): print('victim %s from %.6f to %.6f' % (who, self.at, self.at + self.took), flush=True)
P
