"use strict";
// Fan charts: what was seen of runs, the median of what may come and its bands, and a line to read values off.

const MARGIN = { top: 26, right: 16, bottom: 30, left: 58 };
const MARKERS = [
  (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0`,
  (x, y) => `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
  (x, y) => `M${x} ${y - 4.6}l4.4 7.8h-8.8z`,
  (x, y) => `M${x} ${y - 5}l5 5l-5 5l-5-5z`,
  (x, y) => `M${x} ${y + 4.6}l4.4-7.8h-8.8z`,
];

/**
 * One chart in an element of fixed size. It is given a model:
 *   {horizon, best, bestLabel, minimize, reach, logarithmic, label, bands, runs: [{id, name, color, seen, fan, earlier, alone}]}
 * and drawn anew with each, but never while somebody reads values off it.
 */
class Chart {
  constructor(host) {
    this.host = host;
    this.model = null;
    this.waiting = null;
    this.held = false;
    this.cursor = null;
    this.readout = el("div", { class: "readout", hidden: true });
    this.host.classList.add("chart");
    this.host.tabIndex = 0;
    this.host.setAttribute("role", "img");
    host.addEventListener("pointermove", (event) => this.pointAt(event.clientX - host.getBoundingClientRect().left));
    host.addEventListener("pointerleave", () => this.release());
    host.addEventListener("blur", () => this.release());
    host.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.model && this.render()).observe(host);
  }

  /** Show this model: at once, or when nobody reads the one that is there. */
  draw(model) {
    if (this.held) {
      this.waiting = model;
      return;
    }
    this.model = model;
    this.render();
  }

  render() {
    const model = this.model;
    const [width, height] = [this.host.clientWidth, this.host.clientHeight];
    if (width < 80 || height < 80) return;
    const [low, high] = valueRange(model);
    const right = width - MARGIN.right;
    this.x = makeScale(0, model.horizon, MARGIN.left, right);
    this.y = makeScale(low, high, height - MARGIN.bottom, MARGIN.top, model.logarithmic && low > 0);
    const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const inside = svg("g", { class: "inside" });
    const clip = `clip-${this.host.id}`;
    const box = svg("rect", { x: MARGIN.left, y: MARGIN.top - 6, width: right - MARGIN.left + 6, height: height - MARGIN.top - MARGIN.bottom + 6 });
    drawing.append(svg("defs", {}, svg("clipPath", { id: clip }, box)));
    inside.setAttribute("clip-path", `url(#${clip})`);
    drawing.append(this.axes(width, height), inside);
    for (const run of model.runs) inside.append(this.bandsOf(run));
    if (model.best !== null && model.best !== undefined) inside.append(this.bestLine(right));
    for (const run of model.runs) inside.append(this.linesOf(run));
    this.marks = svg("g", { class: "marks" });
    drawing.append(this.marks);
    this.host.replaceChildren(drawing, this.readout);
    this.host.setAttribute("aria-label", describe(model));
    if (this.cursor !== null) this.showCursor();
  }

  axes(width, height) {
    const group = svg("g", { class: "axes" });
    const bottom = height - MARGIN.bottom;
    const levels = this.y.logarithmic ? logTicks(this.y.low, this.y.high) : ticks(this.y.low, this.y.high, Math.max(4, height / 60));
    for (const value of levels) {
      const y = this.y(value);
      group.append(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
      group.append(svg("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, this.y.logarithmic ? String(Number(value.toPrecision(2))) : tickText(value, levels)));
    }
    const steps = ticks(0, this.model.horizon, Math.max(2, Math.min(10, width / 90)));
    for (const step of steps) {
      const x = this.x(step);
      group.append(svg("line", { class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 4 }));
      group.append(svg("text", { x, y: bottom + 18, "text-anchor": "middle" }, tickText(step, steps)));
    }
    group.append(svg("line", { class: "base", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }));
    group.append(svg("text", { class: "axis", x: 4, y: bottom + 18 }, "step"));
    group.append(svg("text", { class: "axis", x: 4, y: 12 }, this.model.label));
    return group;
  }

  bandsOf(run) {
    const group = svg("g", { class: `run c${run.color}` });
    const fan = run.fan;
    if (!fan) return group;
    const last = lastOf(run.seen);
    for (const band of this.model.bands) {
      const [low, high] = fan.bands[band];
      const [steps, lows, highs] = last ? [[last[0], ...fan.steps], [last[1], ...low], [last[1], ...high]] : [fan.steps, low, high];
      const name = `band b${String(band).replace(".", "")}`;
      group.append(svg("path", { class: name, d: `${this.path(steps, highs)}L${this.path(steps, lows, true).slice(1)}Z` }));
    }
    return group;
  }

  linesOf(run) {
    const group = svg("g", { class: `run c${run.color}` });
    for (const earlier of run.earlier || []) {
      group.append(svg("path", { class: "earlier", d: this.path(earlier.steps, earlier.median) }));
    }
    const last = lastOf(run.seen);
    for (const [fan, name] of [[run.fan, "median"], [run.alone, "alone"]]) {
      if (!fan) continue;
      const [steps, median] = last ? [[last[0], ...fan.steps], [last[1], ...fan.median]] : [fan.steps, fan.median];
      group.append(svg("path", { class: name, d: this.path(steps, median) }));
    }
    group.append(svg("path", { class: "seen", d: this.path(run.seen.steps, run.seen.values) }));
    if (last) group.append(svg("path", { class: "marker", d: MARKERS[run.color % MARKERS.length](this.x(last[0]), this.y(last[1])) }));
    return group;
  }

  bestLine(right) {
    const y = this.y(this.model.best);
    const text = svg("text", { x: MARGIN.left + 6, y: this.model.minimize ? y + 15 : y - 6 }, `${this.model.bestLabel} ${number(this.model.best)}`);
    return svg("g", { class: "best" }, svg("line", { x1: MARGIN.left, x2: right, y1: y, y2: y }), text);
  }

  /** A path through points; what lies far outside is kept at a distance, as drawings have their limits. */
  path(steps, values, backwards = false) {
    const [top, bottom] = [-2000, 6000];
    const place = (value) => (this.y.logarithmic && value <= 0 ? bottom : this.y(value));
    const points = steps.map((step, i) => `${this.x(step).toFixed(1)} ${Math.min(bottom, Math.max(top, place(values[i]))).toFixed(1)}`);
    return points.length ? `M${(backwards ? points.reverse() : points).join("L")}` : "M0 0";
  }

  // --- reading values off ---------------------------------------------------------------------------------------

  pointAt(x) {
    if (!this.model || !this.x) return;
    const share = (x - MARGIN.left) / (this.host.clientWidth - MARGIN.right - MARGIN.left);
    this.held = true;
    this.cursor = Math.round(Math.min(1, Math.max(0, share)) * this.model.horizon);
    this.showCursor();
  }

  onKey(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10 };
    if (!(event.key in moves) || !this.model) return;
    event.preventDefault();
    const by = Math.max(1, Math.round(this.model.horizon / 200)) * moves[event.key];
    const from = this.cursor === null ? Math.max(0, ...this.model.runs.map((run) => (lastOf(run.seen) || [0])[0])) : this.cursor;
    this.held = true;
    this.cursor = Math.min(this.model.horizon, Math.max(0, Math.round(from + by)));
    this.showCursor();
  }

  release() {
    this.held = false;
    this.cursor = null;
    this.readout.hidden = true;
    if (this.marks) this.marks.replaceChildren();
    if (this.waiting) {
      const model = this.waiting;
      this.waiting = null;
      this.draw(model);
    }
  }

  showCursor() {
    const x = this.x(this.cursor);
    const bottom = this.host.clientHeight - MARGIN.bottom;
    this.marks.replaceChildren(svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: bottom }));
    const lines = [el("div", { class: "at" }, `step ${stepText(this.cursor)}`)];
    for (const run of this.model.runs) {
      const found = valueAt(run, this.cursor);
      if (!found) continue;
      const y = this.y(found.value);
      if (Number.isFinite(y)) this.marks.append(svg("circle", { class: `dot c${run.color}`, cx: x, cy: y, r: 4 }));
      const value = found.range ? `${number(found.value)} (80 %: ${range(...found.range)})` : number(found.value);
      lines.push(el("div", { class: "line" }, el("i", { class: `swatch c${run.color}` }), el("span", { class: "name" }, ...nameParts(run.name)), el("span", { class: "value" }, value)));
    }
    this.readout.replaceChildren(...lines);
    this.readout.hidden = false;
    this.readout.classList.toggle("left", x > this.host.clientWidth / 2);
  }
}

function lastOf(line) {
  const end = line.steps.length - 1;
  return end < 0 ? null : [line.steps[end], line.values[end]];
}

/** What a run had at a step, or what is expected there. */
function valueAt(run, step) {
  const last = lastOf(run.seen);
  if (last && step <= last[0]) {
    let at = run.seen.steps.findIndex((seen) => seen > step) - 1;
    if (at === -2) at = run.seen.steps.length - 1;
    return at < 0 ? null : { value: run.seen.values[at] };
  }
  if (!run.fan) return null;
  const found = run.fan.steps.findIndex((ahead) => ahead >= step);
  if (found < 0) return null;
  const [low, high] = run.fan.bands["0.8"];
  return { value: run.fan.median[found], range: [low[found], high[found]] };
}

/** The values that a chart shows: where runs are and may go, and what else was seen unless a little lies far off. */
function valueRange(model) {
  const [seen, needed] = [[], []];
  for (const run of model.runs) {
    seen.push(...run.seen.values, ...(run.earlier || []).flatMap((earlier) => earlier.median));
    if (lastOf(run.seen)) needed.push(lastOf(run.seen)[1]);
    if (run.fan) for (const side of run.fan.bands[model.bands[0]]) needed.push(...side);
  }
  if (model.best !== null && model.best !== undefined) needed.push(model.best);
  const values = [...seen, ...needed];
  if (values.length === 0) return [0, 1];
  const logarithmic = model.logarithmic && values.every((value) => value > 0);
  let [low, high] = logarithmic ? [Math.min(...values), Math.max(...values)] : robustRange(seen, needed, model.reach);
  if (logarithmic) return low < high ? [low * 0.95, high * 1.05] : [low * 0.5, high * 2];
  const pad = (high - low) * 0.04;
  [low, high] = [low - pad, high + pad];
  return [low, high];
}

function describe(model) {
  const runs = model.runs.map((run) => {
    const last = lastOf(run.seen);
    const end = run.fan ? `, expected to end at ${number(run.fan.median[run.fan.median.length - 1])}` : "";
    return `${run.name}${last ? ` at ${number(last[1])} after step ${stepText(last[0])}` : ""}${end}`;
  });
  return `Fan chart up to step ${stepText(model.horizon)}: ${runs.join("; ") || "no runs"}. Left and right arrows read values off.`;
}
