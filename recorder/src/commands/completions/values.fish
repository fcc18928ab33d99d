
# Values that are looked up when they are asked for.
function __fxtrec_probes
    set -l word (commandline -ct)
    string match -q '*:*' -- $word; or return
    set -l binary (string split -m 1 : -- $word)
    fxtrec probes --names (string replace -r '^[^=]*=' '' -- $binary[1]) "$binary[2]*" 2>/dev/null | head -n 500 | while read -l name
        echo "$binary[1]:$name"
    end
end
complete -c fxtrec -s p -l pid -x -a '(__fish_complete_list , __fish_complete_pids)'
complete -c fxtrec -s u -l user -x -a '@sudo (__fish_complete_users)'
complete -c fxtrec -s e -l event -x -a '(cat /sys/kernel/tracing/available_events 2>/dev/null)'
complete -c fxtrec -l categories -x -a '(__fish_complete_list , "printf %s\\\\n sched:waking irq syscall uprobe:")'
complete -c fxtrec -s P -l probe -r -a '(__fxtrec_probes)'
