# Delays of real software, as scripts/check-scenes records them.
# shellcheck shell=bash
scene_dirs=()
trap 'rm -rf "${scene_dirs[@]}"' EXIT

# scene NAME FILE: records scripts/scenes/NAME.sh. Other users can enter its folder.
scene() {
    local script=$TOP/scripts/scenes/$1.sh
    SCENE_DIR=$(mktemp -d)
    scene_dirs+=("$SCENE_DIR")
    export SCENE_DIR
    PREPARE=1 "$script" >/dev/null
    nice -n -20 fxtrec -q -o "$2" -- "$script" >/dev/null
}

scene redis-script redis.fxt
block redis
run 'fxtrec why redis.fxt'

scene nginx-gzip nginx.fxt
block nginx
run 'fxtrec why nginx.fxt'

# The same program, while the machine is watched.
block watch
(sleep 1; exec nice -n -20 "$TOP/scripts/scenes/nginx-gzip.sh" >/dev/null) &
run 'sudo fxtrec watch --min 20ms -d 8s'
wait

scene postgres-row-lock orders.fxt
block postgres
run 'fxtrec why orders.fxt'

scene sqlite-busy sqlite.fxt
block sqlite
run 'fxtrec why sqlite.fxt'

scene python-interpreter-lock python.fxt
block python
run 'fxtrec why python.fxt'

scene pinned-neighbour ticker.fxt
block neighbour
run 'fxtrec why ticker.fxt'

scene make-long-step make.fxt
block make
run 'fxtrec why make.fxt' '/^$/,$d'

export QUIET=1
scene pinned-neighbour alone.fxt
block quiet
run 'fxtrec why alone.fxt' '/^$/,$d'
