# The first recording of a reader.
# shellcheck shell=bash
block record
run 'sudo fxtrec -o first.fxt -- ls -R /usr/share' '/^fxtrec: recorded/,$!d'
