# Reports of the program that waits for a lock whose owner gets no CPU.
# shellcheck shell=bash
gcc -O2 -g -pthread "$TOP/tests/programs/audio.c" -o audio

# The table of locks has a separate block.
block screen
run 'sudo fxtrec -q --locks -- ./audio'
run 'fxtrec report audio.fxt' 's/\(Linux [0-9.]*\)[^)]*/\1/; /^Locks/,/^$/d'

block cpus
run 'fxtrec report audio.fxt --show cpus'

block why
run 'fxtrec why audio.fxt' '/^$/,$d'

block table
run 'fxtrec report audio.fxt --show locks --rows 1' '/^$/d'

block stacks
run 'sudo fxtrec -q --stacks=wake,cpu -o stacks.fxt -- ./audio'
run 'fxtrec report stacks.fxt --stacks --lines --comm audio --worst 2' '/^By stack/,$d; /^   2\./,/^$/!d; /^$/d'

block flame
run 'fxtrec flame stacks.fxt --comm audio | grep lock_wait' '/^fxtrec:/d'
