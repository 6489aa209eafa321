"""instructor: python instructor_client.py http://127.0.0.1:8080"""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel

problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?"


class Result(BaseModel):
    pens: int


for mode in [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.JSON]:
    client = instructor.from_openai(OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none"), mode=mode)
    ask = [{"role": "user", "content": problem}]
    try:
        print(mode.name, client.chat.completions.create(model="single", messages=ask, response_model=Result, max_retries=0))
    except Exception as error:
        print(mode.name, type(error).__name__, str(error)[:300])
