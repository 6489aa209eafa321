// The live page of a server: it sends a problem, shows the running search, and then the result.
//
// Requests go to the server that the page came from. `EventSource` can neither POST nor send a key,
// so the stream is read from `fetch`.

/** A server's error: its message, and its status. */
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

class Live {
  constructor() {
    const get = (id) => document.getElementById(id);
    this.form = get("ask");
    this.text = get("text");
    this.samples = get("samples");
    this.preset = get("preset");
    this.summary = get("summary");
    this.keyField = get("key-field");
    this.key = get("key");
    this.go = get("go");
    this.stop = get("stop");
    this.status = get("status");
    this.result = get("result");
    this.settings = [...this.form.querySelectorAll("[data-key]")];
    this.view = new SearchView(() => `beamgen-${this.named?.id ?? "search"}`.replace(/[^\w.-]+/g, "_"));
    get("view").append(this.view.element);
    this.presets = [];
    this.problems = [];
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.solve();
    });
    this.stop.addEventListener("click", () => this.cancel());
    this.samples.addEventListener("change", () => {
      const problem = this.problems[this.samples.value];
      if (problem) this.text.value = problem.text;
    });
    this.preset.addEventListener("change", () => this.describe());
    this.key.addEventListener("change", () => this.begin());
    this.begin();
  }

  headers() {
    const headers = { "Content-Type": "application/json" };
    if (this.key.value) headers.Authorization = `Bearer ${this.key.value}`;
    return headers;
  }

  async ask(path, options) {
    const reply = await fetch(path, { headers: this.headers(), cache: "no-store", ...options }).catch((error) => {
      throw error.name === "AbortError" ? error : new Refusal(0, "The server cannot be reached.");
    });
    if (!reply.ok) {
      const error = await reply.json().then((body) => body.error, () => null);
      throw new Refusal(reply.status, error?.message ?? `the server answered ${reply.status}`);
    }
    return reply;
  }

  /** Presets and sample problems, for which a server may want its key. */
  async begin() {
    try {
      const [models, problems] = await Promise.all(
        ["v1/models", "v1/problems"].map((path) => this.ask(path).then((reply) => reply.json())),
      );
      this.presets = models.data;
      this.problems = problems.data ?? [];
      this.fill();
      this.say("");
    } catch (error) {
      this.fail(error);
    }
  }

  fill() {
    const option = (text, value) => {
      const element = el("option", null, text);
      element.value = value;
      return element;
    };
    this.preset.replaceChildren(...this.presets.map((preset) => option(preset.id, preset.id)));
    this.describe();
    this.samples.replaceChildren(
      option(this.problems.length > 0 ? "pick a sample problem" : "no sample problems here", ""),
      ...this.problems.map((problem, at) => option(`${problem.id}: ${problem.text.slice(0, 70)}`, at)),
    );
    this.samples.disabled = this.problems.length === 0;
    // A first visitor has something to solve.
    if (this.problems.length > 0 && this.text.value === "") {
      this.samples.value = 0;
      this.text.value = this.problems[0].text;
    }
  }

  /** The description of the chosen preset, if the server sends one. */
  describe() {
    const preset = this.presets.find((preset) => preset.id === this.preset.value);
    this.summary.textContent = visible(preset?.beamgen?.summary ?? preset?.summary ?? "");
  }

  say(text, isBad) {
    this.status.textContent = visible(text);
    this.status.className = isBad ? "bad" : "dim";
  }

  fail(error) {
    if (error.status === 401) {
      this.keyField.hidden = false;
      this.key.focus();
      this.say(this.key.value ? "The server does not know this key." : "The server wants its key.", true);
    } else {
      this.say(error.message, true);
    }
  }

  /** The request as the form has it. */
  request() {
    const beamgen = { events: true, tree: true };
    for (const { dataset, value } of this.settings) {
      if (value.trim() !== "") beamgen[dataset.key] = dataset.kind === "number" ? Number(value) : value;
    }
    const sample = this.problems[this.samples.value];
    // A sample keeps its name, on which random numbers depend, and its reference answer.
    if (sample && sample.text === this.text.value) {
      this.named = sample;
      beamgen.id = sample.id;
      if (sample.answer != null) beamgen.reference = sample.answer;
    } else {
      this.named = null;
    }
    return {
      model: this.preset.value || undefined,
      messages: [{ role: "user", content: this.text.value }],
      stream: true,
      beamgen,
    };
  }

  async solve() {
    if (this.text.value.trim() === "") {
      this.say("There is no problem yet: type one, or pick a sample.", true);
      this.text.focus();
      return;
    }
    this.cancel();
    const running = new AbortController();
    this.running = running;
    this.votes = new Map();
    this.view.begin();
    this.result.replaceChildren();
    this.busy(true);
    this.say("Searching.");
    const from = performance.now();
    const clock = setInterval(() => {
      this.view.info.seconds = (performance.now() - from) / 1000;
      this.view.count();
    }, 100);
    try {
      const reply = await this.ask("v1/chat/completions", {
        method: "POST",
        body: JSON.stringify(this.request()),
        signal: running.signal,
      });
      await this.read(reply);
    } catch (error) {
      if (running.signal.aborted) this.say("Cancelled. The results so far are below.");
      else this.fail(error);
    } finally {
      clearInterval(clock);
      if (this.running === running) {
        this.running = null;
        this.busy(false);
        this.view.soon();
      }
    }
  }

  cancel() {
    this.running?.abort();
  }

  busy(isBusy) {
    this.go.disabled = isBusy;
    this.stop.disabled = !isBusy;
    this.view.element.setAttribute("aria-busy", isBusy);
  }

  /** Reads the stream: `data:` lines, each a chunk in OpenAI's shape. */
  async read(reply) {
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let isOver = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const data = line.startsWith("data:") ? line.slice(5).trim() : "";
        if (data === "" || data === "[DONE]") continue;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Refusal(200, chunk.error.message);
        isOver = this.chunk(chunk) || isOver;
      }
    }
    if (!isOver) throw new Refusal(200, "The connection ended before the result came.");
  }

  /** Takes in a chunk; true for the one with the result. */
  chunk({ beamgen }) {
    if (!beamgen) return false;
    if (beamgen.events) {
      for (const event of beamgen.events) this.event(event);
      this.view.info.tokens = beamgen.tokens;
      this.view.soon();
      return false;
    }
    this.finish(beamgen);
    return true;
  }

  event(event) {
    const { chains } = this.view;
    switch (event.type) {
      case "expanded":
        chains.change(event.node, { state: "expanded" });
        break;
      case "step": {
        const { type, node, tokens, children, ...fields } = event;
        fields.tokens = tokens.length;
        if (chains.get(node)) chains.change(node, fields);
        else chains.add({ ...fields, id: node });
        break;
      }
      case "score":
        chains.change(event.node, { score: event.score, judges: event.judges });
        break;
      case "partial_score":
        chains.change(event.node, { partial_score: event.partial_score, judges: event.judges });
        break;
      case "duplicate":
        chains.fold(event.node, event.duplicate_of, event.copies);
        break;
      case "pruned":
        chains.change(event.node, { state: "pruned", pruned: event.pruned });
        break;
      case "finished":
        chains.change(event.node, { state: "finished", finish: event.finish });
        break;
      case "answer":
        this.vote(event);
        break;
      case "restarted":
        this.votes.clear();
        this.view.begin();
        this.say("Memory ran out; the search restarts.");
        break;
      default:
    }
  }

  /** Shows votes as they come. The votes that decide come with the result. */
  vote({ node, answer, votes }) {
    const score = scoreOf(this.view.chains.get(node) ?? {});
    const known = this.votes.get(answer);
    this.votes.set(answer, { answer, votes, node: known?.node ?? node, score: Math.max(known?.score ?? 0, score ?? 0) });
    this.view.info.answers = [...this.votes.values()].sort((a, b) => b.votes - a.votes);
  }

  finish(told) {
    const { tree, ...info } = told;
    info.chosen = info.answers[0]?.node ?? null;
    info.seconds = info.elapsed_seconds;
    if (told.correct != null && info.answers.length > 0) info.answers[0].correct = told.correct;
    if (tree) {
      this.view.renew(tree, info);
    } else {
      this.view.info = info;
    }
    this.view.soon();
    const line = el("p", "verdict");
    if (told.answer == null) {
      const why = told.unsound ? "its work is unsound" : "its score is below the threshold";
      line.append(told.withheld == null ? `No answer (${told.finish}).` : `The answer is withheld: ${why}.`);
    } else {
      line.append(el("span", null, "Answer "), el("b", null, told.answer));
      if (told.correct != null) line.append(" ", el("span", told.correct ? "label good" : "label bad", told.correct ? "\u2713 right" : "\u2717 wrong"));
      if (told.score != null) line.append(`, score ${score3(told.score)}`);
    }
    if (told.unsound) line.append(el("span", "bad", ` Unsound: step ${told.unsound.step + 1}, ${told.unsound.source}: ${told.unsound.reason.replace(/\.$/, "")}.`));
    if (told.note) line.append(el("span", "dim", ` (${told.note})`));
    if (told.stopped) line.append(`, ended early (${told.stopped})`);
    this.result.replaceChildren(line, this.view.questions(told.findings));
    // The reader may be at another chain already.
    if (this.view.selected === null && this.view.chains.get(info.chosen)) this.view.go(info.chosen);
    this.say("Done.");
  }
}

new Live();
