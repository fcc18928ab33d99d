#!/bin/bash
# A transaction of `month-end` locks a row for 300 ms that `order-entry` updates.
# needs: postgresql
# expect: order-entry\[\d+\].*woken by postgres\[\d+\], which .*woken by postgres\[\d+\]
. "$(dirname "$0")/lib.sh"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
chown postgres .
as=(setpriv --reuid postgres --regid postgres --clear-groups)
prepared || "${as[@]}" "$bin/initdb" -D "$scene_dir/db" -A trust --no-sync >/dev/null
begin
"${as[@]}" "$bin/postgres" -D "$scene_dir/db" -p 7780 -k "$scene_dir" -c fsync=off -c listen_addresses= -c logging_collector=off 2>log & children+=($!)
for ((try = 0; try < 100; try++)); do "$bin/psql" -U postgres -h "$scene_dir" -p 7780 -c 'create table if not exists t as select 1 id, 1 n' >/dev/null 2>&1 && break; sleep 0.05; done
ln -sf "$bin/psql" order-entry; ln -sf "$bin/psql" month-end
connect="-q -U postgres -h $scene_dir -p 7780"
if [[ ! $quiet ]]; then
    (sleep 0.8; echo 'begin; update t set n = n + 1 where id = 1; select pg_sleep(0.3); commit;' | ./month-end $connect >/dev/null) &
fi
echo 'update t set n = n + 1 where id = 1 \watch 0.005' | timeout 2 ./order-entry $connect >/dev/null || true
kill -INT "${children[0]}" # without it, the server waits for its clients
