
# What follows completes values that are looked up when they are asked for: ids of processes, users, categories, tracepoints,
# and what a program or library has for probes. The rest is the function _fxtrec above.

# The names that a program or library has for probes, as BINARY:NAME.
_fxtrec_symbols() {
    local binary=${1%%:*} name
    [[ -n ${binary#*=} ]] || return
    while IFS= read -r name; do
        [[ $name == *' '* ]] || printf '%s\n' "$binary:$name"
    done < <(fxtrec probes --names "${binary#*=}" "${1#*:}*" 2>/dev/null | head -n 500)
}

# Fills COMPREPLY if the word is a value of such a kind, and fails otherwise.
_fxtrec_value() {
    local line=${COMP_LINE:0:COMP_POINT} words option word='' value given='' shown candidate
    local -a known
    read -ra words <<<"$line"
    if [[ $line != *[[:space:]] ]]; then
        word=${words[-1]}
        unset 'words[-1]'
    fi
    # Behind it there are words of COMMAND.
    [[ " ${words[*]} " != *' -- '* ]] || return 1
    option=${words[-1]} value=$word
    if [[ $word == --*=* ]]; then
        option=${word%%=*} value=${word#*=}
    fi
    value=${value#[\'\"]}
    case $option in
        -p | --pid) known=(/proc/[0-9]*) && known=("${known[@]#/proc/}") ;;
        -u | --user) mapfile -t known < <(echo @sudo; compgen -u) ;;
        -e | --event) mapfile -t known < <(cat /sys/kernel/tracing/available_events 2>/dev/null) ;;
        --categories) known=(sched:waking irq syscall uprobe:) ;;
        -P | --probe)
            [[ $value == *:* ]] || return 1
            mapfile -t known < <(_fxtrec_symbols "$value")
            ;;
        *)
            [[ ${#words[@]} == 3 && ${words[1]} == probes && $option != -* ]] || return 1
            mapfile -t known < <(fxtrec probes --names "$option" "$value*" 2>/dev/null | head -n 500)
            ;;
    esac
    case $option in
        -p | --pid | --categories) [[ $value != *,* ]] || given=${value%,*}, ;;
    esac
    # Bash replaces what is behind the last of its separators.
    shown=''
    if [[ $COMP_WORDBREAKS == *:* && $value == *:* ]]; then shown=${value%:*}:; fi
    COMPREPLY=()
    for candidate in "${known[@]}"; do
        candidate=$given$candidate
        [[ $candidate != "$value"* ]] || COMPREPLY+=("${candidate#"$shown"}")
    done
}

_fxtrec_with_values() {
    _fxtrec_value || _fxtrec "$@"
}

complete -F _fxtrec_with_values -o bashdefault -o default fxtrec
