// The page of a run: problems by outcome and certainty, and each of them with its search.

/** Outcomes, the ones to look at first. `sure` says which end of the certainty comes first. */
const OUTCOMES = {
  wrong: { shape: "\u2717", word: "wrong", kind: "bad", sure: -1 },
  "cannot-tell": { shape: "?", word: "cannot tell", kind: "unsure", sure: -1 },
  withheld: { shape: "\u2013", word: "withheld", kind: "unsure", sure: -1 },
  "no-answer": { shape: "\u2205", word: "no answer", kind: "bad", sure: -1 },
  "not-tried": { shape: "!", word: "not tried", kind: "bad", sure: -1 },
  unsound: { shape: "\u00b1", word: "right, unsound", kind: "unsure", sure: -1 },
  right: { shape: "\u2713", word: "right", kind: "good", sure: 1 },
  ungraded: { shape: "\u00b7", word: "not graded", kind: "dim", sure: 1 },
};
const RANK = Object.keys(OUTCOMES);

/** Orders of the list. By outcome, wrong answers with a high certainty come first. */
const ORDERS = {
  outcome: (a, b) => {
    const by = RANK.indexOf(a.outcome) - RANK.indexOf(b.outcome);
    return by || OUTCOMES[a.outcome].sure * (certainty(a) - certainty(b)) || a.at - b.at;
  },
  surest: (a, b) => certainty(b) - certainty(a) || a.at - b.at,
  unsurest: (a, b) => certainty(a) - certainty(b) || a.at - b.at,
  tokens: (a, b) => b.ledger.generated_tokens - a.ledger.generated_tokens || a.at - b.at,
  file: (a, b) => a.at - b.at,
};

/** The score of the chosen chain; without one the share of votes of its answer. */
function certainty(problem) {
  return problem.score ?? problem.share ?? -1;
}

function outcomeMark(problem) {
  const { shape, word, kind } = OUTCOMES[problem.outcome];
  const glyph = el("span", "shape", shape);
  glyph.setAttribute("aria-hidden", "true");
  return el("span", `outcome ${kind}`, glyph, word);
}

class Report {
  constructor(run) {
    this.run = run;
    this.problems = run.problems.map((problem, at) => ({ ...problem, at }));
    this.list = document.getElementById("list");
    this.page = document.getElementById("problem");
    this.view = new SearchView(() => `${run.stem}-${this.problem?.id ?? "problem"}`.replace(/[^\w.-]+/g, "_"));
    this.order = document.getElementById("order");
    this.only = document.getElementById("only");
    this.find = document.getElementById("find");
    for (const outcome of RANK) {
      const count = this.problems.filter((problem) => problem.outcome === outcome).length;
      if (count === 0) continue;
      const option = el("option", null, `${OUTCOMES[outcome].word} (${count})`);
      option.value = outcome;
      this.only.append(option);
    }
    for (const control of [this.order, this.only, this.find]) control.addEventListener("input", () => this.fill());
    this.fill();
    addEventListener("hashchange", () => this.route());
    this.route();
  }

  /** The problems in the order and of the kind that was asked for. */
  fill() {
    const words = this.find.value.trim().toLowerCase();
    const shown = this.problems.filter(
      (problem) =>
        (this.only.value === "" || problem.outcome === this.only.value) &&
        (words === "" || `${problem.id} ${problem.problem}`.toLowerCase().includes(words)),
    );
    shown.sort(ORDERS[this.order.value]);
    this.shown = shown;
    const items = document.getElementById("problems");
    items.replaceChildren(...shown.map((problem) => this.item(problem)));
    document.getElementById("columns").hidden = shown.length === 0;
    document.getElementById("found").textContent = `${grouped(shown.length)} of ${grouped(this.problems.length)}`;
  }

  item(problem) {
    const given = problem.answer ?? problem.withheld;
    const right = problem.verified ?? (problem.reference == null ? "wrong" : `it is ${problem.reference}`);
    const said = given == null ? "" : problem.outcome === "wrong" ? `${given}, ${right}` : given;
    const link = el(
      "a",
      "problem-link",
      outcomeMark(problem),
      el("span", "id", problem.id),
      el("span", "text", problem.problem.trim().replace(/\s+/g, " ")),
      el("span", "said", said),
      scoreChip(problem.score),
      el("span", "cost", `${grouped(problem.ledger.generated_tokens)} tok`),
    );
    link.href = `#${problem.at}`;
    return el("li", null, link);
  }

  /** The problem that the address names, or the list. */
  route() {
    const problem = this.problems[Number(location.hash.slice(1) || NaN)];
    this.list.hidden = Boolean(problem);
    this.page.hidden = !problem;
    if (problem) {
      this.show(problem);
    } else if (this.problem) {
      const link = document.querySelector(`a[href="#${this.problem.at}"]`);
      this.problem = null;
      link?.focus();
    }
  }

  show(problem) {
    this.problem = problem;
    const at = this.shown.indexOf(problem);
    const nav = el("nav", "nav");
    nav.setAttribute("aria-label", "Problems");
    const link = (text, hash) => {
      const to = el("a", null, text);
      to.href = hash;
      return to;
    };
    if (this.problems.length > 1) nav.append(link("\u2190 all problems", "#"));
    if (at > 0) nav.append(link("previous", `#${this.shown[at - 1].at}`));
    if (at >= 0 && at + 1 < this.shown.length) nav.append(link("next", `#${this.shown[at + 1].at}`));
    if (at >= 0) nav.append(el("span", "place", `${at + 1} of ${this.shown.length}`));
    const title = el("h2", null, problem.id);
    title.tabIndex = -1;
    this.view.load(pageData(`nodes-${problem.at}`), problem);
    this.page.replaceChildren(
      nav,
      title,
      ...(problem.context ?? []).map((text) => el("p", "problem-text dim", text.trim())),
      el("p", "problem-text", problem.problem.trim()),
      this.verdict(problem),
      this.view.questions(problem.findings),
      problem.tree ? "" : el("p", "dim", "The run was saved without --tree, so only the chosen chain is shown."),
      this.view.element,
    );
    if (problem.chosen != null) this.view.go(problem.chosen);
    this.view.rows.element.scrollTop = 0;
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
  }

  verdict(problem) {
    const line = el("p", "verdict", outcomeMark(problem), " ");
    const given = problem.answer ?? problem.withheld;
    line.append(given == null ? `(${problem.finish})` : "answer ", given == null ? "" : el("b", null, given));
    if (problem.guess) line.append(" (a guess: the last number of the text)");
    if (problem.reference != null) line.append(", reference ", el("b", null, problem.reference));
    if (problem.verified != null) line.append(`, verifier: ${problem.verified}`);
    if (problem.score != null) line.append(`, score ${score3(problem.score)}`);
    if (problem.given) line.append(`, first ${problem.given} step${problem.given === 1 ? "" : "s"} given`);
    if (problem.error) line.append(el("span", "bad", ` ${problem.error}`));
    return line;
  }
}

new Report(pageData("run"));
