"""RQ and rq-scheduler: a scheduler that looks every second, and a worker for each of two cores,
which forks for each job."""

import subprocess
import sys
from datetime import datetime, timezone

from redis import Redis
from rq_scheduler import Scheduler

import shared

if sys.argv[1] == "create":
    scheduler = Scheduler(queue_name="perform", connection=Redis.from_url(shared.STORE))
    shared.create(
        lambda number, due: scheduler.enqueue_at(
            datetime.fromtimestamp(due / 1000, timezone.utc).replace(tzinfo=None),
            shared.perform,
            number,
            due,
            job_result_ttl=0,
        )
    )
else:
    programs = sys.executable.rpartition("/")[0]
    url = ["--url", shared.STORE]
    worker = [f"{programs}/rq", "worker", "--quiet", *url, "perform"]
    scheduler = [f"{programs}/rqscheduler", "--interval", "1", "--quiet", *url]
    started = [subprocess.Popen(command) for command in (scheduler, worker, worker)]
    print("ready", flush=True)
    for program in started:
        program.wait()
