"use strict";
// The page of one run.

class RunPage {
  constructor(source, runs, pins) {
    [this.source, this.runs, this.pins] = [source, runs, pins];
    this.id = null;
    this.found = null;
    this.row = null;
    this.asking = false;
    this.chart = new Chart(byId("fan"));
    for (const id of ["log-run", "show-earlier", "show-alone"]) byId(id).addEventListener("change", () => this.draw());
    byId("save-svg").addEventListener("click", () => saveSvg(this.chart, this.title(), this.found.run));
    byId("save-png").addEventListener("click", () => savePng(this.chart, this.title(), this.found.run));
    byId("pin-run").addEventListener("click", () => this.pins.toggle(this.id));
    byId("reach-ask").addEventListener("click", () => this.askReach());
    byId("reach-value").addEventListener("keydown", (event) => event.key === "Enter" && this.askReach());
    byId("reach").hidden = !source.live;
  }

  title() {
    return `${this.found.run}: ${this.runs.head.monitor}`;
  }

  async show(id) {
    this.id = id;
    [this.found, this.row] = [null, null];
    byId("run-body").hidden = true;
    setText(byId("run-trouble"), "");
    setText(byId("reach-answer"), "");
    const row = this.runs.rows.get(id);
    byId("run-name").replaceChildren(row ? row.name : "…");
    await this.update();
  }

  /** Fetch the run if it has changed, and draw it. */
  async update() {
    this.drawHeading();
    const row = this.runs.rows.get(this.id);
    if (this.id === null || this.runs.head === null || this.asking || (this.found && this.row === row)) return;
    this.asking = true;
    const asked = this.id;
    try {
      const found = await this.source.details(asked);
      if (asked !== this.id) return;
      [this.found, this.row] = [found, row];
      setText(byId("run-trouble"), "");
      byId("run-body").hidden = false;
      this.draw();
      this.fill();
    } catch (error) {
      if (asked === this.id && !this.found) setText(byId("run-trouble"), capital(error.message));
    } finally {
      this.asking = false;
      const newest = this.runs.rows.get(this.id);
      if (this.id !== null && (asked !== this.id || (this.found && newest && this.row !== newest))) this.update();
    }
  }

  drawHeading() {
    const row = this.runs.rows.get(this.id);
    const pinned = this.pins.has(this.id);
    setText(byId("pin-run"), pinned ? "Unpin" : "Pin");
    byId("pin-run").setAttribute("aria-pressed", pinned);
    if (row && byId("run-verdict").dataset.verdict !== row.verdict) {
      byId("run-verdict").dataset.verdict = row.verdict;
      byId("run-verdict").replaceChildren(verdictChip(row.verdict));
    }
  }

  draw() {
    const found = this.found;
    if (!found) return;
    byId("alone-switch").hidden = !found.alone;
    const run = {
      id: this.id,
      name: found.run,
      color: 0,
      seen: found.seen,
      fan: found.fan,
      earlier: byId("show-earlier").checked ? found.earlier : [],
      alone: found.alone && byId("show-alone").checked ? found.alone.fan : null,
    };
    const { head } = this.runs;
    this.chart.draw({ horizon: head.horizon, best: found.rival, bestLabel: "best of the others", minimize: head.minimize, reach: 3, label: head.monitor, logarithmic: byId("log-run").checked, bands: ["0.95", "0.8", "0.5"], runs: [run] });
  }

  fill() {
    const found = this.found;
    byId("run-name").replaceChildren(found.run);
    setText(byId("sentence"), found.sentence ? `${capital(found.sentence)}.` : found.note ? `${capital(found.note)}.` : "Nothing can be said of this run yet.");
    const end = found.forecast;
    this.fillFacts(byId("facts"), [
      ["step", `${stepText(found.step) || "none"} of ${stepText(this.runs.head.horizon)}`],
      ["now", found.value === null ? (found.step === null ? "" : "not finite") : number(found.value)],
      ["best so far", number(found.best)],
      ["expected end", end ? number(end.median) : ""],
      ["90 % interval", end ? range(end.low, end.high) : ""],
      ["chance to win", percent(found.probability)],
    ]);
    this.fillEarlier(found);
    this.fillOthers(found);
    const settings = Object.entries(found.config).map(([name, value]) => [name, setting(value)]);
    this.fillFacts(byId("config"), settings);
    byId("no-config").hidden = settings.length > 0;
    byId("log-notes").replaceChildren(...found.log_notes.map((note) => el("li", {}, note)));
    byId("log-notes-box").hidden = !found.log_notes.length;
  }

  fillFacts(list, facts) {
    const lines = facts.filter(([, value]) => value !== "").map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    list.replaceChildren(...lines);
  }

  fillEarlier(found) {
    const lines = found.earlier.map((earlier) => {
      const { median, low, high } = earlier.final;
      const held = `${earlier.inside} of ${earlier.checked}`;
      return el("tr", {}, el("td", {}, stepText(earlier.step)), el("td", {}, number(median)), el("td", {}, range(low, high)), el("td", {}, held));
    });
    byId("earlier-rows").replaceChildren(...lines);
    byId("earlier-table").hidden = !lines.length;
    byId("no-earlier").hidden = lines.length > 0;
    byId("earlier-switch").hidden = !lines.length;
  }

  fillOthers(found) {
    byId("others-box").hidden = !found.alone;
    if (!found.alone || !found.forecast) return;
    const company = found.others ? `with ${count(found.others, "other run")}` : "with its configuration";
    const lines = [[company, found.forecast], ["by itself", found.alone.final]];
    byId("others-rows").replaceChildren(...lines.map(([name, { median, low, high }]) => el("tr", {}, el("td", {}, name), el("td", {}, number(median)), el("td", {}, range(low, high)))));
  }

  async askReach() {
    const text = byId("reach-value").value.trim().replace(",", ".");
    const answer = byId("reach-answer");
    if (text === "" || !Number.isFinite(Number(text))) {
      setText(answer, "Give a number, such as 0.9.");
      return;
    }
    setText(answer, "Drawing futures of the run …");
    byId("reach-ask").disabled = true;
    const asked = this.id;
    try {
      const found = await this.source.reach(asked, Number(text));
      if (asked === this.id) setText(answer, reachSentence(found, this.runs.head.horizon));
    } catch (error) {
      if (asked === this.id) setText(answer, `${capital(error.message)}.`);
    } finally {
      byId("reach-ask").disabled = false;
    }
  }
}

function reachSentence(found, horizon) {
  const never = percent(found.never);
  const value = number(found.value);
  if (found.early !== null && found.early === found.late && found.never === 0) return `It has reached ${value} by step ${stepText(found.early)}.`;
  if (found.even === null) {
    const early = found.early === null ? "" : `; with a chance of 10 % by step ${stepText(found.early)}`;
    return `Rather not by step ${stepText(horizon)}: the chance that it never reaches ${value} is ${never}${early}.`;
  }
  const late = found.late === null ? `later than step ${stepText(horizon)}, if ever` : `step ${stepText(found.late)}`;
  return `${value} at about step ${stepText(found.even)} (80 % interval: step ${stepText(found.early)} to ${late}); the chance that it does not by step ${stepText(horizon)} is ${never}.`;
}
