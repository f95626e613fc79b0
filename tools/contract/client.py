"""Uses the client that openapi-python-client has made from a node's own document: every answer is read into its types.

Arguments: the folder with the package `punctual_client`, the node's URL, its token, and a file to write. The file is
the configuration of schemathesis with what is there now, so that it asks for things that exist.
"""

import sys
import time
from pathlib import Path

folder, url, token, configuration = sys.argv[1:]
sys.path.insert(0, folder)

from punctual_client import AuthenticatedClient  # noqa: E402
from punctual_client.api.calendars import put_api_v1_calendars_id  # noqa: E402
from punctual_client.api.runs import get_api_v1_runs, get_api_v1_runs_id  # noqa: E402
from punctual_client.api.schedules import (  # noqa: E402
    get_api_v1_schedules,
    get_api_v1_schedules_id,
    get_api_v1_schedules_id_next,
    patch_api_v1_schedules_id,
    post_api_v1_schedules,
    post_api_v1_schedules_id_trigger,
)
from punctual_client.api.topics import post_api_v1_topics_topic_events  # noqa: E402
from punctual_client.api.workflows import (  # noqa: E402
    get_api_v1_workflows_id,
    post_api_v1_workflows,
    post_api_v1_workflows_id_publish,
    post_api_v1_workflows_id_runs,
)
from punctual_client.models import (  # noqa: E402
    CalendarInput,
    EventInput,
    PostApiV1WorkflowsJsonBody,
    Problem,
    RunStatus,
    RunWithSteps,
    ScheduleChange,
    ScheduleInput,
    ScheduleObject,
    ScheduleOverlap,
    ScheduleTrigger,
    WorkflowStart,
)

# Schedules that schemathesis may delete, pause and change.
SCHEDULES = 12
# A run of one step that does nothing has ended long before.
PATIENCE_SECONDS = 60

client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True, timeout=60)


def good(answer):
    """The answer's type, which is no problem and not nothing: the status is in the document."""
    assert answer is not None, "an answer that the document does not have"
    assert not isinstance(answer, Problem), answer
    return answer


def publish(name):
    body = PostApiV1WorkflowsJsonBody.from_dict(
        {
            "name": name,
            "version": "1.2",
            "topics": {"orders": {"external": True}},
            "triggers": [{"id": "call", "type": "webhook"}, {"id": "daily", "type": "schedule", "cron": "0 9 * * *"}],
            "steps": [{"id": "first", "type": "noop"}],
        }
    )
    saved = good(post_api_v1_workflows.sync(client=client, body=body))
    assert saved.name == name and saved.changed and saved.version == "1.2", saved
    published = good(post_api_v1_workflows_id_publish.sync(name, client=client))
    assert published.status == "published", published
    seen = good(get_api_v1_workflows_id.sync(name, client=client))
    assert {trigger.id for trigger in seen.triggers} == {"call", "daily"}, seen


def create_schedule(number):
    body = ScheduleInput(
        name=f"nightly {number}",
        workflow_id="contract",
        cron="0 3 * * *",
        timezone="Europe/Berlin",
        overlap=ScheduleOverlap.QUEUE,
        payload={"number": number},
    )
    created = good(post_api_v1_schedules.sync(client=client, body=body, idempotency_key=f"contract-{number}"))
    assert isinstance(created, ScheduleObject), created
    assert created.overlap == ScheduleOverlap.QUEUE and created.payload == {"number": number}, created
    # Times are read as times.
    assert created.next_run_at.tzinfo is not None, created
    return created.id


def change_schedule(schedule):
    before = good(get_api_v1_schedules_id.sync(schedule, client=client))
    changed = good(patch_api_v1_schedules_id.sync(schedule, client=client, body=ScheduleChange(description="changed")))
    assert (changed.description, changed.cron) == ("changed", before.cron), changed
    assert changed.overlap == before.overlap and changed.max_retries == before.max_retries, changed
    preview = good(get_api_v1_schedules_id_next.sync(schedule, client=client, count=3))
    assert len(preview.items) == 3, preview


def ended(run):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        read = good(get_api_v1_runs_id.sync(run, client=client))
        assert isinstance(read, RunWithSteps), read
        if read.status == RunStatus.SUCCEEDED:
            return read
        assert time.monotonic() < deadline, read
        time.sleep(0.05)


def configure(schedules, runs):
    """The configuration of schemathesis with ids of what is there, which it mostly asks for, and with texts that mean something."""
    words = {
        "schedules": schedules,
        "runs": runs,
        "workflows": ["contract", "spare"],
        "calendars": ["DE-BY", "office"],
        "topics": ["orders"],
        "triggers": ["call", "daily"],
        "steps": ["first"],
        "crons": ["0 9 * * *", "*/5 * * * *"],
        "durations": ["5m", "1h30m"],
        "zones": ["Europe/Berlin", "UTC"],
    }
    # Route, and which of its parameters and fields hold what.
    uses = [
        (r"^/api(/v1)?/schedules/\{id\}", {"path.id": "schedules", "body.cron": "crons", "body.timezone": "zones"}),
        (r"^/api/v1/schedules$", {"body.workflow_id": "workflows", "body.cron": "crons", "body.retention": "durations"}),
        (r"^/api/v1/schedules/batch-", {"body.schedule_ids[*]": "schedules"}),
        (r"^/api/v1/preview$", {"body.cron": "crons", "body.timezone": "zones", "body.calendar": "calendars"}),
        (r"^/api/v1/runs/\{id\}", {"path.id": "runs", "path.step": "steps"}),
        (r"^/api/v1/workflows/\{id\}", {"path.id": "workflows"}),
        (r"^/api/v1/calendars/\{id\}", {"path.id": "calendars"}),
        (r"^/api/v1/topics/\{topic\}", {"path.topic": "topics"}),
        (r"^/api/v1/hooks/", {"path.workflow": "workflows", "path.trigger": "triggers"}),
        (r"^/api/v1/approvals/\{run_id\}", {"path.run_id": "runs", "path.step_id": "steps"}),
    ]
    text = Path(__file__).with_name("schemathesis.toml").read_text()
    for name, values in words.items():
        listed = ", ".join(f'"{value}"' for value in values)
        text += f"\n[dictionaries.{name}]\nvalues = [{listed}]\n"
    for route, parameters in uses:
        text += f"\n[[operations]]\ninclude-path-regex = '{route}'\n[operations.parameters]\n"
        for parameter, name in parameters.items():
            text += f'"{parameter}" = {{ dictionary = "{name}", probability = 0.8 }}\n'
    Path(configuration).write_text(text)


publish("contract")
publish("spare")
schedules = [create_schedule(number) for number in range(SCHEDULES)]
change_schedule(schedules[0])
listed = good(get_api_v1_schedules.sync(client=client, workflow_id="contract", limit=5))
assert len(listed.items) == 5 and listed.next_cursor and listed.items[0].name, listed
more = good(get_api_v1_schedules.sync(client=client, workflow_id="contract", cursor=listed.next_cursor))
assert not {item.id for item in listed.items} & {item.id for item in more.items}, more
started = good(post_api_v1_workflows_id_runs.sync("contract", client=client, body=WorkflowStart(payload=[1, "two", None])))
assert ended(started.id).input_ == {"payload": [1, "two", None]}, started
triggered = good(post_api_v1_schedules_id_trigger.sync(schedules[1], client=client, body=ScheduleTrigger()))
by_schedule = ended(triggered.run_id)
assert by_schedule.steps[0].id == "first" and by_schedule.version == "1.2", by_schedule
runs = good(get_api_v1_runs.sync(client=client, workflow="contract", status="succeeded,failed"))
assert {run.id for run in runs.items} >= {started.id, triggered.run_id}, runs
published = good(
    post_api_v1_topics_topic_events.sync(
        "orders", client=client, workflow="contract", body=EventInput(message_id="one", payload={"a": 1})
    )
)
assert published.published == 1, published
put = good(put_api_v1_calendars_id.sync("office", client=client, body=CalendarInput(timezone="Europe/Berlin")))
assert put.timezone == "Europe/Berlin", put
configure(schedules, [started.id, triggered.run_id])
print(f"the generated client: {len(schedules)} schedules, 2 workflows, 2 runs, 1 event, 1 calendar")
