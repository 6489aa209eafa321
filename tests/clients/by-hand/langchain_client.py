"""langchain-openai: python langchain_client.py http://127.0.0.1:8080"""

import sys

from langchain_openai import ChatOpenAI
from pydantic import BaseModel

problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?"
llm = ChatOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", model="single", max_retries=0)


class Result(BaseModel):
    pens: int


calls = {
    "invoke": lambda: llm.invoke(problem).content,
    "stream": lambda: "".join(chunk.content for chunk in llm.stream(problem)),
    "batch": lambda: [reply.content for reply in llm.batch([problem] * 3)],
    "stop": lambda: llm.invoke(problem, stop=["\n"]).content,
    "structured": lambda: llm.with_structured_output(Result).invoke(problem),
    "second turn": lambda: llm.invoke([("user", problem), ("assistant", "42"), ("user", problem)]).content,
}
for name, call in calls.items():
    try:
        print(name, repr(call()))
    except Exception as error:
        print(name, type(error).__name__, str(error)[:200])
