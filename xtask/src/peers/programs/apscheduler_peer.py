"""APScheduler 3 with its job store on PostgreSQL, the backend that its documentation recommends."""

import signal
import sys
import threading
from datetime import datetime, timezone

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

import shared

url = shared.STORE.replace("postgres:", "postgresql+psycopg2:")
scheduler = BackgroundScheduler(
    jobstores={"default": SQLAlchemyJobStore(url=url)},
    executors={"default": ThreadPoolExecutor(20)},
    job_defaults={"misfire_grace_time": None},
    timezone=timezone.utc,
)


def insert(number, due):
    scheduler.add_job(
        shared.perform,
        "date",
        run_date=datetime.fromtimestamp(due / 1000, timezone.utc),
        args=[number, due],
    )


if sys.argv[1] == "create":
    scheduler.start(paused=True)
    shared.create(insert)
else:
    scheduler.start()
    print("ready", flush=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
scheduler.shutdown()
