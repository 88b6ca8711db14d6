"use strict";
// Where the runs come from: a server that is asked for news again and again, or the page itself.

const PAUSE_AFTER_ERROR = 1500; // milliseconds

/** A server. It is asked for changes, and answers as soon as there are some. */
class LiveSource {
  constructor() {
    this.live = true;
    this.csv = "runs.csv";
  }

  /** Tell about changes for ever; `onLost` is called while there is no answer. */
  async listen(onChanges, onLost) {
    let session = "";
    let version = 0;
    for (;;) {
      try {
        const changes = await this.ask(`api/changes?session=${session}&since=${version}`);
        [session, version] = [changes.session, changes.version];
        onChanges(changes);
      } catch (error) {
        onLost(error);
        await new Promise((done) => setTimeout(done, PAUSE_AFTER_ERROR));
      }
    }
  }

  async fans(ids) {
    return ids.length ? this.ask(`api/fans?ids=${ids.map(encodeURIComponent).join(",")}`) : {};
  }

  details(id) {
    return this.ask(`api/runs/${encodeURIComponent(id)}`);
  }

  reach(id, value) {
    return this.ask(`api/runs/${encodeURIComponent(id)}/reach?value=${encodeURIComponent(value)}`);
  }

  async ask(address) {
    const answer = await fetch(address, { credentials: "same-origin" });
    if (answer.status === 401) throw new Error((await answer.text()).trim());
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  }
}

/** What stands in the page. */
class FileSource {
  constructor(data) {
    this.live = false;
    this.data = data;
    this.made = data.made;
    this.csv = `data:text/csv;charset=utf-8;base64,${data.csv}`;
  }

  async listen(onChanges) {
    onChanges(this.data.changes);
  }

  async fans(ids) {
    return Object.fromEntries(ids.filter((id) => id in this.data.details).map((id) => [id, this.data.details[id]]));
  }

  async details(id) {
    if (!(id in this.data.details)) throw new Error("this report has no page for that run: only its line in the table");
    return this.data.details[id];
  }
}

function makeSource() {
  const data = byId("data");
  return data === null ? new LiveSource() : new FileSource(JSON.parse(data.textContent));
}
