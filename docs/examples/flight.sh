# A thread with real-time priority waits for a lock whose owner gets no CPU; a flight recorder and rotated files.
# shellcheck shell=bash
gcc -O2 -g -pthread "$TOP/tests/programs/audio.c" -o audio

block trigger
run 'sudo fxtrec --mode circular --trigger '\''blocked > 40ms if comm = "audio"'\'' -o app.fxt -- ./audio' '/^fxtrec: trigger\|^  triggers\|^  *[0-9]* more\|^  snapshots/!d'
run 'fxtrec why app.1.fxt' '/^$/,$d'

block rotate
run 'sudo fxtrec -a -d 3s --rotate 500ms --keep 3 -o day.fxt.zst' '/^  output/!d'
run 'ls day.*'
