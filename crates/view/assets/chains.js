// The chains of one search: the steps, the state of each, and which of them are shown.
//
// Steps come all at once, as a run file has them (docs/reference/run-file.md), or one event at a time. The
// files of this folder are joined into one script, in the order that src/assets.rs lists.
"use strict";

/** The score from which a step is sure. Below DOUBTFUL the scorer takes a step for wrong. */
const SURE = 0.9;
const DOUBTFUL = 0.5;

/** Trees with more steps than this open with their pruned parts collapsed. */
const LARGE = 400;

/** More pruned siblings than this are one row until they are asked for. */
const MANY = 8;

/** The id of the row that groups the pruned steps after `parent`. */
function groupId(parent) {
  return -1 - parent;
}

class Chains {
  constructor() {
    this.clear();
  }

  clear() {
    this.loaded = { list: [], chosen: null };
    this.collapsed = new Set();
    this.opened = new Set();
    this.turn = null;
    this.turns = 0;
    this.empty();
    this.add({ id: 0, parent: null, text: "", state: "expanded" });
  }

  empty() {
    this.byId = new Map();
    this.chosen = new Set();
    this.groups = new Map();
    this.deepest = 0;
  }

  /** All steps at once; `chosen` is the last step of the chosen chain, or null. */
  load(list, chosen) {
    this.clear();
    this.loaded = { list, chosen };
    this.inRounds = list.some((node) => node.round != null);
    this.replay(null);
    for (const node of this.byId.values()) this.turns = Math.max(this.turns, this.turnOf(node));
    if (list.length > LARGE) this.collapseDead();
  }

  /** Shows the loaded search as it stood after a turn, or with null as it ended. */
  replay(turn) {
    this.turn = turn;
    this.empty();
    this.loaded.list.forEach((node, id) => {
      const tokens = Array.isArray(node.tokens) ? node.tokens.length : node.tokens;
      this.add({ ...node, id, tokens });
      const added = this.byId.get(id);
      if (turn === null || !added) return;
      if (this.turnOf(added) > turn) this.remove(added);
      else if ((node.pruned?.round ?? 0) > turn) this.change(id, { state: "open", pruned: null });
    });
    this.choose(turn === null ? this.loaded.chosen : null);
    this.settle();
  }

  /** The round in which a step was asked for; its depth if the strategy does not work in rounds. */
  turnOf(node) {
    // Steps that were given have no round, and are there from the beginning.
    return this.inRounds ? node.round ?? 0 : node.depth;
  }

  remove(node) {
    const { children } = this.byId.get(node.parent);
    this.byId.delete(node.id);
    const at = children.indexOf(node);
    if (at >= 0) children.splice(at, 1);
  }

  /** Adds a step after its parent, which must exist. Siblings stay in the order of their ids. */
  add(fields) {
    const parent = fields.parent === null ? null : this.byId.get(fields.parent);
    if (parent === undefined) return null;
    const node = {
      score: null,
      copies: 1,
      tokens: 0,
      ...fields,
      depth: parent ? parent.depth + 1 : 0,
      children: [],
      alive: true,
      version: 0,
    };
    this.byId.set(node.id, node);
    this.deepest = Math.max(this.deepest, node.depth);
    if (parent && node.state !== "duplicate" && !node.is_rollout) this.attach(node, parent);
    return node;
  }

  /** Puts a step among the children of its parent, in the order of their ids. */
  attach(node, parent) {
    let at = parent.children.length;
    while (at > 0 && parent.children[at - 1].id > node.id) at -= 1;
    parent.children.splice(at, 0, node);
  }

  /** Removes a duplicate step from its siblings, one of which has the same text. */
  fold(id, standIn, copies) {
    const node = this.change(id, { state: "duplicate", duplicate_of: standIn });
    if (!node) return;
    const parent = this.byId.get(node.parent);
    parent.children = parent.children.filter((child) => child !== node);
    this.change(standIn, { copies });
  }

  /** Changes fields of a step. */
  change(id, fields) {
    const node = this.byId.get(id);
    if (!node) return null;
    Object.assign(node, fields);
    node.version += 1;
    return node;
  }

  /** A step, or for a negative id a group of pruned steps. */
  get(id) {
    return id < 0 ? this.groups.get(id) : this.byId.get(id);
  }

  get root() {
    return this.byId.get(0);
  }

  /** Marks the chain that ends with the step `id` as the chosen one. */
  choose(id) {
    const path = this.byId.has(id) ? this.path(id) : [];
    this.chosen = new Set(path.map((node) => node.id));
    for (const node of path) {
      node.version += 1;
      // Of the rollouts, only the chosen chain is drawn.
      const parent = this.byId.get(node.parent);
      if (node.is_rollout && !parent.children.includes(node)) this.attach(node, parent);
    }
  }

  /** The steps of a chain, from the first one to `id`. */
  path(id) {
    const path = [];
    for (let node = this.byId.get(id); node && node.parent !== null; node = this.byId.get(node.parent)) {
      path.push(node);
    }
    return path.reverse();
  }

  /** Finds the steps below which everything is pruned. */
  settle() {
    const nodes = [...this.byId.values()];
    for (let at = nodes.length - 1; at >= 0; at -= 1) {
      const node = nodes[at];
      const alive =
        node.state === "pruned" || node.state === "duplicate"
          ? false
          : node.children.length === 0 || node.children.some((child) => child.alive);
      if (alive !== node.alive) {
        node.alive = alive;
        node.version += 1;
      }
    }
  }

  /** Collapses each largest part of the tree in which everything is pruned. */
  collapseDead() {
    this.opened.clear();
    for (const node of this.byId.values()) {
      if (!node.alive && node.children.length > 0) this.collapsed.add(node.id);
    }
  }

  /** Whether a step is shown under a filter: "all", "alive" or "chosen". */
  passes(node, filter) {
    if (filter === "alive") return node.alive || this.chosen.has(node.id);
    if (filter === "chosen") return this.chosen.has(node.id);
    return true;
  }

  /** The rows below a step: steps, and a group if many of them are pruned. */
  below(node, filter) {
    if (node.group) return node.group;
    const shown = node.children.filter((child) => this.passes(child, filter));
    const dead = shown.filter((child) => !child.alive && !this.chosen.has(child.id));
    if (dead.length <= MANY) return shown;
    const id = groupId(node.id);
    const scores = dead.map(scoreOf).filter((score) => score !== null);
    const [least, most] = [Math.min(...scores), Math.max(...scores)];
    const range = scores.length > 0 ? `, scores ${score3(least)} to ${score3(most)}` : "";
    const text = `${dead.length} pruned steps${range}`;
    const group = { id, parent: node.id, group: dead, text, version: text };
    this.groups.set(id, group);
    const grouped = new Set(dead);
    return [...shown.filter((child) => !grouped.has(child)), group];
  }

  isOpen(node) {
    return node.group ? this.opened.has(node.id) : !this.collapsed.has(node.id);
  }

  setOpen(id, isOpen) {
    const [set, isIn] = id < 0 ? [this.opened, isOpen] : [this.collapsed, !isOpen];
    if (isIn) set.add(id);
    else set.delete(id);
  }

  /** Opens all collapsed rows and groups that hide a step. */
  reveal(node) {
    for (const above of this.path(node.id)) {
      if (!above.alive && !this.chosen.has(above.id)) this.opened.add(groupId(above.parent));
      if (above !== node) this.collapsed.delete(above.id);
    }
  }

  openAll() {
    this.collapsed.clear();
    for (const id of this.byId.keys()) this.opened.add(groupId(id));
  }

  /** The rows of the list, in order: each with its level and its place among its siblings. */
  rows(filter) {
    this.groups.clear();
    const rows = [];
    const todo = [];
    const push = (nodes, above) => {
      for (let at = nodes.length - 1; at >= 0; at -= 1) {
        const level = above ? above.level + 1 : 1;
        todo.push({ node: nodes[at], above, level, place: at + 1, of: nodes.length });
      }
    };
    push(this.below(this.root, filter), null);
    while (todo.length > 0) {
      const row = todo.pop();
      row.index = rows.length;
      rows.push(row);
      const below = this.below(row.node, filter);
      row.expanded = below.length === 0 ? null : this.isOpen(row.node);
      if (row.expanded) push(below, row);
    }
    return rows;
  }

  /** Counts over all steps. */
  counts() {
    const counts = { steps: 0, pruned: 0, duplicates: 0, ended: 0, tokens: 0 };
    for (const node of this.byId.values()) {
      if (node.parent === null) continue;
      counts.steps += 1;
      counts.tokens += node.tokens;
      if (node.state === "pruned") counts.pruned += 1;
      if (node.state === "duplicate") counts.duplicates += 1;
      if (node.state === "finished") counts.ended += 1;
    }
    return counts;
  }

  /** The steps as a run file has them, without the fields that only the view needs. */
  exported() {
    return [...this.byId.values()].map(({ alive, version, children, ...node }) => ({
      ...node,
      children: children.map((child) => child.id),
    }));
  }
}

/** The state of a step: a shape, a word, a class, and the reason if there is one. */
function fate(node) {
  switch (node.state) {
    case "pruned":
      return { shape: "\u2715", word: "pruned", kind: "pruned", reason: pruneReason(node.pruned) };
    case "finished":
      return { shape: "\u25a0", word: "ended", kind: "ended", reason: node.finish ?? "" };
    case "expanded":
      return node.alive
        ? { shape: "\u25cf", word: "kept", kind: "kept", reason: "" }
        : { shape: "\u25cc", word: "pruned later", kind: "dead", reason: "" };
    default:
      return { shape: "\u25cb", word: "open", kind: "open", reason: "" };
  }
}

/** The reason why a chain was pruned, in words. */
function pruneReason(why) {
  if (!why) return "";
  const parts = [];
  if (why.reason === "budget") parts.push("the token budget was used up");
  if (why.reason === "search-over") parts.push("the search was over");
  if (why.rank != null) {
    parts.push(why.candidates != null ? `rank ${why.rank} of ${why.candidates}` : `rank ${why.rank}`);
  }
  if (why.cutoff != null) parts.push(`cut-off ${score3(why.cutoff)}`);
  if (why.round != null) parts.push(`round ${why.round}`);
  return parts.join(", ");
}

/** The class of a score. */
function scoreKind(score) {
  if (score == null) return "none";
  if (score >= SURE) return "good";
  return score >= DOUBTFUL ? "unsure" : "bad";
}

/** A step's score, or the score that it had in its middle. */
function scoreOf(node) {
  return node.score ?? node.partial_score ?? null;
}

function score3(score) {
  return score == null ? "\u2013" : score.toFixed(3);
}

/** 1234567 as 1 234 567. */
function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A step's text for one line. */
function oneLine(node) {
  return thoughtNote(node) + parts(node).text.trim().replace(/\s+/g, " ") || "(no text)";
}
