"""What the programs for Python share. Each is called as `create COUNT FIRST DUE RATE GRAIN LIMIT`
or as `work LOG`; the store's address is in PEER_STORE, the log's path in PEER_LOG."""

import json
import os
import sys
import time

STORE = os.environ["PEER_STORE"]
opened = {}


def perform(number, due):
    """The job itself: it notes when it was due and when it started. The note survives a kill."""
    log = os.environ["PEER_LOG"]
    if log not in opened:
        opened[log] = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(opened[log], f"{number} {due} {time.time() * 1000:.3f}\n".encode())


def create(insert):
    """Creates jobs until there are enough of them or the time is over: `rate` of them are due in
    each second from `due` on, all at once if it is 0."""
    count, first, due, rate, grain, limit = (int(text) for text in sys.argv[2:8])
    begin = time.monotonic()
    created = 0
    for index in range(count):
        after = index * 1000 // rate // grain * grain if rate else 0
        insert(first + index, due + after)
        created += 1
        if time.monotonic() - begin > limit:
            break
    seconds = time.monotonic() - begin
    print(json.dumps({"created": created, "seconds": seconds}), flush=True)
