"""litellm: python litellm_client.py http://127.0.0.1:8080"""

import sys

import litellm

to = {"api_base": f"{sys.argv[1]}/v1", "api_key": "none", "model": "openai/single"}
ask = [{"role": "user", "content": "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?"}]
for name, more in {"plain": {}, "stop": {"stop": ["\n"]}, "n": {"n": 4}, "stream": {"stream": True}}.items():
    try:
        reply = litellm.completion(messages=ask, **to, **more)
        if name == "stream":
            print(name, repr("".join(chunk.choices[0].delta.content or "" for chunk in reply)))
        else:
            print(name, [choice.message.content for choice in reply.choices])
    except Exception as error:
        print(name, type(error).__name__, str(error)[:200])
