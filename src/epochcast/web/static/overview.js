"use strict";
// The fans of the pinned runs, or of the leading ones, in one plot.

const MOST_LEADING = 5;
const MOST_PINNED = 10;

class Overview {
  constructor(source, runs, pins) {
    [this.source, this.runs, this.pins] = [source, runs, pins];
    this.chart = new Chart(byId("overview"));
    this.legend = byId("legend");
    this.known = new Map(); // id -> the row for which a fan was asked, and the fan
    this.colors = new Map(); // id -> its colour, kept as long as it is shown
    this.logarithmic = false;
    this.asking = false;
    byId("log-overview").addEventListener("change", (event) => {
      this.logarithmic = event.target.checked;
      this.draw();
    });
  }

  chosen() {
    const pinned = this.runs.sorted().filter((row) => this.pins.has(row.id)).slice(0, MOST_PINNED);
    if (pinned.length) return pinned;
    const leading = this.runs.sorted().filter((row) => outlook(row) !== null && row.verdict !== "diverged");
    return leading.slice(0, MOST_LEADING);
  }

  /** Fetch what has changed and draw it. While that goes on, later changes wait for its end. */
  async update() {
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    try {
      const rows = this.chosen();
      const stale = rows.filter((row) => !this.known.has(row.id) || this.known.get(row.id).row !== row);
      const fans = await this.source.fans(stale.map((row) => row.id));
      for (const row of stale) if (fans[row.id]) this.known.set(row.id, { row, fan: fans[row.id] });
      for (const id of this.known.keys()) if (!rows.some((row) => row.id === id)) this.known.delete(id);
      this.draw();
    } catch {
      // The table tells that the server is away; the plot keeps what it has until it is back.
    } finally {
      this.asking = false;
      if (this.again) {
        this.again = false;
        this.update();
      }
    }
  }

  draw() {
    const rows = this.chosen().filter((row) => this.known.has(row.id));
    for (const id of this.colors.keys()) if (!rows.some((row) => row.id === id)) this.colors.delete(id);
    const shown = rows.map((row) => ({ id: row.id, name: row.name, color: this.colorOf(row.id), ...this.known.get(row.id).fan }));
    const head = this.runs.head;
    const title = this.pins.size ? "Pinned runs" : rows.length < 2 ? "The run with the best outlook" : `The ${rows.length} runs with the best outlook`;
    setText(byId("overview-title"), title);
    this.chart.draw({ horizon: head.horizon, best: head.best, bestLabel: "best so far", minimize: head.minimize, reach: 1, label: head.monitor, logarithmic: this.logarithmic, bands: ["0.8"], runs: shown });
    this.drawLegend(shown);
  }

  colorOf(id) {
    if (!this.colors.has(id)) {
      const taken = new Set(this.colors.values());
      let color = 0;
      while (taken.has(color)) color++;
      this.colors.set(id, color);
    }
    return this.colors.get(id);
  }

  drawLegend(shown) {
    const key = shown.map((run) => `${run.id}${run.color}`).join();
    if (key === this.legendKey || this.chart.held) return;
    this.legendKey = key;
    const items = shown.map((run) => {
      const marker = svg("svg", { width: 26, height: 12, class: `c${run.color}`, "aria-hidden": "true" });
      marker.append(svg("path", { class: "seen", d: "M0 6H26" }), svg("path", { class: "marker", d: MARKERS[run.color % MARKERS.length](13, 6) }));
      return el("a", { href: `#run=${run.id}`, "aria-label": run.name, title: run.name }, marker, el("span", { class: "name" }, ...nameParts(run.name)));
    });
    this.legend.replaceChildren(...items);
  }
}
