// The official JavaScript SDK of OpenAI against `beamgen serve`: plain, streamed, cancelled, timed out, refused.
//
//     npm install openai
//     node tests/sdk/check.mjs target/release/beamgen
//
// (With the package elsewhere: copy this file beside its node_modules.) Starts a server of its own on a free port. The
// first thing that is not as it should be ends it.

import assert from "node:assert";
import { setMaxListeners } from "node:events";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import OpenAI from "openai";

const problem =
  "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?";
const messages = [{ role: "user", content: problem }];
// a search that takes a third of a second at least
const slow = { strategy: "best-of-n", n: 500, m: 1 };
const say = (what, ...saw) => console.log(what.padEnd(12), ...saw);

async function start(...flags) {
  const child = spawn(process.argv[2], ["serve", "--port", "0", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface(child.stderr)) {
    const found = line.match(/http:\/\/\S+/);
    if (found) return { child, url: found[0] };
  }
  throw new Error("the server did not start");
}

async function metric(server, name) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const line = text.split("\n").find((line) => line.startsWith(name + " "));
  return Number(line.split(" ").at(-1));
}

async function untilIdle(server) {
  const began = performance.now();
  for (const name of ["beamgen_queue_waiting", "beamgen_in_flight", "beamgen_cache_bytes"]) {
    while (await metric(server, name)) {
      assert(performance.now() - began < 10_000, "it is still at work");
      await new Promise((done) => setTimeout(done, 5));
    }
  }
  return `idle after ${((performance.now() - began) / 1000).toFixed(3)} s`;
}

async function refused(call, kind) {
  try {
    await call();
  } catch (error) {
    assert(error instanceof kind, error);
    return error;
  }
  assert.fail(`${kind.name} was wanted`);
}

const server = await start();
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none" });
const { VERSION } = await import("openai/version").catch(() => ({ VERSION: "" }));
say("openai", VERSION, "on node", process.version);

const names = [];
for await (const model of client.models.list()) names.push(model.id);
assert.equal(names[0], "beamgen");
say("models", names);

const answer = await client.chat.completions.create({ model: "fast", messages, beamgen: { seed: 3, reference: "21" } });
const wanted = answer.choices[0].message.content;
assert(answer.beamgen.correct && answer.choices[0].finish_reason === "stop" && answer.usage.completion_tokens > 10);
say("plain", JSON.stringify(wanted), JSON.stringify(answer.usage));

const stream = await client.chat.completions.create({
  model: "fast",
  messages,
  stream: true,
  stream_options: { include_usage: true },
  beamgen: { seed: 3, events: true, tree: true },
});
let [content, usage, nodes, kinds] = ["", null, 0, {}];
for await (const chunk of stream) {
  content += chunk.choices[0]?.delta?.content ?? "";
  for (const event of chunk.beamgen?.events ?? []) kinds[event.type] = (kinds[event.type] ?? 0) + 1;
  nodes = chunk.beamgen?.tree?.length ?? nodes;
  usage = chunk.usage ?? usage;
}
assert(content === wanted && usage.total_tokens > 40 && kinds.step > 8 && nodes > 8);
say("streamed", JSON.stringify(content.slice(0, 40)), usage.total_tokens, "tokens;", nodes, "nodes; events", JSON.stringify(kinds));
const helper = client.chat.completions.stream({ model: "fast", messages, beamgen: { seed: 3 } });
assert.equal(await helper.finalContent(), wanted);
let text = "";
for await (const chunk of await client.completions.create({ model: "fast", prompt: problem, stream: true, beamgen: { seed: 3 } }))
  text += chunk.choices[0]?.text ?? "";
assert.equal(text, wanted);
say("", "the same by completions and by the SDK's stream helper");

const left = await client.chat.completions.create({ model: "beamgen", messages, stream: true, beamgen: { ...slow, events: true } });
let seen = 0;
for await (const _ of left) if (++seen === 3) break;
say("cancelled", "a stream that was left:", await untilIdle(server));
const abort = new AbortController();
setMaxListeners(20, abort.signal);
const calls = Array.from({ length: 20 }, () =>
  client.chat.completions.create({ model: "beamgen", messages, beamgen: slow }, { signal: abort.signal }),
);
const ended = Promise.allSettled(calls);
await new Promise((done) => setTimeout(done, 500));
abort.abort();
assert((await ended).every((end) => end.reason instanceof OpenAI.APIUserAbortError));
say("", "20 calls:", await untilIdle(server));

const hasty = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", timeout: 50, maxRetries: 0 });
const late = await refused(
  () => hasty.chat.completions.create({ model: "beamgen", messages, beamgen: slow }),
  OpenAI.APIConnectionTimeoutError,
);
say("timed out", late.constructor.name, await untilIdle(server));
// so hot, chains end at random: after a while there are some, and it is not over yet
for (let deadline = 0.05; ; deadline *= 1.25) {
  assert(deadline < 20);
  try {
    const hot = { model: "beamgen", messages, temperature: 2, beamgen: { ...slow, deadline } };
    const early = await client.chat.completions.create(hot);
    assert.equal(early.beamgen.stopped, "deadline");
    say("deadline", `${deadline.toFixed(2)} s:`, early.choices[0].finish_reason, early.beamgen.stopped);
    break;
  } catch (error) {
    assert(error.status === 504 && error.headers.get("x-should-retry") === "false", error);
  }
}

for (const [kind, wrong] of [
  [OpenAI.BadRequestError, { tools: [{ type: "function", function: { name: "f" } }] }],
  [OpenAI.BadRequestError, { beamgen: { width: 3 } }],
  [OpenAI.NotFoundError, { model: "gpt-4" }],
]) {
  const error = await refused(() => client.chat.completions.create({ model: "fast", messages, ...wrong }), kind);
  assert(error.param);
  say("refused", error.status, error.code, "|", error.message.slice(0, 90));
}

server.child.kill("SIGTERM");
const code = await new Promise((done) => server.child.on("exit", done));
assert.equal(code, 0);
say("done");
