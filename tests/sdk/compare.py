"""The same client code of OpenAI's Python SDK against several servers, and the fields of what each answers.

    sdk/bin/python tests/sdk/compare.py beamgen=http://127.0.0.1:8080/v1 llama.cpp=http://127.0.0.1:9931/v1 vllm=http://127.0.0.1:8000/v1

Prints a table in Markdown: the type of each field, or nothing where a server does not have it. `null` counts as a type.
"""

import sys

import openai
from openai import OpenAI

MESSAGES = [{"role": "user", "content": "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"}]
# What a search tells besides: one row each, not one for each of their fields.
WHOLE = {"beamgen", "timings", "prompt_progress", "__verbose"}


def fields(value, path, found):
    """The type of every field, lists by their first element."""
    if isinstance(value, dict):
        for key, inner in value.items():
            where = f"{path}.{key}" if path else key
            if key in WHOLE:
                found[where] = "object"
            else:
                fields(inner, where, found)
    elif isinstance(value, list) and value:
        fields(value[0], path + "[]", found)
    else:
        found.setdefault(path, set()).add({type(None): "null", str: "string", list: "array"}.get(type(value), type(value).__name__))


def plain(client, model):
    return client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=64, temperature=0.7, seed=1).model_dump(exclude_unset=True)


def streamed(client, model):
    """All chunks as one, with what their texts make together."""
    chunks = list(client.chat.completions.create(
        model=model, messages=MESSAGES, max_tokens=64, temperature=0.7, seed=1, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert text and len(reasons) == 1, (text, reasons)
    assert chunks[-1].usage and not chunks[-1].choices, chunks[-1]
    return [chunk.model_dump(exclude_unset=True) for chunk in chunks]


def refused(client, model):
    try:
        client.chat.completions.create(model=model, messages=[])
    except openai.APIStatusError as error:
        return {"(status)": str(error.status_code), "error": error.body}
    return {"(status)": "200"}


def models(client, model):
    return client.models.list().model_dump(exclude_unset=True)


def main():
    servers = dict(pair.split("=", 1) for pair in sys.argv[1:])
    clients = {name: OpenAI(base_url=url, api_key="none", max_retries=0) for name, url in servers.items()}
    served = {name: client.models.list().data[0].id for name, client in clients.items()}
    for title, ask in [("A plain answer", plain), ("A streamed answer, all chunks", streamed), ("No message", refused), ("`GET /v1/models`", models)]:
        seen = {}
        for name, client in clients.items():
            answer, found = ask(client, served[name]), {}
            for one in answer if isinstance(answer, list) else [answer]:
                fields(one, "", found)
            seen[name] = found
        print(f"\n## {title}\n\n| field | {' | '.join(seen)} |\n|---{'|---' * len(seen)}|")
        for field in dict.fromkeys(field for found in seen.values() for field in found):
            kinds = [found.get(field, "") for found in seen.values()]
            print(f"| `{field}` | {' | '.join(kind if isinstance(kind, str) else ', '.join(sorted(kind)) for kind in kinds)} |")


if __name__ == "__main__":
    main()
