// Building elements. Text from elsewhere (models, problems) only ever becomes a text node.

/** An element with a class, and children that are elements or text. */
function el(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const child of children) {
    if (child != null) element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

/** Text in which what acts instead of showing (control characters, marks that turn the direction
    round) can be read. */
function visible(text) {
  const acts = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/g;
  return text.replace(/\r\n/g, "\n").replace(acts, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** The thought at the beginning of a step's text, without its tags, and the text after it. */
function parts(node) {
  if (!node.thought) return { thought: null, text: node.text };
  const { bytes, open = 0, close = 0 } = node.thought;
  // The places are in bytes of UTF-8.
  const all = new TextEncoder().encode(node.text);
  const read = (from, to) => new TextDecoder().decode(all.slice(from, to));
  return { thought: read(open, bytes - close), text: read(bytes) };
}

/** The words of a thought as a note, `""` without one. */
function thoughtNote(node) {
  const { thought } = parts(node);
  if (thought === null) return "";
  const words = thought.trim().split(/\s+/).filter(Boolean).length;
  return `(thought: ${words} ${words === 1 ? "word" : "words"}) `;
}

function button(text, action, className) {
  const element = el("button", className ?? "plain", text);
  element.type = "button";
  element.addEventListener("click", action);
  return element;
}

/** Text only for screen readers. */
function spoken(text) {
  return el("span", "spoken", text);
}

/** A score as a number with a bar, in the colour of its class. */
function scoreChip(score) {
  const chip = el("span", `score ${scoreKind(score)}`, score3(score));
  if (score != null) {
    const bar = el("span", "bar");
    bar.style.width = `${Math.max(0, Math.min(1, score)) * 100}%`;
    chip.append(bar);
  }
  return chip;
}

/** The state of a step, as a shape and a word. */
function fateMark(node, withWord) {
  const { shape, word, kind } = fate(node);
  const mark = el("span", `mark ${kind}`);
  const glyph = el("span", "shape", shape);
  glyph.setAttribute("aria-hidden", "true");
  mark.append(glyph, withWord ? ` ${word}` : spoken(`${word}, `));
  return mark;
}

/** A mark for a step that is known to be right or wrong. */
function labelMark(node) {
  if (node.label == null) return null;
  return el("span", node.label ? "label good" : "label bad", node.label ? "\u2713 right" : "\u2717 wrong");
}

/** Saves a file on the reader's machine. */
function download(name, value) {
  const blob = new Blob([JSON.stringify(value, null, 1)], { type: "application/json" });
  const link = el("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A data block of the page. */
function pageData(id) {
  const block = document.getElementById(id);
  return block ? JSON.parse(block.textContent) : null;
}
