"""pydantic-ai: python pydantic_ai_client.py http://127.0.0.1:8080"""

import sys

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?"
model = OpenAIChatModel("single", provider=OpenAIProvider(base_url=f"{sys.argv[1]}/v1", api_key="none"))


class Result(BaseModel):
    pens: int


for name, kind in {"text": str, "structured": Result}.items():
    try:
        print(name, repr(Agent(model, output_type=kind).run_sync(problem).output))
    except Exception as error:
        print(name, type(error).__name__, str(error)[:300])
