# Functions for the scripts of examples. scripts/update-examples describes them.
# shellcheck shell=bash
BLOCK=$BLOCKS/$SCRIPT
STATUS=0

# The following lines belong to the block of this name.
block() { BLOCK=$BLOCKS/$1; }

# Shows a command and its output, optionally filtered by a sed program. `$?` is the status of the previous command.
run() {
    echo "\$ $1" >>"$BLOCK"
    STATUS=$( (
        set +e
        (exit "$STATUS")
        eval "$1" >output 2>&1 </dev/null
        echo $?
    ) )
    sed "${2:-}" output >>"$BLOCK"
    rm output
    case $STATUS in
        125 | 126 | 127)
            echo "$1: exit status $STATUS" >&2
            exit 1
            ;;
    esac
}

# Scripts run as root: the pages tell readers where sudo is needed.
sudo() { "$@"; }
