// The view of one search: counts, answers, the map, the rows and a chain to read. It is given a
// finished search at once (`load`), or events as they come and then the finished search (`renew`).
// A finished search can be replayed round by round.

class SearchView {
  /** `name()` is the stem of exported files. */
  constructor(name) {
    this.name = name;
    this.chains = new Chains();
    this.info = {};
    this.selected = null;
    this.pinned = null;
    const on = {
      read: (id) => {
        this.read(id);
        this.detail.reveal();
      },
      pin: (id) => this.pin(id),
      back: () => this.rows.show(this.rows.focusActive()),
      name,
    };
    this.rows = new TreeRows(this.chains, on);
    this.map = new Overview(this.chains, (id) => this.go(id));
    this.detail = new Detail(this.chains, on);
    this.counts = el("p", "counts");
    this.answers = el("div", "answers");

    this.filter = el("select");
    for (const [value, text] of [["all", "all steps"], ["alive", "without pruned ones"], ["chosen", "the chosen chain"]]) {
      const option = el("option", null, text);
      option.value = value;
      this.filter.append(option);
    }
    this.filter.addEventListener("change", () => {
      this.rows.filter = this.map.filter = this.filter.value;
      this.refresh();
    });
    this.slider = el("input");
    this.slider.type = "range";
    this.slider.min = 1;
    this.slider.addEventListener("input", () => this.showTurn());
    this.turnText = el("span", "dim");
    this.replay = el("p", "replay", el("label", null, "Replay ", this.slider), this.turnText);
    this.replay.hidden = true;
    const tools = el(
      "div",
      "tools",
      el("label", null, "Show ", this.filter),
      button("Open all", () => this.fold(false)),
      button("Fold pruned", () => this.fold(true)),
      button("Export JSON", () => download(`${name()}.json`, this.exported())),
    );
    const left = el("div", "left", this.map.element, this.replay, tools, this.rows.element, legend());
    const right = el("div", "right", this.answers, this.detail.element);
    this.element = el("div", "search-view", this.counts, left, right);
    this.refresh();
  }

  /** A finished search: its steps, and what is said of it (`answers`, `chosen`, `ledger`, ...). */
  load(nodes, info) {
    this.info = info;
    this.forget();
    this.chains.load(nodes, info.chosen);
    this.rewind();
    this.refresh();
    this.rows.element.scrollTop = 0;
    this.detail.show(null, null);
  }

  /** The finished search in place of the one that was watched. Its steps have other numbers; what is
      open and read stays so, for a step keeps its random stream. */
  renew(nodes, info) {
    const { chains } = this;
    const streamOf = (id) => chains.get(id)?.stream;
    const [selected, pinned] = [this.selected, this.pinned].map(streamOf);
    const active = streamOf(this.rows.active);
    const collapsed = [...chains.collapsed].map(streamOf);
    const opened = [...chains.opened].map((id) => streamOf(groupId(id)));
    this.info = info;
    chains.load(nodes, info.chosen);
    const byStream = new Map([...chains.byId.values()].map((node) => [node.stream, node.id]));
    const now = (stream) => byStream.get(stream) ?? null;
    for (const stream of collapsed) if (byStream.has(stream)) chains.setOpen(now(stream), false);
    for (const stream of opened) if (byStream.has(stream)) chains.setOpen(groupId(now(stream)), true);
    this.selected = this.map.selected = this.rows.selected = now(selected);
    this.pinned = this.rows.pinned = now(pinned);
    this.rows.renew(now(active));
    this.rewind();
  }

  /** Sets the slider to the end of a finished search; one that is watched has no slider. */
  rewind() {
    const { turns } = this.chains;
    this.replay.hidden = turns < 2;
    // First the end: a value beyond it is cut.
    this.slider.max = turns;
    this.slider.value = turns;
    this.describeTurn();
  }

  /** Shows the search as it stood at the slider's place. */
  showTurn() {
    const turn = Number(this.slider.value);
    this.chains.replay(turn < this.chains.turns ? turn : null);
    this.rows.renew(this.rows.active);
    this.describeTurn();
    this.refresh();
    this.detail.show(this.selected, this.pinned);
  }

  describeTurn() {
    const { turn, turns, inRounds } = this.chains;
    const text = turn === null ? "the result" : `after ${inRounds ? "round" : "step"} ${turn} of ${turns}`;
    this.turnText.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
  }

  /** Forgets everything, before a search that is watched. */
  begin() {
    this.info = {};
    this.forget();
    this.chains.clear();
    this.rewind();
    this.refresh();
    this.detail.show(null, null);
  }

  forget() {
    this.selected = this.map.selected = this.rows.selected = null;
    this.pinned = this.rows.pinned = null;
    this.rows.renew(null);
  }

  /** Draws at most once a frame, however many events came. */
  soon() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.refresh();
      this.detail.show(this.selected, this.pinned);
    });
  }

  refresh() {
    this.chains.settle();
    this.rows.refresh();
    // A step that the filter hid was asked for.
    if (this.rows.filter !== this.filter.value) this.filter.value = this.map.filter = this.rows.filter;
    this.map.refresh();
    this.count();
    this.tally();
  }

  count() {
    const counts = this.chains.counts();
    // What the search spent in all is known of its end only.
    const { ledger, tokens, seconds: elapsed } = this.chains.turn === null ? this.info : {};
    const parts = [
      [counts.steps, "step", "steps"],
      [counts.pruned, "pruned", "pruned"],
      [counts.duplicates, "duplicate folded", "duplicates folded"],
      [counts.ended, "chain ended", "chains ended"],
      [ledger?.generated_tokens ?? tokens ?? counts.tokens, "token", "tokens"],
    ];
    this.counts.replaceChildren();
    for (const [value, one, many] of parts) {
      this.counts.append(el("span", null, el("b", null, grouped(value)), ` ${value === 1 ? one : many}`));
    }
    const seconds = elapsed ?? ledger?.seconds;
    if (seconds != null) this.counts.append(el("span", null, el("b", null, seconds.toFixed(2)), " s"));
  }

  /** The answers with their votes. */
  tally() {
    const answers = this.chains.turn === null ? this.info.answers ?? [] : [];
    this.answers.hidden = answers.length === 0;
    const all = answers.reduce((sum, answer) => sum + answer.votes, 0);
    const body = el("tbody");
    for (const [at, answer] of answers.slice(0, 10).entries()) {
      const bar = el("span", "votes");
      const share = el("span", "share");
      share.style.width = `${(100 * answer.votes) / Math.max(1, all)}%`;
      bar.append(el("span", "number", String(answer.votes)), el("span", "track", share));
      const isThere = answer.node != null && this.chains.get(answer.node);
      const name = isThere ? button("", () => this.go(answer.node), "link") : el("span");
      name.append(visible(answer.answer) || "(empty)");
      const first = el("th", null, name);
      first.scope = "row";
      if (at === 0 && this.chains.chosen.size > 0) first.append(" ", el("span", "badge star", "\u2605 chosen"));
      if (answer.correct != null) {
        first.append(" ", el("span", answer.correct ? "label good" : "label bad", answer.correct ? "\u2713 right" : "\u2717 wrong"));
      }
      body.append(el("tr", null, first, el("td", null, bar), el("td", null, score3(answer.score))));
    }
    const head = el("tr", null, ...["answer", "votes", "best score"].map((name) => {
      const cell = el("th", null, name);
      cell.scope = "col";
      return cell;
    }));
    this.answers.replaceChildren(
      el("h3", null, "Answers"),
      el("table", null, el("thead", null, head), body),
      answers.length > 10 ? el("p", "dim", `and ${answers.length - 10} more`) : "",
    );
  }

  read(id) {
    this.selected = id;
    this.rows.select(id);
    this.map.selected = id;
    this.map.draw();
    this.detail.show(id, this.pinned);
  }

  /** Reads a step's chain and brings the step into sight. */
  go(id) {
    if (!this.chains.get(id)) this.toEnd();
    this.rows.reveal(id);
    this.rows.setActive(id);
    if (this.rows.filter !== this.filter.value) this.refresh();
    this.read(id);
  }

  /** Ends a replay, in which a step may not have been sampled yet. */
  toEnd() {
    this.slider.value = this.chains.turns;
    this.showTurn();
  }

  /** Pins a chain; one that is pinned is let go. */
  pin(id) {
    this.pinned = this.pinned === id ? null : id;
    this.rows.pinned = this.pinned;
    if (this.selected === null) this.selected = id;
    this.rows.refresh();
    this.detail.show(this.selected, this.pinned);
  }

  /** Shows two chains side by side. */
  compareWith(a, b) {
    this.pinned = this.rows.pinned = a;
    this.go(b);
  }

  /** The questions about an answer (src/findings.rs), each with the steps to look at. */
  questions(findings) {
    if (!findings?.length) return "";
    const list = el("dl", "findings");
    const { chosen } = this.info;
    for (const { question, answer, node, rival } of findings) {
      const said = el("dd", null, answer);
      if (node != null) {
        said.append(el("q", null, oneLine(this.chains.get(node))));
        const buttons = el("p", "buttons", button("Show the step", () => this.go(node)));
        if (rival && chosen != null) {
          buttons.append(button("Compare with the chosen chain", () => this.compareWith(chosen, node)));
        }
        said.append(buttons);
      }
      list.append(el("div", "card", el("dt", null, question), said));
    }
    return list;
  }

  fold(isFolded) {
    this.chains.openAll();
    if (isFolded) this.chains.collapseDead();
    this.rows.refresh();
  }

  exported() {
    return { ...this.info, tree: this.chains.exported() };
  }
}

/** What the shapes and colours mean. */
function legend() {
  const items = [
    ["mark kept", "\u25cf", "kept"],
    ["mark ended", "\u25a0", "chain ended"],
    ["mark pruned", "\u2715", "pruned"],
    ["mark dead", "\u25cc", "pruned later"],
    ["mark open", "\u25cb", "open"],
  ];
  const list = el("p", "legend");
  for (const [className, shape, word] of items) {
    list.append(el("span", null, el("span", className, shape), ` ${word}`));
  }
  for (const [kind, words] of [["good", `score ${SURE} or more`], ["unsure", `${DOUBTFUL} or more`], ["bad", "less: probably wrong"]]) {
    list.append(el("span", null, el("span", `swatch ${kind}`), ` ${words}`));
  }
  return list;
}
