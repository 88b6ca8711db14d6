"use strict";
// Puts the parts together: news from the source go to the summary, the table, the plot and the page of a run.

const REMEMBERED = "epochcast-pins";
const THEMES = ["auto", "light", "dark"];

/** What the browser keeps, where it lets us. */
const memory = {
  get(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // Private windows and files may refuse: the page works without.
    }
  },
};

/** The runs that the user has pinned. */
class Pins extends Set {
  constructor(onChange) {
    super(JSON.parse(memory.get(REMEMBERED) || "[]"));
    this.onChange = onChange;
  }

  toggle(id) {
    if (!this.delete(id)) this.add(id);
    memory.set(REMEMBERED, JSON.stringify([...this]));
    this.onChange();
  }

  /** Pins of runs that are not here must not hide the leading ones. */
  get size() {
    return [...this].filter((id) => runs.rows.has(id)).length;
  }
}

const source = makeSource();
const runs = new Runs();
const pins = new Pins(() => drawAll(true));
const open = (id) => (location.hash = `run=${id}`);
const table = new Table(runs, pins, open);
const overview = new Overview(source, runs, pins);
const runPage = new RunPage(source, runs, pins);
let newest = 0; // when news came last
let lost = null; // why none come

function drawAll(reorder = false) {
  if (!runs.head) return;
  drawSummary();
  table.update(reorder);
  if (byId("all").hidden) runPage.update();
  else overview.update();
}

// --- summary ----------------------------------------------------------------------------------------------------

function drawSummary() {
  const { head } = runs;
  document.title = `${head.monitor} · epochcast`;
  setText(byId("monitor"), head.monitor);
  setText(byId("about"), `${head.metric}, ${head.minimize ? "smaller" : "larger"} is better, up to step ${stepText(head.horizon)}`);
  const total = Object.values(head.counts).reduce((sum, each) => sum + each, 0);
  setText(byId("total"), total.toLocaleString("en"));
  setText(byId("total-word"), total === 1 ? "run" : "runs");
  setText(byId("best-value"), head.best === null ? "none yet" : number(head.best));
  const leader = [...runs.rows.values()].find((row) => row.best !== null && row.best === head.best);
  byId("best-name").replaceChildren(...(leader ? [el("a", { href: `#run=${leader.id}`, "aria-label": leader.name, title: leader.name }, ...nameParts(leader.name))] : []));
  setText(byId("saved"), Math.round(head.steps_saved).toLocaleString("en"));
  const hopeless = head.counts.hopeless || 0;
  setText(byId("saved-word"), hopeless ? `by stopping the ${count(hopeless, "hopeless run")} now` : "no run is hopeless now");
  drawCounts(head.counts, total);
  setText(byId("chance-of"), `Chance: that a run's ${head.chance_of.replace(/^its /, "")}.`);
  byId("problem").hidden = head.problem === null;
  setText(byId("problem"), head.problem === null ? "" : `${capital(head.problem)}.`);
  byId("content").hidden = head.problem !== null;
  byId("notes").replaceChildren(...head.notes.map((note) => el("li", {}, capital(note))));
  byId("notes").hidden = !head.notes.length;
  const { left_out: leftOut } = head;
  const key = JSON.stringify(leftOut);
  if (byId("left-out").dataset.key === key) return;
  byId("left-out").dataset.key = key;
  byId("left-out").hidden = !leftOut.length;
  setText(byId("left-out").querySelector("summary"), `${count(leftOut.length, "file")} left out`);
  byId("left-out").querySelector("ul").replaceChildren(...leftOut.map(([path, reason]) => el("li", {}, `${path}: ${reason}`)));
}

function drawCounts(counts, total) {
  const parts = VERDICTS.filter((verdict) => counts[verdict]);
  byId("counts-bar").replaceChildren(
    ...parts.map((verdict) => {
      const part = el("i", { class: verdict });
      part.style.width = `${(100 * counts[verdict]) / total}%`;
      return part;
    }),
  );
  setText(byId("counts"), parts.map((verdict) => `${counts[verdict].toLocaleString("en")}${NO_BREAK}${verdict}`).join(", "));
  for (const button of byId("verdicts").children) {
    const { verdict } = button.dataset;
    button.hidden = !counts[verdict] && !runs.verdicts.has(verdict);
    setText(button.querySelector("b"), (counts[verdict] || 0).toLocaleString("en"));
  }
}

function makeVerdictButtons() {
  const buttons = VERDICTS.map((verdict) => {
    const toggle = (event) => {
      if (!runs.verdicts.delete(verdict)) runs.verdicts.add(verdict);
      event.currentTarget.setAttribute("aria-pressed", runs.verdicts.has(verdict));
      table.update(true);
    };
    return el("button", { type: "button", class: `verdict ${verdict}`, "aria-pressed": "false", "data-verdict": verdict, hidden: true, click: toggle }, verdictMark(verdict), verdict, " ", el("b", {}, "0"));
  });
  byId("verdicts").replaceChildren(...buttons);
}

// --- news -------------------------------------------------------------------------------------------------------

function onChanges(changes) {
  [newest, lost] = [Date.now(), null];
  runs.take(changes);
  const { progress } = changes;
  byId("progress").hidden = progress === null;
  if (progress !== null) {
    byId("progress").max = progress.total;
    byId("progress").value = progress.done;
    setText(byId("doing"), `${capital(progress.what)}: ${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")}`);
  }
  byId("doing").hidden = progress === null;
  lost = changes.trouble;
  drawAll();
  drawState();
}

function drawState() {
  const state = byId("state");
  if (!source.live) {
    state.className = "state";
    setText(state, `as of ${source.made}`);
    return;
  }
  state.className = `state ${lost ? "lost" : "live"}`;
  const seconds = Math.round((Date.now() - newest) / 1000);
  const ago = seconds < 2 ? "" : seconds < 90 ? `, changed ${seconds} s ago` : `, changed ${Math.round(seconds / 60)} min ago`;
  setText(state, lost ? `no news: ${lost}` : `live${newest ? ago : ""}`);
}

function onLost(error) {
  lost = error instanceof TypeError ? "epochcast does not answer; start it again and this page goes on" : error.message;
  drawState();
}

// --- where we are, and keys -------------------------------------------------------------------------------------

let scrolled = 0;
function route() {
  const id = /^#run=([0-9a-f]+)$/.exec(location.hash)?.[1];
  const wasTable = !byId("all").hidden;
  if (id && wasTable) scrolled = scrollY;
  byId("all").hidden = Boolean(id);
  byId("one").hidden = !id;
  if (id) {
    scrollTo(0, 0);
    runPage.show(id);
    byId("run-name").focus({ preventScroll: true });
    return;
  }
  const left = runPage.id;
  runPage.id = null;
  drawAll(true);
  scrollTo(0, scrolled);
  table.render();
  if (left) table.elements.get(left)?.node.focus({ preventScroll: true });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.closest("input[type=text], input[type=search]");
  if (event.key === "Escape") {
    if (typing && typing.value) {
      typing.value = "";
      typing.dispatchEvent(new Event("input"));
    } else if (typing) typing.blur();
    else if (location.hash) location.hash = "";
  } else if (typing) return;
  else if (event.key === "/") {
    event.preventDefault();
    if (byId("all").hidden) location.hash = "";
    byId("filter").focus();
  } else if (event.key === "t") nextTheme();
  else if (event.key === "p" && runPage.id) pins.toggle(runPage.id);
  else if (["ArrowDown", "j"].includes(event.key) && !byId("all").hidden && !event.target.closest("tr, .chart, select")) {
    event.preventDefault();
    table.goTo(0);
  }
}

function nextTheme() {
  const now = document.documentElement.dataset.theme || "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  setText(byId("theme"), `◐ ${capital(theme)}`);
  memory.set("epochcast-theme", theme);
}

setTheme(THEMES.includes(memory.get("epochcast-theme")) ? memory.get("epochcast-theme") : "auto");
makeVerdictButtons();
byId("theme").addEventListener("click", nextTheme);
byId("save-csv").href = source.csv;
byId("filter").addEventListener("input", (event) => {
  runs.text = event.target.value;
  table.update(true);
});
addEventListener("hashchange", route);
addEventListener("keydown", onKey);
setInterval(drawState, 1000);
source.listen(onChanges, onLost);
route();
