"use strict";
// The runs as they are known, and the table of them. Only the rows in sight are in the page, so that thousands cost
// no more than a few; their places do not change while somebody points at them.

const COLUMNS = {
  name: { value: (row) => row.name.toLowerCase(), up: true },
  step: { value: (row) => row.step },
  now: { value: (row) => row.now, metric: true },
  end: { value: outlook, metric: true },
  chance: { value: (row) => row.chance },
  verdict: { value: (row) => VERDICTS.indexOf(row.verdict), up: true },
};
const SPARE_ROWS = 8; // above and below those in sight

/** The value that a run is expected to end at, or has reached where no forecast is made. */
function outlook(row) {
  return row.end ? row.end[0] : row.best;
}

/** All rows by id, and how they are sorted and chosen. */
class Runs {
  constructor() {
    this.rows = new Map();
    this.head = null;
    this.sortBy = "end";
    this.reversed = false;
    this.text = "";
    this.verdicts = new Set();
    this.order = null;
  }

  take(changes) {
    if (changes.everything) this.rows.clear();
    for (const id of changes.gone) this.rows.delete(id);
    for (const row of changes.rows) this.rows.set(row.id, row);
    if ("horizon" in changes.head) this.head = changes.head;
    if (changes.everything || changes.rows.length || changes.gone.length) this.order = null;
  }

  /** All runs, those with the best outlook first. */
  sorted() {
    if (this.order === null) this.order = [...this.rows.values()].sort(this.comparison("end", false));
    return this.order;
  }

  /** The runs that the table shows, in its order. */
  shown(pins) {
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => (!this.verdicts.size || this.verdicts.has(row.verdict)) && words.every((word) => row.name.toLowerCase().includes(word));
    const rows = this.sorted().filter(fits);
    if (this.sortBy !== "end" || this.reversed) rows.sort(this.comparison(this.sortBy, this.reversed));
    return [...rows.filter((row) => pins.has(row.id)), ...rows.filter((row) => !pins.has(row.id))];
  }

  comparison(by, reversed) {
    const column = COLUMNS[by];
    const smallerFirst = column.up || (column.metric && this.head && this.head.minimize);
    const sign = (smallerFirst ? 1 : -1) * (reversed ? -1 : 1);
    return (a, b) => {
      const [left, right] = [column.value(a), column.value(b)];
      const [noLeft, noRight] = [a, b].map((row, i) => [left, right][i] === null || (column.metric && row.verdict === "diverged"));
      if (noLeft !== noRight) return noLeft ? 1 : -1;
      if (!noLeft && left !== right) return left < right ? -sign : sign;
      return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
    };
  }
}

/** The table in the page. */
class Table {
  constructor(runs, pins, open) {
    [this.runs, this.pins, this.open] = [runs, pins, open];
    this.body = byId("rows");
    this.above = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));
    this.below = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));
    this.elements = new Map(); // id -> {row, node}
    this.list = [];
    this.held = false;
    this.current = null;
    this.axis = null;
    this.frame = null;
    for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => this.sort(button.dataset.by));
    this.body.addEventListener("pointerenter", () => (this.held = true));
    this.body.addEventListener("pointerleave", () => this.letGo());
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    this.body.addEventListener("focusin", (event) => {
      const line = event.target.closest("tr");
      if (line && line.dataset.id) this.current = line.dataset.id;
    });
    addEventListener("scroll", () => this.later(), { passive: true });
    addEventListener("resize", () => this.later());
  }

  letGo() {
    this.held = false;
    this.update();
  }

  sort(by) {
    this.runs.reversed = this.runs.sortBy === by ? !this.runs.reversed : false;
    this.runs.sortBy = by;
    this.update(true);
  }

  /** Take the runs anew; `reorder` even while they are pointed at, since the user asked for it. */
  update(reorder = false) {
    const fresh = this.runs.shown(this.pins);
    if (this.held && !reorder) {
      const byId = new Map(fresh.map((row) => [row.id, row]));
      const kept = this.list.filter((row) => byId.has(row.id)).map((row) => byId.get(row.id));
      const known = new Set(kept.map((row) => row.id));
      this.list = [...kept, ...fresh.filter((row) => !known.has(row.id))];
    } else {
      this.list = fresh;
    }
    this.setAxis();
    for (const head of document.querySelectorAll("th[data-by]")) {
      const chosen = head.dataset.by === this.runs.sortBy;
      head.setAttribute("aria-sort", chosen ? (this.runs.reversed ? "ascending" : "descending") : "none");
    }
    byId("table").setAttribute("aria-rowcount", this.list.length + 1);
    const total = this.runs.rows.size;
    setText(byId("shown-count"), this.list.length === total ? count(total, "run") : `${this.list.length.toLocaleString("en")} of ${count(total, "run")}`);
    byId("nothing").hidden = this.list.length > 0 || total === 0;
    this.render();
  }

  /** The common axis of the intervals. */
  setAxis() {
    const values = this.list.flatMap((row) => (row.end ? [row.end[1], row.end[2]] : []));
    if (this.runs.head && this.runs.head.best !== null) values.push(this.runs.head.best);
    const [low, high] = roundRange(robustRange(values), 8);
    if (this.axis && low === this.axis.low && high === this.axis.high) return;
    this.axis = { low, high };
    const marks = ticks(low, high, 8);
    setText(byId("axis-low"), values.length ? tickText(low, marks) : "");
    setText(byId("axis-high"), values.length ? tickText(high, marks) : "");
    this.elements.clear(); // their bars are drawn anew
  }

  later() {
    if (this.frame === null) this.frame = requestAnimationFrame(() => this.render());
  }

  render() {
    this.frame = null;
    if (byId("all").hidden) return;
    const height = parseFloat(getComputedStyle(this.body).getPropertyValue("--row"));
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - SPARE_ROWS);
    const last = Math.min(this.list.length, Math.ceil((top + innerHeight) / height) + SPARE_ROWS);
    const nodes = [];
    const kept = new Map();
    for (let i = first; i < last; i++) {
      const row = this.list[i];
      const node = this.nodeOf(row);
      node.setAttribute("aria-rowindex", i + 2);
      kept.set(row.id, this.elements.get(row.id));
      nodes.push(node);
    }
    this.elements = kept;
    const focused = kept.has(this.current) ? this.current : nodes.length ? nodes[0].dataset.id : null;
    for (const node of nodes) node.tabIndex = node.dataset.id === focused ? 0 : -1;
    this.above.firstChild.style.height = `${first * height}px`;
    this.below.firstChild.style.height = `${Math.max(0, this.list.length - last) * height}px`;
    this.place([this.above, ...nodes, this.below]);
  }

  /** Put the lines in this order and move only those that are elsewhere, so that focus and selections stay. */
  place(lines) {
    const wanted = new Set(lines);
    for (const node of [...this.body.children]) if (!wanted.has(node)) node.remove();
    lines.forEach((node, i) => {
      if (this.body.children[i] === node) return;
      const focused = node.contains(document.activeElement) ? document.activeElement : null;
      this.body.insertBefore(node, this.body.children[i] || null);
      if (focused) focused.focus({ preventScroll: true });
    });
  }

  nodeOf(row) {
    const known = this.elements.get(row.id);
    const pinned = this.pins.has(row.id);
    const best = this.runs.head && row.best !== null && row.best === this.runs.head.best;
    const state = `${pinned}${best}${this.runs.head.best}${this.runs.head.horizon}`;
    if (known && known.row === row && known.state === state) return known.node;
    const node = known ? known.node : el("tr", { "data-id": row.id, click: (event) => this.onClick(event, row.id) });
    node.className = `${row.verdict}${best ? " best" : ""}${pinned ? " pinned" : ""}${row.end ? "" : " no-end"}`;
    const focused = known && node.contains(document.activeElement) && document.activeElement !== node ? document.activeElement.className : null;
    node.replaceChildren(...this.cells(row, pinned));
    if (focused) node.querySelector(`.${focused}`)?.focus({ preventScroll: true });
    this.elements.set(row.id, { row, node, state });
    return node;
  }

  cells(row, pinned) {
    const { horizon } = this.runs.head;
    const label = `${pinned ? "Unpin" : "Pin"} ${row.name}`;
    const pin = el("button", { class: "pin", type: "button", tabindex: -1, "aria-pressed": pinned, "aria-label": label, title: `${pinned ? "Unpin" : "Pin"} (p)` }, pinIcon());
    const link = el("a", { class: "link", href: `#run=${row.id}`, tabindex: -1, "aria-label": row.name, title: row.note ? `${row.name}: ${row.note}` : row.name }, ...nameParts(row.name));
    const now = row.diverged ? "not finite" : number(row.now);
    return [
      el("td", { class: "pin-cell" }, pin),
      el("td", { class: "name-cell" }, link),
      el("td", { class: "spark-cell" }, sparkline(row.spark)),
      el("td", { class: "step-cell" }, stepText(row.step), el("span", { class: "of" }, ` / ${stepText(horizon)}`)),
      el("td", { class: "now-cell" }, now),
      el("td", { class: "end-cell" }, row.end ? number(row.end[0]) : ""),
      el("td", { class: "bar-cell", title: row.end ? `90 %: ${range(row.end[1], row.end[2])}` : null }, this.bar(row)),
      el("td", { class: "chance-cell" }, percent(row.chance)),
      el("td", { class: "verdict-cell" }, verdictChip(row.verdict)),
    ];
  }

  /** The 90 % interval on the common axis, the median as a notch, the best so far as a line; a ring where it ended. */
  bar(row) {
    const { low, high } = this.axis;
    const place = (value) => `${(100 * Math.min(1, Math.max(0, (value - low) / (high - low)))).toFixed(2)}%`;
    const parts = [];
    if (row.end) {
      const [median, from, to] = row.end;
      const interval = el("i", { class: `interval${from < low ? " cut-low" : ""}${to > high ? " cut-high" : ""}` });
      interval.style.left = place(from);
      interval.style.right = `calc(100% - ${place(to)})`;
      const notch = el("i", { class: "median" });
      notch.style.left = place(median);
      parts.push(interval, notch);
    }
    if (!row.end && row.now !== null) {
      const ended = el("i", { class: "ended" });
      ended.style.left = place(row.now);
      parts.push(ended);
    }
    if (this.runs.head.best !== null) {
      const best = el("i", { class: "best-line" });
      best.style.left = place(this.runs.head.best);
      parts.push(best);
    }
    const words = row.end ? `${number(row.end[0])}, 90 % interval ${range(row.end[1], row.end[2])}` : "no forecast";
    return el("div", { class: "bar", role: "img", "aria-label": words }, ...parts);
  }

  onClick(event, id) {
    if (event.target.closest(".pin")) {
      this.pins.toggle(id);
      return;
    }
    if (event.target.closest("a") || String(getSelection())) return;
    this.open(id);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const index = this.list.findIndex((row) => row.id === this.current);
    const page = Math.max(1, Math.floor(innerHeight / 80));
    const goals = { ArrowDown: index + 1, j: index + 1, ArrowUp: index - 1, k: index - 1, PageDown: index + page, PageUp: index - page, Home: 0, End: this.list.length - 1 };
    if (event.key in goals) this.goTo(Math.min(this.list.length - 1, Math.max(0, goals[event.key])));
    else if (event.key === "Enter" && this.current && !event.target.closest("button")) this.open(this.current);
    else if (event.key === "p" && this.current) this.pins.toggle(this.current);
    else return;
    event.preventDefault();
  }

  /** Bring a row into sight and point the keyboard at it. */
  goTo(index) {
    if (!this.list[index]) return;
    this.current = this.list[index].id;
    const height = parseFloat(getComputedStyle(this.body).getPropertyValue("--row"));
    const top = this.body.getBoundingClientRect().top + index * height;
    const header = 60;
    if (top < header) scrollBy({ top: top - header, behavior: "instant" });
    else if (top + height > innerHeight - 8) scrollBy({ top: top + height - innerHeight + 8, behavior: "instant" });
    this.render();
    const known = this.elements.get(this.current);
    if (known) known.node.focus({ preventScroll: true });
  }
}

function pinIcon() {
  const path = svg("path", { d: "M9.5 1.5l5 5-1.2.6-2.6 2.6-.4 3.3-1 1-3.1-3.1L2.5 14.6 1.4 13.5l3.7-3.7L2 6.7l1-1 3.3-.4 2.6-2.6z" });
  return svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, path);
}

/** A small curve over the whole horizon. */
function sparkline(points) {
  const [width, height, pad] = [96, 24, 3];
  const place = (x, y) => `${(pad + (x / 100) * (width - 2 * pad)).toFixed(1)} ${(height - pad - (y / 100) * (height - 2 * pad)).toFixed(1)}`;
  const drawing = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  drawing.append(svg("line", { class: "ahead", x1: pad, x2: width - pad, y1: height - 1, y2: height - 1 }));
  const places = [];
  for (let i = 0; i + 1 < points.length; i += 2) places.push(place(points[i], points[i + 1]));
  if (!places.length) return drawing;
  const [x, y] = places[places.length - 1].split(" ");
  drawing.append(svg("path", { d: `M${places.join("L")}` }), svg("circle", { cx: x, cy: y, r: 2 }));
  return drawing;
}
