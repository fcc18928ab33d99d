#!/bin/bash
# The only worker of nginx compresses a large file for one client, while another, `checkout`, wants a small page.
# needs: nginx curl
# expect: nginx\[\d+\].* ran 
. "$(dirname "$0")/lib.sh"
mkdir -p www; echo hello >www/small.txt
prepared || head -c 3000000 /dev/urandom | base64 -w 0 >www/big.txt
begin
cat >nginx.conf <<N
worker_processes 1; daemon off; pid $scene_dir/pid; error_log $scene_dir/error.log; user root;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_comp_level 9; gzip_types text/plain; gzip_buffers 4096 16k; keepalive_requests 100000; output_buffers 2 16m;
  types { text/plain txt; }
  server { listen 127.0.0.1:7778; root $scene_dir/www; location / { sendfile off; } } }
N
nginx -c "$scene_dir/nginx.conf" & children+=($!)
await_port 7778
if [[ ! $quiet ]]; then (sleep 0.6; exec curl -s -o /dev/null -H 'Accept-Encoding: gzip' http://127.0.0.1:7778/big.txt) & children+=($!); fi
client checkout 7778 1.6 'GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n'
