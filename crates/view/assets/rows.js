// The tree as a list of rows of equal height, of which only those in sight are elements, so that
// large trees stay fluent. For assistive technology it is a tree: level, place and set size stand at
// each row, one row takes the focus, and the usual keys work.

/** Rows that are rendered above and below those in sight. */
const MARGIN = 12;

/** Milliseconds after which type-ahead begins again. */
const TYPING = 700;

class TreeRows {
  /** `on.read(id)` is called for a chain to read, `on.pin(id)` for one to compare. */
  constructor(chains, on) {
    this.chains = chains;
    this.on = on;
    this.filter = "all";
    this.selected = null;
    this.pinned = null;
    this.active = null;
    this.elements = new Map();
    this.rows = [];
    this.indexOf = new Map();
    this.typed = { text: "", at: 0 };

    this.tree = el("div", "rows");
    this.tree.setAttribute("role", "tree");
    this.tree.setAttribute("aria-label", "Steps of the search");
    this.empty = el("p", "empty", "No steps yet.");
    this.element = el("div", "scroller", this.empty, this.tree);
    this.element.addEventListener("scroll", () => this.render(), { passive: true });
    this.tree.addEventListener("keydown", (event) => this.key(event));
    this.tree.addEventListener("click", (event) => this.click(event));
    this.tree.addEventListener("focusin", (event) => {
      const row = event.target.closest("[role=treeitem]");
      if (row) this.setActive(Number(row.dataset.id));
    });
    new ResizeObserver(() => this.render()).observe(this.element);
  }

  /** Updates the rows after a change of the chains. */
  refresh() {
    this.rows = this.chains.rows(this.filter);
    this.indexOf = new Map(this.rows.map((row, index) => [row.node.id, index]));
    this.empty.hidden = this.rows.length > 0;
    if (this.active === null || !this.indexOf.has(this.active)) {
      const hadFocus = this.tree.contains(document.activeElement);
      this.active = this.nearest(this.active);
      this.render();
      if (hadFocus) this.elements.get(this.active)?.focus({ preventScroll: true });
    } else {
      this.render();
    }
  }

  /** The row that a step without a row is below; without one the first row. */
  nearest(id) {
    let node = id === null ? null : this.chains.get(id);
    while (node && node.parent !== null) {
      const above = [groupId(node.parent), node.parent].find((id) => this.indexOf.has(id));
      if (above !== undefined) return above;
      node = this.chains.get(node.parent);
    }
    return this.rows[0]?.node.id ?? null;
  }

  /** Forgets the elements, whose steps are others now; `active` takes the focus if it was here. */
  renew(active) {
    const hadFocus = this.tree.contains(document.activeElement);
    for (const element of this.elements.values()) element.remove();
    this.elements.clear();
    this.active = active;
    if (!hadFocus) return;
    this.refresh();
    this.elements.get(this.active)?.focus({ preventScroll: true });
  }

  rowHeight() {
    return parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 30;
  }

  render() {
    const height = this.rowHeight();
    this.tree.style.height = `${this.rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - MARGIN);
    const last = Math.ceil((this.element.scrollTop + this.element.clientHeight) / height) + MARGIN;
    const wanted = this.rows.slice(first, last);
    // The row with the focus stays an element, or the focus would be lost.
    const active = this.rows[this.indexOf.get(this.active)];
    if (active && active.index < first) wanted.unshift(active);
    if (active && active.index >= last) wanted.push(active);

    const ids = new Set(wanted.map((row) => row.node.id));
    for (const [id, element] of this.elements) {
      if (!ids.has(id)) {
        element.remove();
        this.elements.delete(id);
      }
    }
    // Rows that stay are never moved, for moving an element takes the focus from it.
    let at = this.tree.firstChild;
    for (const row of wanted) {
      const known = this.elements.get(row.node.id);
      const element = known ?? this.create(row);
      this.update(element, row, height);
      if (element === at) at = at.nextSibling;
      else this.tree.insertBefore(element, at);
    }
  }

  create(row) {
    const element = el("div", "row");
    element.dataset.id = row.node.id;
    element.setAttribute("role", "treeitem");
    this.elements.set(row.node.id, element);
    return element;
  }

  update(element, row, height) {
    const { node } = row;
    const set = (name, value) => {
      if (value === null) element.removeAttribute(name);
      else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
    };
    element.style.top = `${row.index * height}px`;
    set("aria-level", row.level);
    set("aria-posinset", row.place);
    set("aria-setsize", row.of);
    set("aria-expanded", row.expanded);
    set("aria-selected", node.id === this.selected);
    set("tabindex", node.id === this.active ? 0 : -1);
    const shown = `${node.version} ${row.expanded} ${node.id === this.pinned} ${this.chains.chosen.has(node.id)}`;
    if (element.dataset.shown !== shown) {
      element.dataset.shown = shown;
      this.fill(element, row);
    }
  }

  fill(element, row) {
    const { node } = row;
    const indent = this.indent(row.level - 1);
    const twisty = el("span", "twisty", row.expanded === null ? "" : row.expanded ? "\u25be" : "\u25b8");
    twisty.setAttribute("aria-hidden", "true");
    if (node.group) {
      element.className = "row group";
      element.replaceChildren(indent, twisty, fateMark({ state: "pruned" }, false), el("span", "text", node.text));
      return;
    }
    const { kind, reason, word } = fate(node);
    const isChosen = this.chains.chosen.has(node.id);
    element.className = `row ${kind}${isChosen ? " chosen" : ""}`;
    const notes = el("span", "notes");
    if (isChosen) notes.append(el("span", "badge star", "\u2605", spoken("on the "), " chosen"));
    if (node.id === this.pinned) notes.append(el("span", "badge", "A", spoken(", pinned to compare")));
    if (node.copies > 1) {
      const times = el("span", "badge", `\u00d7${node.copies}`, spoken(" sampled, duplicates folded"));
      times.title = `sampled ${node.copies} times; duplicates are folded`;
      notes.append(times);
    }
    const label = labelMark(node);
    if (label) notes.append(label);
    if (kind === "pruned" || kind === "ended" || kind === "dead") {
      notes.append(el("span", "why", kind === "ended" || !reason ? word : `${word}: ${reason}`));
    }
    if (kind === "ended" && reason !== "answer") notes.append(el("span", "why", reason));
    const text = el("span", "text", oneLine(node));
    text.title = visible(node.text.trim());
    element.replaceChildren(
      indent,
      twisty,
      fateMark(node, false),
      scoreChip(scoreOf(node)),
      text,
      notes,
    );
  }

  indent(depth) {
    const indent = el("span", "indent");
    // Deep chains are indented by smaller steps, so that they stay in sight.
    indent.style.width = `calc(var(--indent) * ${Math.min(depth, 10) + Math.max(0, depth - 10) * 0.25})`;
    return indent;
  }

  setActive(id) {
    if (id === this.active) return;
    const before = this.active;
    this.active = id;
    for (const [of, tabindex] of [[before, -1], [id, 0]]) {
      this.elements.get(of)?.setAttribute("tabindex", tabindex);
    }
  }

  select(id) {
    this.selected = id;
    this.render();
  }

  /** Opens everything above a step and brings it into sight. */
  reveal(id) {
    const node = this.chains.get(id);
    if (!node) return;
    this.chains.reveal(node);
    if (!this.chains.passes(node, this.filter)) this.filter = "all";
    this.refresh();
    this.show(this.indexOf.get(id));
  }

  show(index) {
    if (index === undefined) return;
    const height = this.rowHeight();
    const top = index * height;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    const bottom = top + height - this.element.clientHeight;
    if (bottom > this.element.scrollTop) this.element.scrollTop = bottom;
    this.render();
  }

  focus(index) {
    const row = this.rows[Math.max(0, Math.min(this.rows.length - 1, index))];
    if (!row) return;
    this.setActive(row.node.id);
    this.show(row.index);
    this.elements.get(row.node.id)?.focus({ preventScroll: true });
  }

  /** Gives the focus to the active row and returns its index. */
  focusActive() {
    const index = this.indexOf.get(this.active);
    this.focus(index ?? 0);
    this.element.scrollIntoView({ block: "nearest" });
    return index;
  }

  toggle(id, isOpen) {
    this.chains.setOpen(id, isOpen);
    this.refresh();
  }

  click(event) {
    const element = event.target.closest("[role=treeitem]");
    if (!element) return;
    const index = this.indexOf.get(Number(element.dataset.id));
    const row = this.rows[index];
    this.focus(index);
    const isToggle = row.node.group || event.target.closest(".twisty");
    if (isToggle && row.expanded !== null) this.toggle(row.node.id, !row.expanded);
    else this.on.read(row.node.id);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const index = this.indexOf.get(this.active);
    const row = this.rows[index];
    if (!row) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight()) - 1);
    const { id } = row.node;
    switch (event.key) {
      case "ArrowDown": this.focus(index + 1); break;
      case "ArrowUp": this.focus(index - 1); break;
      case "PageDown": this.focus(index + page); break;
      case "PageUp": this.focus(index - page); break;
      case "Home": this.focus(0); break;
      case "End": this.focus(this.rows.length - 1); break;
      case "ArrowRight":
        if (row.expanded === false) this.toggle(id, true);
        else if (row.expanded) this.focus(index + 1);
        break;
      case "ArrowLeft":
        if (row.expanded) this.toggle(id, false);
        else if (row.above) this.focus(row.above.index);
        break;
      case "Enter":
        if (row.node.group) this.toggle(id, !row.expanded);
        else this.on.read(id);
        break;
      case " ":
        if (!row.node.group) this.on.pin(id);
        break;
      case "*": this.openSiblings(row); break;
      default:
        if (event.key.length !== 1) return;
        this.typeAhead(event.key, index);
    }
    event.preventDefault();
  }

  openSiblings(row) {
    const parent = this.chains.get(row.node.parent);
    for (const sibling of parent.children) this.chains.setOpen(sibling.id, true);
    this.chains.setOpen(groupId(parent.id), true);
    this.refresh();
  }

  /** Goes to the next row whose text begins with what is typed. */
  typeAhead(key, index) {
    const now = performance.now();
    const isNew = now - this.typed.at > TYPING;
    this.typed = { text: (isNew ? "" : this.typed.text) + key.toLowerCase(), at: now };
    // A first letter looks further; more letters may keep the row.
    const from = index + (isNew ? 1 : 0);
    for (let step = 0; step < this.rows.length; step += 1) {
      const at = (from + step) % this.rows.length;
      if (oneLine(this.rows[at].node).toLowerCase().startsWith(this.typed.text)) {
        this.focus(at);
        return;
      }
    }
  }
}
