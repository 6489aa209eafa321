// One chain to read, step by step, or two of them side by side.

/** The value of a step by rollouts, with its difference from the step before. */
function valueOf(node, before) {
  if (node.value == null) return null;
  if (before?.value == null) return score3(node.value);
  const change = node.value - before.value;
  return `${score3(node.value)} (${change < 0 ? "" : "+"}${change.toFixed(3)})`;
}

class Detail {
  /** `on.read(id)`, `on.pin(id)` and `on.name` (a file name for exports) come from the view. */
  constructor(chains, on) {
    this.chains = chains;
    this.on = on;
    this.element = el("section", "detail");
    this.element.setAttribute("aria-label", "Chain");
    this.show(null, null);
  }

  /** Brings the chain into sight where it stands below the steps. */
  reveal() {
    if (matchMedia("(max-width: 900px)").matches) this.element.scrollIntoView({ block: "start" });
  }

  /** Shows the chain that ends with `id`, next to the pinned chain if there is one. */
  show(id, pinned) {
    const node = this.chains.get(id);
    const other = this.chains.get(pinned);
    if (node && other && node !== other) this.compare(other, node);
    else if (node) this.read(node, pinned);
    else this.hint();
  }

  hint() {
    this.element.replaceChildren(
      el("h3", null, "Chain"),
      el("p", "dim", "Click a step, or press Enter on it, to read its chain here. Space pins a chain; the next chain is shown next to it."),
    );
  }

  read(node, pinned) {
    const path = this.chains.path(node.id);
    const head = el("h3", null, `Chain to step ${node.depth}`, " ", fateMark(node, true));
    const { reason, word, kind } = fate(node);
    const why = reason ? el("p", `reason ${kind}`, `${word}: ${reason}`) : null;
    const pin = button(pinned === node.id ? "Unpin" : "Pin to compare", () => this.on.pin(node.id));
    const save = button("Export chain", () => download(`${this.on.name()}-chain-${node.id}.json`, this.exported(path)));
    this.element.replaceChildren(
      head,
      why ?? "",
      this.facts(node),
      el("ol", "steps", ...path.map((step) => this.step(step))),
      el("p", "buttons", pin, save, button("Back to the steps", () => this.on.back(), "plain back")),
      this.siblings(node) ?? "",
    );
  }

  facts(node) {
    const facts = [
      ["score", score3(node.score)],
      ["in its middle", node.partial_score == null ? null : score3(node.partial_score)],
      ["success", node.quantiles ? `${score3(node.quantiles[0])} to ${score3(node.quantiles[2])}` : null],
      ...Object.entries(node.judges ?? {}).map(([name, score]) => [name, score == null ? "abstains" : score3(score)]),
      ["value of rollouts", valueOf(node, this.chains.get(node.parent))],
      ["chain score", node.chain_score == null ? null : score3(node.chain_score)],
      ["tokens", node.tokens ? grouped(node.tokens) : null],
      ["log-prob", node.logprob == null ? null : node.logprob.toFixed(2)],
      ["round", node.round ?? null],
      ["sampled", node.copies > 1 ? `${node.copies} times` : null],
    ];
    const list = el("dl", "facts");
    for (const [name, value] of facts) {
      if (value !== null) list.append(el("div", null, el("dt", null, name), el("dd", null, String(value))));
    }
    return list;
  }

  step(node) {
    return el("li", this.chains.chosen.has(node.id) ? "chosen" : "", scoreChip(scoreOf(node)), ...this.said(node), labelMark(node));
  }

  /** The text of a step, its thought folded. */
  said(node) {
    const { thought, text } = parts(node);
    const spokenText = el("span", "full", text.trim() || (thought === null ? "(no text)" : ""));
    if (thought === null) return [spokenText];
    const summary = el("summary", null, `Thought of ${node.thought.tokens || "some"} tokens`);
    const forced = node.thought.forced ? el("span", "why", "closed at its limit") : null;
    const folded = el("details", null, summary, forced, el("span", "full", thought.trim()));
    return [el("div", "full", folded, spokenText)];
  }

  /** The other steps that were sampled at this place, the best first. */
  siblings(node) {
    const parent = this.chains.get(node.parent);
    const others = parent.children.filter((child) => child !== node);
    if (others.length === 0) return null;
    others.sort((a, b) => (scoreOf(b) ?? -1) - (scoreOf(a) ?? -1));
    const list = el("ul", "siblings");
    for (const other of others.slice(0, 12)) {
      const { reason } = fate(other);
      const open = button("", () => this.on.read(other.id), "sibling");
      open.append(scoreChip(scoreOf(other)), fateMark(other, true), el("span", "full", oneLine(other)));
      if (reason) open.append(el("span", "why", reason));
      list.append(el("li", null, open));
    }
    const more = others.length > 12 ? el("p", "dim", `and ${others.length - 12} more`) : "";
    return el("div", null, el("h4", null, `Other steps at this place (${others.length})`), list, more);
  }

  compare(a, b) {
    const [left, right] = [this.chains.path(a.id), this.chains.path(b.id)];
    let shared = 0;
    while (shared < left.length && left[shared] === right[shared]) shared += 1;
    const table = el("div", "compare");
    const head = (name, node) => {
      const { reason } = fate(node);
      return el("div", "head", el("strong", null, name), " ", fateMark(node, true), reason ? el("span", "why", reason) : null);
    };
    table.append(head("A", a), head("B", b));
    if (shared > 0) {
      const same = el("details", "shared", el("summary", null, shared === 1 ? "Step 1 is the same" : `Steps 1 to ${shared} are the same`));
      same.append(el("ol", "steps", ...left.slice(0, shared).map((step) => this.step(step))));
      table.append(same);
    }
    for (let at = shared; at < Math.max(left.length, right.length); at += 1) {
      for (const [name, path] of [["A", left], ["B", right]]) {
        const cell = el("div", "cell");
        if (path[at]) {
          cell.append(spoken(`${name}, step ${at + 1}: `), scoreChip(scoreOf(path[at])));
          cell.append(...this.said(path[at]));
          const label = labelMark(path[at]);
          if (label) cell.append(label);
        } else {
          cell.append(el("span", "dim", "\u2013"));
        }
        table.append(cell);
      }
    }
    this.element.replaceChildren(
      el("h3", null, "Two chains"),
      table,
      el(
        "p",
        "buttons",
        button("Read B alone", () => this.on.pin(a.id)),
        button("Export both", () => {
          download(`${this.on.name()}-chains-${a.id}-${b.id}.json`, { a: this.exported(left), b: this.exported(right) });
        }),
      ),
    );
  }

  exported(path) {
    return path.map((node) => ({
      node: node.id,
      text: node.text,
      score: node.score,
      state: node.state,
      finish: node.finish,
      pruned: node.pruned,
      round: node.round,
      copies: node.copies,
    }));
  }
}
