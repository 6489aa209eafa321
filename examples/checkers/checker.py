"""The protocol of docs/rewards/checkers.md: a JSON line in, a JSON line out."""

import json
import re
import sys


def serve(check):
    """Answers each request with the result of `check(problem, steps)` for the last step: a verdict, or a verdict and a
    reason. An exception in `check` makes this step an abstention, and the checker continues."""
    for line in sys.stdin:
        try:
            request = json.loads(line)
            identity, problem, steps = request["id"], request["problem"], request["steps"]
        except (ValueError, KeyError, TypeError):
            continue  # not a request, so there is no id to answer
        try:
            said = check(problem, steps)
        except Exception as error:  # noqa: BLE001: a step must not end the checker
            print(f"step not checked: {type(error).__name__}: {error}", file=sys.stderr)
            said = "abstain"
        verdict, reason = said if isinstance(said, tuple) else (said, None)
        print(json.dumps({"id": identity, "verdict": verdict, "reason": reason}), flush=True)


def fences(step, *languages):
    """The contents of the step's Markdown fences in these languages, as (language, text)."""
    found = re.findall(r"^```([a-z0-9]+)[ \t]*\n(.*?)^```[ \t]*$", step, re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found if language in languages]
