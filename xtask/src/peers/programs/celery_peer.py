"""Celery with prefork workers on Redis, late acknowledgement and, for the restart, beat."""

import os
import subprocess
import sys
from datetime import datetime, timezone

from celery import Celery
from celery.schedules import crontab
from celery.signals import worker_ready

import shared

app = Celery("celery_peer", broker=shared.STORE)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
# The pending schedules are entries of beat: its documentation has no other place for them.
pending = int(os.environ.get("PEER_BEAT", "0"))
if pending:
    yearly = crontab(minute="0", hour="0", day_of_month="1", month_of_year="1")
    entry = {"task": "celery_peer.perform", "schedule": yearly, "args": (0, 0)}
    app.conf.beat_schedule = {f"later-{number}": entry for number in range(pending)}
    app.conf.beat_schedule["due"] = {**entry, "schedule": 0.01}


@worker_ready.connect
def tell(**_):
    print("ready", flush=True)


@app.task(name="celery_peer.perform")
def perform(number, due):
    shared.perform(number, due)


def insert(number, due, producer):
    eta = datetime.fromtimestamp(due / 1000, timezone.utc)
    # By its name: this module has another one when it is the program.
    app.send_task("celery_peer.perform", (number, due), eta=eta, producer=producer)


def main():
    if sys.argv[1] == "create":
        with app.producer_pool.acquire(block=True) as producer:
            shared.create(lambda number, due: insert(number, due, producer))
        return
    celery = [sys.executable, "-m", "celery", "--app", "celery_peer", "--quiet"]
    if pending:
        subprocess.Popen([*celery, "beat", "--schedule", f"{os.environ['PEER_LOG']}.beat"])
    os.execv(sys.executable, [*celery, "worker", "--concurrency", "2", "--pool", "prefork"])


if __name__ == "__main__":
    main()
