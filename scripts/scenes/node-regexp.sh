#!/bin/bash
# A request whose regular expression backtracks blocks the event loop of Node; `checkout` waits meanwhile.
# needs: nodejs curl
# expect: node\[\d+\].* ran 
. "$(dirname "$0")/lib.sh"
begin
cat >s.js <<'J'
require('http').createServer((request, response) => {
  if (request.url.startsWith('/report')) /(a+)+$/.test('a'.repeat(21) + 'b');
  response.end('hello\n');
}).listen(7781, '127.0.0.1');
J
node s.js & children+=($!)
await_port 7781
if [[ ! $quiet ]]; then (sleep 0.6; exec curl -s -o /dev/null http://127.0.0.1:7781/report) & children+=($!); fi
client checkout 7781 1.5 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
