#!/bin/bash
# nginx logs into a pipe whose reader, `log-shipper`, pauses for 400 ms.
# needs: nginx python3
# expect: log-shipper\[\d+\].* slept
. "$(dirname "$0")/lib.sh"
begin
mkdir -p www; echo hello >www/small.txt; rm -f log; mkfifo log
cat >ship.py <<'P'
from scene import *
import fcntl
name('log-shipper'); pipe = os.open('log', os.O_RDWR); fcntl.fcntl(pipe, 1031, 4096); begun = now(); paused = quiet
while os.read(pipe, 4096):
    if not paused and now() > begun + .9: time.sleep(.4); paused = True
P
python3 ship.py & children+=($!)
cat >nginx.conf <<N
worker_processes 1; daemon off; pid $scene_dir/pid; error_log $scene_dir/error.log; user root;
events { worker_connections 64; }
http { access_log $scene_dir/log; keepalive_requests 100000;
  server { listen 127.0.0.1:7779; root $scene_dir/www; } }
N
nginx -c "$scene_dir/nginx.conf" & children+=($!)
await_port 7779
client checkout 7779 1.8 'GET /small.txt HTTP/1.1\r\nHost: x\r\nUser-Agent: one-that-is-not-very-short-so-that-the-pipe-is-soon-full\r\n\r\n'
