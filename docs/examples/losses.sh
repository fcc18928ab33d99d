# A slow output and small rings lose events.
# shellcheck shell=bash
stress-ng --pipe 2 -t 6 >/dev/null 2>&1 &
trap 'wait' EXIT
sleep 1

block summary
run 'sudo fxtrec --ring-size 64k --buffer-size 256k -a -d 4s -o - | (sleep 3; cat >slow.fxt)' '/^  lost/,/^  [^ l]/!d; /^  [^ l]/d'
