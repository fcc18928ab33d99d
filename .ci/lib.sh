# Functions shared by .ci/run and .ci/nightly. Sourced by them, from the root of the repository.
# shellcheck shell=bash

# Nothing is built twice here, so incremental compilation would only cost time.
export CARGO_INCREMENTAL=0
export CI=1 FXTREC_CI_RUN=${FXTREC_CI_RUN:-$$} CARGO_TERM_COLOR=never RUST_BACKTRACE=1
# Without a login shell, rustup's folder may not be in PATH.
[[ -d ${HOME:-/root}/.cargo/bin ]] && PATH=${HOME:-/root}/.cargo/bin:$PATH
PATH=$PATH:/usr/sbin:/sbin
tracing=/sys/kernel/tracing
mounted=

step() { printf '\n==> [%4d s] %s\n' "$SECONDS" "$*"; }

die() {
    printf '\n%s: %s\n' "$0" "$*" >&2
    exit 1
}

# Runs a command after printing it.
run() {
    printf '+ %s\n' "$*" >&2
    "$@"
}

# Installs Debian's packages for the commands that are missing. Arguments: COMMAND:PACKAGE, and PYTHON_MODULE=PACKAGE.
install_tools() {
    local missing=() tool
    for tool in "$@"; do
        case $tool in
            # The module of a python3 other than Debian's, or else of Debian's.
            *=*) python3 -c "import ${tool%%=*}" 2>/dev/null || /usr/bin/python3 -c "import ${tool%%=*}" 2>/dev/null ||
                missing+=("${tool##*=}") ;;
            *) command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}") ;;
        esac
    done
    if ((${#missing[@]} == 0)); then
        echo "all there"
        return
    fi
    run apt-get update -qq
    # Services of packages are not started.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive run apt-get install -qq -y --no-install-recommends "${missing[@]}"
}

# Programs that tests run.
# shellcheck disable=SC2034 # The scripts that source this use it.
test_tools=(
    chromium:chromium cmake:cmake curl:curl g++:g++ gcc:gcc git:git go:golang-go hackbench:rt-tests make:make mount:mount node:nodejs npm:npm
    nsenter:util-linux perf:linux-perf pkg-config:pkgconf prlimit:util-linux python3:python3 setcap:libcap2-bin setpriv:util-linux
    shellcheck:shellcheck strace:strace stress-ng:stress-ng su:util-linux sudo:sudo systemd-analyze:systemd taskset:util-linux
    trace-cmd:trace-cmd unshare:util-linux zstd:zstd prometheus_client=python3-prometheus-client yaml=python3-yaml venv=python3-venv
    ensurepip=python3-venv
)

check_rust() {
    command -v cargo >/dev/null || die "needs Rust 1.88 or later: https://rustup.rs"
    run cargo --version
    cargo fmt --version && cargo clippy --version || die "needs rustfmt and clippy: rustup component add rustfmt clippy"
}

mount_tracefs() {
    run uname -a
    if ! [[ -d $tracing/events ]]; then
        run mount -t tracefs tracefs "$tracing" || die "tracefs cannot be mounted: is this a container?"
        mounted=1
    fi
}

# Another process may still use it: the mount ends when its files are closed.
unmount_tracefs() { [[ -z $mounted ]] || umount --lazy "$tracing" || true; }

# Whether this tracing instance or probe (fxtrec-PID-..., p:fxtrec_PID_...) belongs to a live process outside of the run.
is_of_others() {
    local pid=${1#*fxtrec[-_]}
    pid=${pid%%[-_/]*}
    [[ $pid =~ ^[0-9]+$ && -d /proc/$pid ]] && ! grep -qzxs "FXTREC_CI_RUN=$FXTREC_CI_RUN" "/proc/$pid/environ"
}

# A run must leave these unchanged: files of the repository, tracing instances, probes, and processes of the run, which are identified by a
# variable in their environment.
surroundings() {
    git status --porcelain 2>/dev/null || true
    local instance probe environment command
    for instance in "$tracing"/instances/*; do
        # It may have ended in between, together with its process.
        is_of_others "${instance##*/}" || [[ ! -d $instance ]] || echo "${instance##*/}"
    done
    while read -r probe; do
        is_of_others "$probe" || grep -xFs -- "$probe" "$tracing/uprobe_events" || true
    done < <(cat "$tracing/uprobe_events" 2>/dev/null)
    for environment in $(env -u FXTREC_CI_RUN \
        grep -lzs "^FXTREC_CI_RUN=$FXTREC_CI_RUN\$" /proc/[0-9]*/environ); do
        # This script and its caller belong to the run until it ends.
        case $environment in /proc/$$/* | /proc/$PPID/*) continue ;; esac
        # It may have ended in between, in which case it left nothing behind.
        command=$( { tr '\0' ' ' <"${environment%environ}cmdline"; } 2>/dev/null) || true
        [[ -z $command ]] || echo "$command"
    done
}
