#!/bin/bash
# Redis runs one command at a time: a slow Lua script keeps the client `checkout` waiting.
# needs: redis-server
# expect: redis-server\[\d+\].* ran 
. "$(dirname "$0")/lib.sh"
begin
redis-server --port 7777 --save '' --logfile "$scene_dir/log" & children+=($!)
await_port 7777
if [[ ! $quiet ]]; then
    (sleep 0.6; exec redis-cli -p 7777 eval 'local x = 0; for i = 1, 8000000 do x = x + i end; return x' 0 >/dev/null) &
fi
client checkout 7777 1.5 'PING\r\n'
