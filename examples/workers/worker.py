#!/usr/bin/env python3
"""A worker for Punctual in Python, with the standard library alone.

A worker takes attempts of a queue from a node, does them, and says how they ended:

    PUNCTUAL_URL=http://127.0.0.1:7878 python3 worker.py words

To make it yours, change `work` below. The rest is the protocol:

    claim      "have you something for me?"   the node waits until it has, up to 20 seconds
    heartbeat  "I am still at it"             the answer may be: stop, the run was cancelled
    complete   "done, here is the output"
    fail       "it did not work, because …"

A worker that dies says no more; its lease ends, and the attempt goes to another one. So the same work may be
begun twice: where that matters, give `attempt["idempotency_key"]` to whatever you change. It is the same each time.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:7878").rstrip("/")
TOKEN = os.environ.get("PUNCTUAL_TOKEN")
NAME = f"{socket.gethostname()}-{os.getpid()}"
AT_ONCE = 4  # attempts side by side
LEASE = int(os.environ.get("PUNCTUAL_LEASE", "30"))  # seconds of silence after which another worker gets the attempt


def work(attempt, cancelled):
    """Does the work of one attempt. What it returns is the output; what it raises is the failure.

    This one counts the words of a text, and takes as many seconds as the input says, to see heartbeats. Work that
    takes long looks at `cancelled.is_set()` now and then, and returns if it is: nobody waits for the output any more.
    """
    text = attempt["payload"]["text"]
    cancelled.wait(attempt["payload"].get("seconds", 0))
    return {"words": len(text.split())}


class Lost(Exception):
    """The attempt is not ours any more: another worker has it, or the run has ended."""


def ask(path, body):
    """Sends one question to the node and returns its answer."""
    headers = {"Content-Type": "application/json"}
    if TOKEN:
        headers["Authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(f"{URL}/api/v1/attempts/{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 409:
            raise Lost from error
        raise


def is_refusal(error):
    """Whether the answer is no however often the node is asked."""
    return isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429


def heartbeat(attempt, ended, cancelled):
    """Says that the attempt goes on, until it has ended."""
    question = {"token": attempt["token"], "lease_seconds": LEASE}
    while not ended.wait(LEASE / 3):
        try:
            if ask(f"{attempt['id']}/heartbeat", question)["cancel"]:
                cancelled.set()
        except Lost:
            cancelled.set()
            return
        except OSError as error:  # the node is away: it may be back before the lease ends
            print(f"no heartbeat: {error}", file=sys.stderr)


def report(path, verb, body):
    """Says how an attempt ended, again and again until the node has answered."""
    wait = 0.25
    while True:
        try:
            ask(f"{path}/{verb}", body)
            return
        except Lost:
            print(f"{path}: the report came too late", file=sys.stderr)
            return
        except OSError as error:
            if is_refusal(error):
                print(f"{path}: the report was refused: {error}", file=sys.stderr)
                return
            print(f"{path}: no answer, asking again: {error}", file=sys.stderr)
        time.sleep(wait)
        wait = min(wait * 2, 30)


def attend(attempt, places):
    """From the claim of an attempt to its report."""
    ended, cancelled = threading.Event(), threading.Event()
    threading.Thread(target=heartbeat, args=(attempt, ended, cancelled), daemon=True).start()
    try:
        output = work(attempt, cancelled)
        verb, body = "complete", {"output": output}
    except Exception as error:
        error = {"code": type(error).__name__, "message": str(error), "retryable": True}
        verb, body = "fail", {"error": error}
    finally:
        ended.set()
    if cancelled.is_set():
        error = {"code": "cancelled", "message": "it was told to end", "retryable": False}
        verb, body = "fail", {"error": error}
    print(f"{attempt['run_id']} {attempt['step_id']}: {verb}")
    report(attempt["id"], verb, {"token": attempt["token"], **body})
    places.release()


def main():
    queues = sys.argv[1:]
    if not queues:
        sys.exit("usage: worker.py QUEUE…")
    # Ctrl-C or SIGTERM: nothing new is claimed, and what goes on is finished.
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    places = threading.Semaphore(AT_ONCE)
    going_on, wait = [], 0.25
    while not stopping.is_set():
        if not places.acquire(timeout=1):
            continue
        question = {"queues": queues, "max": 1, "worker": NAME, "lease_seconds": LEASE, "wait_seconds": 20}
        try:
            attempts = ask("claim", question)["attempts"]
            wait = 0.25
        except (OSError, Lost) as error:
            if is_refusal(error):
                sys.exit(f"{URL} refuses: {error}")
            print(f"no answer from {URL}, asking again: {error}", file=sys.stderr)
            attempts = []
            stopping.wait(wait)
            wait = min(wait * 2, 30)
        if not attempts:
            places.release()
        for attempt in attempts:
            thread = threading.Thread(target=attend, args=(attempt, places))
            thread.start()
            going_on.append(thread)
        going_on = [thread for thread in going_on if thread.is_alive()]
    for thread in going_on:
        thread.join()


if __name__ == "__main__":
    main()
