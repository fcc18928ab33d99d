
# Values that are looked up when they are asked for.
_fxtrec_pids() { _sequence _pids }

_fxtrec_users() { _users; compadd @sudo }

_fxtrec_events() { compadd -- ${(f)"$(cat /sys/kernel/tracing/available_events 2>/dev/null)"} }

_fxtrec_categories() { _sequence compadd - sched:waking irq syscall }

_fxtrec_probes() {
    if [[ $PREFIX != *:* ]]; then
        _files
        return
    fi
    local binary=${PREFIX%%:*}
    local -a names=(${(f)"$(fxtrec probes --names "${binary#*=}" "${PREFIX#*:}*" 2>/dev/null | head -n 500)"})
    compadd -- "${names[@]/#/$binary:}"
}

