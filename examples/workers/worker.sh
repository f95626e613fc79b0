#!/usr/bin/env bash
# A worker for Punctual in bash, with curl, and python3 to read JSON:
#
#     PUNCTUAL_URL=http://127.0.0.1:7878 ./worker.sh words
#
# It takes one attempt after another from a queue. To make it yours, change `work`. To use a command as it is,
# `punctual worker --queue words -- command` does all of this for you.
set -u

URL=${PUNCTUAL_URL:-http://127.0.0.1:7878}
QUEUE=${1:?usage: worker.sh QUEUE}
LEASE=${PUNCTUAL_LEASE:-30} # seconds of silence after which another worker gets the attempt

# Reads the attempt's input from stdin. What it writes is the output, in JSON; if it fails, so does the attempt.
# This one counts the words of a text, and takes as many seconds as the input says, to see heartbeats.
work() {
    python3 -c '
import json, sys, time
given = json.load(sys.stdin)
words = len(given["text"].split())
time.sleep(given.get("seconds", 0))
print(json.dumps({"words": words}))'
}

# ask PATH, with the body on stdin: writes the answer to stdout. Fails unless the status is a success.
ask() {
    curl --silent --show-error --fail --max-time 60 --header 'Content-Type: application/json' \
        ${PUNCTUAL_TOKEN:+--header "Authorization: Bearer $PUNCTUAL_TOKEN"} \
        --data-binary @- "$URL/api/v1/attempts/$1"
}

# field KEY…, with JSON on stdin: what is there, a text as it is and anything else as JSON; nothing if nothing is.
field() {
    python3 -c '
import json, sys
try:
    value = json.load(sys.stdin)
    for key in sys.argv[1:]:
        value = value[int(key) if key.isdigit() else key]
    print(value if isinstance(value, str) else json.dumps(value))
except (LookupError, TypeError, ValueError):
    pass' "$@"
}

# Says that the attempt goes on; ends the work if the run was cancelled or the attempt is another's (409).
keep() {
    local path=$1 token=$2 worker=$3 answer code
    while sleep $((LEASE / 3)); do
        answer=$(echo "{\"token\": \"$token\", \"lease_seconds\": $LEASE}" | ask "$path/heartbeat" 2>&1)
        code=$?
        if [[ $code == 22 && $answer == *409* || $(field cancel <<<"$answer") == true ]]; then
            kill -TERM -- "-$worker"
        fi
    done
}

# report PATH VERB BODY: again and again while nobody answers. An answer that is a refusal is one too.
report() {
    local wait=1 code
    while true; do
        ask "$1/$2" <<<"$3" >/dev/null
        code=$?
        [[ $code == 0 || $code == 22 ]] && return
        sleep $wait
        wait=$((wait < 30 ? wait * 2 : 30))
    done
}

attend() {
    local attempt=$1 path token outputs worker keeper code
    path=$(field id <<<"$attempt")
    token=$(field token <<<"$attempt")
    outputs=$(mktemp -d)
    # `set -m` gives each job a process group of its own: Ctrl-C does not reach it, and it ends as a whole.
    set -m
    python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["payload"], sys.stdout)' <<<"$attempt" >"$outputs/in"
    work <"$outputs/in" >"$outputs/out" 2>"$outputs/err" &
    worker=$!
    keep "$path" "$token" "$worker" &
    keeper=$!
    set +m
    # A signal interrupts `wait`: then there is more to wait for.
    while wait "$worker"; code=$?; kill -0 "$worker" 2>/dev/null; do :; done
    kill -TERM -- "-$keeper" 2>/dev/null
    wait "$keeper" 2>/dev/null
    if [[ $code == 0 ]]; then
        report "$path" complete "{\"token\": \"$token\", \"output\": $(<"$outputs/out")}"
    else
        report "$path" fail "$(tail -n 1 "$outputs/err" | python3 -c '
import json, sys
message = f"code {sys.argv[1]}: {sys.stdin.read().strip()}"
error = {"code": "exit_code", "message": message, "retryable": True}
print(json.dumps({"token": sys.argv[2], "error": error}))
' "$code" "$token")"
    fi
    echo "$path: exit code $code"
    rm -r "$outputs"
}

# Ctrl-C or SIGTERM: nothing new is claimed, and what goes on is finished.
stopping=
trap stopping=1 INT TERM
while [[ ! $stopping ]]; do
    question="{\"queues\": [\"$QUEUE\"], \"max\": 1, \"worker\": \"$HOSTNAME-$$\", \"lease_seconds\": $LEASE, \"wait_seconds\": 20}"
    answer=$(echo "$question" | ask claim) || { sleep 2; continue; }
    attempt=$(field attempts 0 <<<"$answer")
    if [[ $attempt ]]; then attend "$attempt"; fi
done
