# For examples: what their scripts call. scripts/update-examples describes them.
# shellcheck shell=bash
BLOCK=$BLOCKS/$SCRIPT
STATUS=0

# What follows is in the block of this name.
block() { BLOCK=$BLOCKS/$1; }

# Shows a command and what it prints, through a program of sed if there is one. `$?` is the status of the command before.
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
