"""The official Python SDK of OpenAI against `beamgen serve`: plain, streamed, cancelled, timed out, refused.

    python -m venv sdk && sdk/bin/pip install openai httpx
    sdk/bin/python tests/sdk/check.py target/release/beamgen

Starts servers of its own on free ports. Says what it saw; the first thing that is not as it should be ends it.
"""

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import openai
from openai import AsyncOpenAI, OpenAI

PROBLEM = (
    "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"
)
MESSAGES = [{"role": "user", "content": PROBLEM}]
# a search that takes a third of a second at least
SLOW = {"beamgen": {"strategy": "best-of-n", "n": 500, "m": 1}}


class Server:
    """A server on a free port."""

    def __init__(self, binary, *flags):
        command = [binary, "serve", "--port", "0", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"http://\S+", line)
            if found:
                self.url = found.group()
                return
        raise SystemExit("the server did not start")

    def metric(self, name):
        text = httpx.get(f"{self.url}/metrics").text
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))

    def wait_until_idle(self):
        began = time.monotonic()
        names = ["beamgen_queue_waiting", "beamgen_in_flight", "beamgen_cache_bytes"]
        while any(self.metric(name) for name in names):
            assert time.monotonic() - began < 10, "it is still at work"
            time.sleep(0.005)
        return time.monotonic() - began

    def client(self, **more):
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", **more)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0


def say(what, *saw):
    print(f"{what:<12}", *saw, flush=True)


def refused(call, kind):
    try:
        call()
    except openai.APIError as error:
        assert isinstance(error, kind), repr(error)
        return error
    raise SystemExit(f"{kind.__name__} was wanted")


def plain(client):
    names = [model.id for model in client.models.list()]
    assert names[0] == "beamgen" and client.models.retrieve("fast").id == "fast"
    say("models", names)
    own = {"beamgen": {"seed": 3, "reference": "21"}}
    answer = client.chat.completions.create(model="fast", messages=MESSAGES, extra_body=own)
    choice = answer.choices[0]
    assert choice.finish_reason == "stop" and "21" in choice.message.content
    assert answer.beamgen["correct"] is True and answer.usage.completion_tokens > 10
    say("plain", repr(choice.message.content), answer.usage.model_dump(exclude_none=True))
    say("", {key: answer.beamgen[key] for key in ["answer", "score", "answers", "finish"]})
    text = client.completions.create(model="fast", prompt=PROBLEM, extra_body=own)
    assert text.choices[0].text == choice.message.content
    say("completion", repr(text.choices[0].text[:40]), text.choices[0].finish_reason)
    return choice.message.content


def streamed(client, wanted):
    own = {"beamgen": {"seed": 3, "events": True, "tree": True}}
    stream = client.chat.completions.create(
        model="fast", messages=MESSAGES, stream=True, stream_options={"include_usage": True}, extra_body=own
    )
    content, kinds, usage, tree = "", {}, None, None
    for chunk in stream:
        for choice in chunk.choices:
            content += choice.delta.content or ""
        beamgen = getattr(chunk, "beamgen", None) or {}
        for event in beamgen.get("events", []):
            kinds[event["type"]] = kinds.get(event["type"], 0) + 1
        tree = beamgen.get("tree", tree)
        usage = chunk.usage or usage
    assert content == wanted and usage.total_tokens > 40 and kinds["step"] > 8 and len(tree) > 8
    say("streamed", repr(content[:40]), usage.total_tokens, "tokens;", len(tree), "nodes; events", kinds)
    text = "".join(
        chunk.choices[0].text
        for chunk in client.completions.create(
            model="fast", prompt=PROBLEM, stream=True, extra_body={"beamgen": {"seed": 3}}
        )
    )
    assert text == wanted
    with client.chat.completions.stream(
        model="fast", messages=MESSAGES, extra_body={"beamgen": {"seed": 3}}
    ) as helper:
        final = helper.get_final_completion()
    assert final.choices[0].message.content == wanted
    say("", "the same by completions and by the SDK's stream helper")


def cancelled(server, client):
    for name, leave in [("closed", lambda stream: stream.close()), ("left", lambda stream: None)]:
        own = {"beamgen": {**SLOW["beamgen"], "events": True}}
        stream = client.chat.completions.create(model="beamgen", messages=MESSAGES, stream=True, extra_body=own)
        next(stream), next(stream)
        assert server.metric("beamgen_in_flight") == 1
        leave(stream)
        del stream
        say("cancelled", f"a stream that was {name}: idle after {server.wait_until_idle():.3f} s")

    async def cancel():
        many = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        calls = [
            asyncio.create_task(
                many.chat.completions.create(model="beamgen", messages=MESSAGES, extra_body=SLOW)
            )
            for _ in range(20)
        ]
        await asyncio.sleep(0.5)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)

    asyncio.run(cancel())
    say("", f"20 calls: idle after {server.wait_until_idle():.3f} s")


def timed_out(server):
    client = server.client(timeout=0.05, max_retries=0)
    call = lambda: client.chat.completions.create(model="beamgen", messages=MESSAGES, extra_body=SLOW)
    error = refused(call, openai.APITimeoutError)
    say("timed out", type(error).__name__, f"idle after {server.wait_until_idle():.3f} s")
    # so hot, chains end at random: after a while there are some, and it is not over yet
    for deadline in [0.05 * 1.25**i for i in range(25)]:
        own = {"beamgen": {**SLOW["beamgen"], "deadline": deadline}}
        call = lambda: server.client().chat.completions.create(
            model="beamgen", messages=MESSAGES, temperature=2.0, extra_body=own
        )
        try:
            answer = call()
        except openai.InternalServerError as error:
            assert error.status_code == 504 and error.response.headers["x-should-retry"] == "false"
            continue
        break
    assert answer.beamgen["stopped"] == "deadline"
    say("deadline", f"{deadline:.2f} s:", answer.choices[0].finish_reason, answer.beamgen["stopped"])


def refusals(server, client):
    cases = [
        (openai.BadRequestError, dict(tools=[{"type": "function", "function": {"name": "f"}}])),
        (openai.BadRequestError, dict(n=0)),
        (openai.BadRequestError, dict(extra_body={"beamgen": {"width": 3}})),
        (openai.BadRequestError, dict(messages=MESSAGES + [{"role": "tool", "tool_call_id": "a", "content": "21"}])),
        (openai.NotFoundError, dict(model="gpt-4")),
    ]
    for kind, wrong in cases:
        before = server.metric("beamgen_request_seconds_count{route=\"chat\"}")
        call = lambda: client.chat.completions.create(**{"model": "fast", "messages": MESSAGES, **wrong})
        error = refused(call, kind)
        tries = server.metric("beamgen_request_seconds_count{route=\"chat\"}") - before
        assert tries == 1 and error.param
        say("refused", error.status_code, error.code, "|", error.body["message"][:90])


def full(binary):
    server = Server(binary, "--in-flight", "1", "--queue", "1", "--max-request-tokens", str(1 << 23))
    patient, hasty = server.client(max_retries=10), server.client(max_retries=0)
    # so long that it still runs when the last of eight calls arrives
    slow = {"beamgen": {"strategy": "best-of-n", "n": 2000, "m": 1}}

    async def reached(name):
        began = time.monotonic()
        # on another thread, because the calls need this one
        while await asyncio.to_thread(server.metric, name) != 1:
            assert time.monotonic() - began < 60, f"{name} is not 1"
            await asyncio.sleep(0.005)

    async def crowd():
        many = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        call = lambda: asyncio.create_task(
            many.chat.completions.create(model="beamgen", messages=MESSAGES, extra_body=slow)
        )
        running = call()
        await reached("beamgen_in_flight")
        waiting = call()
        await reached("beamgen_queue_waiting")
        others = await asyncio.gather(*[call() for _ in range(6)], return_exceptions=True)
        return await asyncio.gather(running, waiting), others

    taken, turned_away = asyncio.run(crowd())
    assert all(answer.choices for answer in taken)
    assert all(isinstance(end, openai.RateLimitError) for end in turned_away), turned_away
    error = turned_away[0]
    say("full", len(turned_away), "of 8:", error.status_code, error.code, "Retry-After", error.response.headers["retry-after"])
    answer = patient.chat.completions.create(model="fast", messages=MESSAGES)
    assert answer.choices[0].finish_reason == "stop" and hasty.models.list()
    server.stop()


def with_key(binary):
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".key") as file:
        file.write("correct-horse-battery\n")
        file.flush()
        server = Server(binary, "--api-key-file", file.name)
        error = refused(lambda: server.client().models.list(), openai.AuthenticationError)
        say("key", error.status_code, error.code, "|", error.body["message"])
        right = OpenAI(base_url=f"{server.url}/v1", api_key="correct-horse-battery")
        assert right.chat.completions.create(model="single", messages=MESSAGES).choices
        say("", "with the key:", [model.id for model in right.models.list()])
        server.stop()


def guide(server):
    """The request that the guide shows."""
    command = [sys.executable, Path(__file__).with_name("first.py"), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "\n21 0." in done.stdout, done.stdout + done.stderr
    say("guide", repr(done.stdout[-12:]))


def main(binary):
    say("openai", openai.__version__, "on Python", sys.version.split()[0])
    server = Server(binary)
    client = server.client()
    wanted = plain(client)
    guide(server)
    streamed(client, wanted)
    cancelled(server, client)
    timed_out(server)
    refusals(server, client)
    server.stop()
    full(binary)
    with_key(binary)
    say("done")


main(*sys.argv[1:])
