"""What schemathesis sends, where it would only make it wait."""

import schemathesis


@schemathesis.hook
def map_body(context, body):
    """A claim waits for work as long as it says: there is none, and a minute of silence finds nothing."""
    wait = body.get("wait_seconds") if isinstance(body, dict) else None
    if isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0.1 < wait <= 50:
        body["wait_seconds"] = 0.1
    return body
