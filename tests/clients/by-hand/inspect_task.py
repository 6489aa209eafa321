"""inspect-ai: INSPECT_LOG_DIR=/tmp/logs OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none \\
    inspect eval inspect_task.py --model openai/fast -T problems=problems.jsonl

`problems.jsonl` is by `beamgen problems --count 10 --seed 3131`; `--model openai/single` samples single chains.
"""

import json

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def abacus(problems="problems.jsonl"):
    with open(problems) as lines:
        rows = [json.loads(line) for line in lines]
    samples = [Sample(input=row["problem"], target=row["answer"]) for row in rows]
    return Task(dataset=samples, solver=generate(), scorer=match(numeric=True))
