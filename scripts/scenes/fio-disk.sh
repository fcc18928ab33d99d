#!/bin/bash
# fio as `journal` writes and syncs 4 KiB every 5 ms, and another as `backup` writes large blocks to the same disk.
# needs: fio
# expect: journal\[\d+\].*(fsync|fdatasync).*backup\[\d+\]
. "$(dirname "$0")/lib.sh"
begin
ln -sf "$(command -v fio)" journal
ln -sf "$(command -v fio)" backup
if [[ ! $quiet ]]; then
    (sleep 0.9; exec ./backup --name=bulk --filename=bulk --thread --ioengine=libaio --direct=1 --rw=write --bs=4m --iodepth=32 --size=512m --output=/dev/null) &
    children+=($!)
fi
./journal --name=log --filename=log --thread --ioengine=sync --rw=write --bs=4k --size=64m --fdatasync=1 --thinktime=5ms --time_based --runtime=2500ms \
    --output=/dev/null
