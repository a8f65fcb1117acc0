# Ends a command in a container once the console that ran it is gone. $1 is the mark in the
# environment of the command, which what it starts inherits. A line `leave` on the input lets the
# command run on; the end of the input ends it: SIGHUP first, SIGKILL after $2 s. What ignores
# SIGHUP, as under nohup, runs on. Of the shell's built-in commands alone, but for `sleep`.
mark=$1
left=$2

is_marked() {
    while IFS= read -r text || [ -n "$text" ]; do
        case $text in *"$mark"*) return 0 ;; esac
    done 2>/dev/null <"$1/environ"
    return 1
}

ignores_hangup() {
    while IFS= read -r text; do
        case $text in SigIgn:*[13579bdf]) return 0 ;; esac
    done 2>/dev/null <"$1/status"
    return 1
}

send() {
    found=
    for folder in /proc/[0-9]*; do
        is_marked "$folder" || continue
        ignores_hangup "$folder" && continue
        found=1
        [ -z "$1" ] || kill "-$1" "${folder#/proc/}"
    done 2>/dev/null
}

word=
read -r word
[ "$word" = leave ] && exit 0
trap '' HUP PIPE
send HUP
while [ -n "$found" ] && [ "$left" -gt 0 ]; do
    left=$((left - 1))
    sleep 1 || break
    send ''
done 2>/dev/null
send KILL
exit 0
