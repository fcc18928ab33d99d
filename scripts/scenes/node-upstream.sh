#!/bin/bash
# A Node server with a timer of its own asks Redis for each answer; a slow Lua script delays `checkout`.
# needs: nodejs redis-server
# expect: checkout\[\d+\].*node\[\d+\].*redis-server\[\d+\].* ran
. "$(dirname "$0")/lib.sh"
begin
redis-server --port 7783 --save '' --logfile "$scene_dir/log" & children+=($!)
await_port 7783
cat >s.js <<'J'
const redis = require('net').connect(7783, '127.0.0.1'), waiting = [];
redis.setNoDelay(true); redis.on('data', () => { const answer = waiting.shift(); if (answer) answer(); });
setInterval(() => { let x = 0; for (let i = 0; i < 20000; i++) x += i; }, 7);
require('http').createServer((request, response) => {
  waiting.push(() => response.end('hello\n')); redis.write('PING\r\n');
}).listen(7784, '127.0.0.1');
J
node s.js & children+=($!)
await_port 7784
if [[ ! $quiet ]]; then
    (sleep 0.7; exec redis-cli -p 7783 eval 'local x = 0; for i = 1, 8000000 do x = x + i end; return x' 0 >/dev/null) &
fi
client checkout 7784 1.5 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
