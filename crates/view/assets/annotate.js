// The page on which a person rates steps. The server keeps the state: the page posts acts and shows
// the view that the server returns, so a page that is loaded again continues where it was.

const RATINGS = new Map([
  [1, { word: "\u2713 right", kind: "good" }],
  [0, { word: "\u25cb neutral", kind: "unsure" }],
  [-1, { word: "\u2717 wrong", kind: "bad" }],
]);

class Annotation {
  constructor() {
    const ids = ["progress", "fault", "problem", "reference", "answer", "steps", "comment", "stops", "undo", "previous", "next"];
    for (const id of ids) this[id] = document.getElementById(id);
    this.view = null;
    this.last = Promise.resolve();
    const on = (id, acts) => document.getElementById(id).addEventListener("click", () => this.act(acts));
    on("right", (view) => this.rate(view, 1));
    on("neutral", (view) => this.rate(view, 0));
    on("wrong", (view) => this.rate(view, -1));
    on("undo", () => [{ do: "undo" }]);
    on("previous", (view) => this.go(view.chain - 1));
    on("next", (view) => this.go(view.chain + 1));
    this.stops.addEventListener("change", () => this.act(() => [{ do: "stop", at_first_error: this.stops.checked }]));
    document.getElementById("remark").addEventListener("submit", (event) => {
      event.preventDefault();
      this.act(() => []);
      this.comment.blur();
    });
    document.addEventListener("keydown", (event) => this.key(event));
    this.act(() => [{ do: "look" }]);
  }

  /** The acts of a rating of the step that is shown, wherever another page of the same person is. */
  rate(view, rating) {
    return [...this.go(view.chain, view.step), { do: "rate", rating }];
  }

  go(chain, step = 0) {
    return [{ do: "go", chain, step }];
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target === this.comment) {
      if (event.key === "Escape") this.comment.blur();
      return;
    }
    const acts = {
      1: (view) => this.rate(view, 1),
      0: (view) => this.rate(view, 0),
      "-": (view) => this.rate(view, -1),
      u: () => [{ do: "undo" }],
      ArrowUp: (view) => this.go(view.chain, Math.max(view.step - 1, 0)),
      ArrowDown: (view) => this.go(view.chain, Math.min(view.step + 1, view.steps.length - 1)),
      ArrowLeft: (view) => this.go(Math.max(view.chain - 1, 0)),
      ArrowRight: (view) => this.go(Math.min(view.chain + 1, view.chains - 1)),
    }[event.key];
    if (acts) {
      event.preventDefault();
      // A key that is held moves, but does not rate steps that nobody has read.
      if (!event.repeat || event.key.startsWith("Arrow")) this.act(acts);
    } else if (event.key === "c") {
      event.preventDefault();
      this.comment.focus();
      this.comment.select();
    }
  }

  /** Posts acts that follow from what is shown, one list after the other. */
  act(acts) {
    this.last = this.last.then(() => this.post(this.withComment(acts(this.view)))).catch((error) => {
      this.fault.textContent = visible(error.message);
    });
  }

  /** These acts after a comment that was typed and not saved, so that nothing typed is lost. */
  withComment(acts) {
    const { view, comment } = this;
    const isSaved = view === null || comment.value === (view.steps[view.step].comment ?? "");
    if (isSaved || acts.some((act) => act.do === "undo")) return acts;
    return [...this.go(view.chain, view.step), { do: "comment", text: comment.value }, ...acts];
  }

  async post(acts) {
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(acts) };
    const reply = await fetch("act", options).catch(() => {
      throw new Error("Cannot reach the program: start it again and open the address that it prints.");
    });
    const told = await reply.json();
    if (!reply.ok) throw new Error(told.error);
    this.fault.textContent = "";
    this.show(told);
  }

  show(view) {
    const isNew = this.view?.chain !== view.chain;
    this.view = view;
    const { chain, chains, step, steps } = view;
    const done = view.done === chains ? "All chains are done." : `${view.done} of ${chains} chains done.`;
    const here = view.is_done ? ", done" : "";
    this.progress.textContent = visible(
      `${view.rater}: chain ${chain + 1} of ${chains}${here}, step ${step + 1} of ${steps.length}. ${done}`,
    );
    if (isNew) {
      this.problem.textContent = visible(view.problem);
      this.reference.hidden = view.answer == null;
      this.reference.open = false;
      this.answer.textContent = visible(view.answer ?? "");
    }
    const hadFocus = this.steps.contains(document.activeElement);
    this.steps.replaceChildren(...steps.map((of, at) => this.step(of, at)));
    const current = this.steps.children[step].firstChild;
    if (hadFocus) current.focus({ preventScroll: true });
    // A new chain begins with its problem in view.
    if (isNew) window.scrollTo(0, 0);
    else current.scrollIntoView({ block: "nearest" });
    this.comment.value = steps[step].comment ?? "";
    this.stops.checked = view.stops;
    this.undo.disabled = !view.can_undo;
    this.previous.disabled = chain === 0;
    this.next.disabled = chain + 1 === chains;
  }

  step({ text, rating, comment }, at) {
    const said = RATINGS.get(rating) ?? { word: "not rated", kind: "dim" };
    const remark = comment ? el("span", "said dim", comment) : null;
    const row = button("", () => this.act((view) => this.go(view.chain, at)), "");
    row.append(el("span", null, text), el("span", `said ${said.kind}`, `step ${at + 1}: ${said.word}`));
    row.dataset.kind = said.kind;
    if (remark) row.append(remark);
    if (at === this.view.step) row.setAttribute("aria-current", "step");
    return el("li", null, row);
  }
}

new Annotation();
