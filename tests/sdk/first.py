"""The guide's first request to `beamgen serve` through OpenAI's SDK. `check.py` runs it.

    beamgen serve
    python tests/sdk/first.py [URL]
"""

import sys

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
# ANCHOR: ask
from openai import OpenAI

client = OpenAI(base_url=f"{URL}/v1", api_key="none")
problem = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"
answer = client.chat.completions.create(
    model="careful",
    messages=[{"role": "user", "content": problem}],
    extra_body={"beamgen": {"n": 32, "seed": 7}},
)
print(answer.choices[0].message.content)
print(answer.beamgen["answer"], answer.beamgen["score"])
# ANCHOR_END: ask
