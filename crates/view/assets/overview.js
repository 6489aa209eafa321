// The whole tree in one picture, on a canvas: steps to the right, branches below each other. It is a
// map for the eye; everything in it can be read in the rows.

const PAD = 14;

class Overview {
  /** `onRead(id)` is called for a step that was clicked. */
  constructor(chains, onRead) {
    this.chains = chains;
    this.filter = "all";
    this.selected = null;
    this.places = [];
    this.canvas = el("canvas", "map");
    this.canvas.setAttribute("role", "img");
    this.tip = el("div", "tip");
    this.tip.hidden = true;
    this.element = el("div", "overview", this.canvas, this.tip);
    this.canvas.addEventListener("click", (event) => {
      const place = this.nearest(event);
      if (place) onRead(place.node.id);
    });
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    new ResizeObserver(() => this.draw()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Gives each shown step its place: its depth, and its row among the leaves. */
  layout() {
    const { chains, filter } = this;
    const order = [];
    const todo = [chains.root];
    while (todo.length > 0) {
      const node = todo.pop();
      const shown = node.children.filter((child) => chains.passes(child, filter));
      order.push({ node, shown, y: 0 });
      for (let at = shown.length - 1; at >= 0; at -= 1) todo.push(shown[at]);
    }
    const byId = new Map(order.map((place) => [place.node.id, place]));
    let leaves = 0;
    for (const place of order) {
      if (place.shown.length === 0) place.y = leaves++;
    }
    for (let at = order.length - 1; at >= 0; at -= 1) {
      const { shown } = order[at];
      if (shown.length > 0) {
        order[at].y = (byId.get(shown[0].id).y + byId.get(shown[shown.length - 1].id).y) / 2;
      }
    }
    this.places = order;
    this.byId = byId;
    this.leaves = leaves;
  }

  refresh() {
    this.layout();
    const { steps, pruned, ended } = this.chains.counts();
    const label = `Map of the tree: ${steps} steps, ${pruned} pruned, ${ended} chains ended. The list below has the same steps.`;
    this.canvas.setAttribute("aria-label", label);
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0 || this.places.length === 0) return;
    const height = Math.round(Math.max(96, Math.min(280, this.leaves * 9 + 2 * PAD)));
    const scale = window.devicePixelRatio || 1;
    const { canvas, chains } = this;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);

    const style = getComputedStyle(this.element);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const across = (width - 2 * PAD) / Math.max(1, chains.deepest);
    const down = (height - 2 * PAD) / Math.max(1, this.leaves - 1);
    for (const place of this.places) {
      place.px = PAD + place.node.depth * across;
      place.py = this.leaves > 1 ? PAD + place.y * down : height / 2;
    }

    const reading = new Set(this.selected === null ? [] : chains.path(this.selected).map((node) => node.id));
    const lines = (wanted, stroke, lineWidth) => {
      pen.beginPath();
      for (const place of this.places) {
        if (place.node.parent === null || !wanted(place.node)) continue;
        const from = this.byId.get(place.node.parent);
        const middle = (from.px + place.px) / 2;
        pen.moveTo(from.px, from.py);
        pen.bezierCurveTo(middle, from.py, middle, place.py, place.px, place.py);
      }
      pen.strokeStyle = stroke;
      pen.lineWidth = lineWidth;
      pen.stroke();
    };
    lines((node) => !node.alive, colour("faint"), 1);
    lines((node) => node.alive, colour("dim"), 1);
    lines((node) => chains.chosen.has(node.id), colour("accent"), 2.5);
    lines((node) => reading.has(node.id), colour("ink"), 1.5);

    const size = Math.max(1.2, Math.min(4.5, down * 0.38, across * 0.3));
    for (const place of this.places) this.mark(pen, place, size, colour);
    const selected = this.byId.get(this.selected);
    if (selected) {
      pen.beginPath();
      pen.arc(selected.px, selected.py, size + 4, 0, 2 * Math.PI);
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 2;
      pen.stroke();
    }
  }

  /** A cross for a pruned step, a square for an end, a ring for an open one, else a disc. */
  mark(pen, { node, px, py }, size, colour) {
    const { kind } = fate(node);
    if (node.parent === null) {
      pen.fillStyle = colour("ink");
      pen.fillRect(px - 3, py - 3, 6, 6);
      return;
    }
    const ink = { good: "good", unsure: "unsure", bad: "bad", none: "dim" }[scoreKind(scoreOf(node))];
    pen.fillStyle = colour(ink);
    pen.strokeStyle = colour(ink);
    pen.lineWidth = 1.3;
    if (kind === "pruned") {
      pen.beginPath();
      pen.moveTo(px - size, py - size);
      pen.lineTo(px + size, py + size);
      pen.moveTo(px - size, py + size);
      pen.lineTo(px + size, py - size);
      pen.stroke();
    } else if (kind === "ended") {
      pen.fillRect(px - size, py - size, 2 * size, 2 * size);
    } else {
      pen.beginPath();
      pen.arc(px, py, size, 0, 2 * Math.PI);
      if (kind === "open" || kind === "dead") pen.stroke();
      else pen.fill();
    }
  }

  nearest(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = 18 * 18;
    for (const place of this.places) {
      if (place.node.parent === null) continue;
      const distance = (place.px - x) ** 2 + (place.py - y) ** 2;
      if (distance < least) [best, least] = [place, distance];
    }
    return best;
  }

  hover(event) {
    const place = this.nearest(event);
    this.tip.hidden = !place;
    this.canvas.classList.toggle("over", Boolean(place));
    if (!place) return;
    const { node } = place;
    const { word, reason } = fate(node);
    this.tip.textContent = `${score3(scoreOf(node))}  ${oneLine(node)}  (${word}${reason ? `: ${reason}` : ""})`;
    const isRight = place.px > this.element.clientWidth / 2;
    this.tip.style.left = isRight ? "" : `${place.px + 10}px`;
    this.tip.style.right = isRight ? `${this.element.clientWidth - place.px + 10}px` : "";
    this.tip.style.top = `${place.py + 8}px`;
  }
}
