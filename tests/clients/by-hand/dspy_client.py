"""dspy: python dspy_client.py http://127.0.0.1:8080"""

import sys

import dspy

problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?"
lm = dspy.LM("openai/single", api_base=f"{sys.argv[1]}/v1", api_key="none", cache=False)
dspy.configure(lm=lm)
calls = {
    "text": lambda: lm(problem),
    "n": lambda: lm(problem, n=4, temperature=1.0),
    "signature": lambda: dspy.Predict("question -> answer")(question=problem),
    "chain": lambda: dspy.ChainOfThought("question -> answer")(question=problem),
}
for name, call in calls.items():
    try:
        print(name, repr(call()))
    except Exception as error:
        print(name, type(error).__name__, str(error)[:300])
