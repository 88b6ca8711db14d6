"""The page that stays live, without a browser: what is sent, to whom, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from epochcast.errors import InputError
from epochcast.watch import Watcher
from epochcast.watch.table import _number
from epochcast.web.csv_table import csv_of
from epochcast.web.feed import Feed, run_id
from epochcast.web.page import whole_page
from epochcast.web.payload import rounded, sparkline
from epochcast.web.report import check_report, report_of
from tests.command_line import command
from tests.logged_runs import HORIZON, append, curve, write
from tests.served_page import Served, words

pytest.importorskip("starlette", reason="needs epochcast[web]")
pytest.importorskip("uvicorn", reason="needs epochcast[web]")
pytest.importorskip("httpx2", reason="needs the test client of starlette")

from starlette.testclient import TestClient

from epochcast.web.app import App
from epochcast.web.guard import Access, host_of
from epochcast.web.refresher import Refresher
from epochcast.web.run_queries import RunQueries

HOSTILE = "<img src=x onerror=alert(1)>"
TOKEN = "a-token-of-some-length"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write(tmp_path / "leader" / "log.csv", curve(0.9, 30))
    write(tmp_path / "lost" / "log.csv", curve(0.4, 20))
    write(tmp_path / HOSTILE / "log.csv", [*curve(0.6, 5), math.nan])
    (tmp_path / "leader" / "config.json").write_text('{"lr": 0.1}')
    return tmp_path


class Site:
    """The application over a watcher, without a server."""

    def __init__(self, root: Path, access: Access | None = None, **options: Any) -> None:
        self.watcher = Watcher(root, "val_acc", "accuracy", HORIZON, **options)
        self.feed = Feed()
        self.queries = RunQueries(self.feed, self.watcher.forecaster)
        self.access = access or Access("127.0.0.1", 8421, None)
        app = App(self.feed, self.queries, lambda: False).guarded(self.access)
        self.client = TestClient(app, base_url="http://127.0.0.1:8421", follow_redirects=False)

    def look(self) -> None:
        self.feed.publish(self.watcher.refresh())

    def changes(self, since: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/api/changes?session={self.feed.session}&since={since}").json()
        return found

    def id_of(self, name: str) -> str:
        return next(row["id"] for row in self.changes()["rows"] if row["name"] == name)


@pytest.fixture
def site(runs: Path) -> Site:
    site = Site(runs)
    site.look()
    return site


# --- what is sent ------------------------------------------------------------------------------------------------


def test_changes_hold_all_runs_first_and_then_what_has_changed(site: Site, runs: Path) -> None:
    first = site.changes()
    assert first["everything"] is False  # it knew the session, and no version yet
    assert {row["name"] for row in first["rows"]} == {"leader", "lost", HOSTILE}
    assert first["head"]["counts"] == {"leading": 1, "hopeless": 1, "diverged": 1}
    assert first["head"]["steps_saved"] == HORIZON - 20
    append(runs / "lost" / "log.csv", 21, 0.41)
    site.look()
    then = site.changes(first["version"])
    assert [(row["name"], row["step"]) for row in then["rows"]] == [("lost", 21.0)]
    (runs / "lost" / "log.csv").unlink()
    site.look()
    last = site.changes(then["version"])
    assert (last["rows"], last["gone"]) == ([], [then["rows"][0]["id"]])


def test_changes_of_a_look_that_found_nothing_new_are_none(site: Site) -> None:
    version = site.feed.version
    site.look()
    assert site.feed.version == version


def test_changes_of_another_session_are_everything(site: Site) -> None:
    found = site.client.get(f"/api/changes?session=other&since={site.feed.version}").json()
    assert found["everything"]
    assert len(found["rows"]) == 3
    assert site.client.get("/api/changes?since=x").status_code == 400


def test_changes_tell_progress_and_trouble(site: Site) -> None:
    version = site.feed.version
    site.feed.tell("reading logs", 3, 9)
    assert site.changes(version)["progress"] == {"what": "reading logs", "done": 3, "total": 9}
    version = site.feed.version
    site.feed.fail("the folder is gone")
    assert site.changes(version)["trouble"] == "the folder is gone"
    site.look()
    assert (site.changes(version)["trouble"], site.changes(version)["progress"]) == (None, None)


def test_details_fans_and_reach_answer_of_runs_by_id(site: Site) -> None:
    leader = site.id_of("leader")
    found = site.client.get(f"/api/runs/{leader}").json()
    assert (found["run"], found["config"], found["step"]) == ("leader", {"lr": 0.1}, 30.0)
    assert found["sentence"].startswith("go on: the run already beats")
    assert "path" not in found
    fans = site.client.get(f"/api/fans?ids={leader},nothing").json()
    assert list(fans) == [leader]
    assert fans[leader]["fan"]["steps"][-1] == HORIZON
    reach = site.client.get(f"/api/runs/{leader}/reach?value=0.5").json()
    assert reach["even"] == 2.0


def test_desk_asks_a_model_of_its_own_which_answers_the_same(site: Site) -> None:
    leader = site.id_of("leader")
    assert site.queries.forecaster.engine is not site.watcher.forecaster.engine
    found = site.queries.details(leader)
    assert found is not None
    row = next(row for row in site.changes()["rows"] if row["id"] == leader)
    assert found["fan"]["median"][-1] == pytest.approx(row["end"][0], abs=1e-4)


def test_details_are_made_anew_when_the_run_or_its_rival_changes(site: Site, runs: Path) -> None:
    leader = site.id_of("leader")
    before = site.client.get(f"/api/runs/{leader}").json()
    append(runs / "leader" / "log.csv", 31, 0.91)
    write(runs / "new" / "log.csv", curve(0.95, 40))
    site.look()
    after = site.client.get(f"/api/runs/{leader}").json()
    assert (before["step"], after["step"]) == (30.0, 31.0)
    assert after["rival"] > before["rival"]


def test_reach_of_words_and_of_a_run_that_is_over_says_why(site: Site) -> None:
    leader, broken = site.id_of("leader"), site.id_of(HOSTILE)
    for value in ("", "high", "nan", "inf"):
        answer = site.client.get(f"/api/runs/{leader}/reach?value={value}")
        assert (answer.status_code, answer.json()["error"]) == (400, "give a number, such as 0.9")
    assert "nothing ahead" in site.client.get(f"/api/runs/{broken}/reach?value=0.5").json()["error"]


def test_problem_of_an_empty_folder_and_of_a_wrong_name_is_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.look()
    assert "no training logs below" in site.changes()["head"]["problem"]
    write(tmp_path / "run.csv", curve(0.5, 5), "accuracy_top1")
    site.look()
    assert "they have accuracy_top1" in site.changes()["head"]["problem"]


def test_sparkline_of_any_run_lies_in_its_box(runs: Path) -> None:
    write(runs / "huge.csv", [1e308, -1e308, 0.0])
    write(runs / "flat.csv", [0.5] * 300)
    snapshot = Watcher(runs, "val_acc", "unit", HORIZON).refresh()
    for row in snapshot.rows:
        points = sparkline(row, HORIZON)
        assert len(points) % 2 == 0
        assert len(points) <= 64
        assert all(0 <= place <= 100 for place in points)


def test_rounded_numbers_are_shown_as_the_terminal_shows_them() -> None:
    for value in (0.1234499999, 0.99995, 1234.5678, 3.14159e-7, -0.00012345, 12345.678):
        assert _number(rounded(value)) == _number(value)
    assert rounded({"a": [math.nan, math.inf, 1.0]}) == {"a": [None, None, 1.0]}


# --- files -------------------------------------------------------------------------------------------------------


def test_csv_holds_all_runs_and_no_formulas(site: Site, runs: Path) -> None:
    for number, name in enumerate(("=1+1", "+x", "-x", "@x", "\tx")):
        write(runs / f"{name}{number}" / "log.csv", curve(0.3, 9))
    site.look()
    answer = site.client.get("/runs.csv")
    assert "attachment" in answer.headers["content-disposition"]
    table = list(csv.DictReader(io.StringIO(answer.text)))
    names = [line["run"] for line in table]
    assert {"'=1+10/log.csv", "'+x1/log.csv", "'-x2/log.csv", "'@x3/log.csv"} <= set(names)
    assert all(name[0] not in "=+-@\t\r" for name in names)
    leader = next(line for line in table if line["run"] == "leader/log.csv")
    assert (leader["verdict"], leader["step"], leader["horizon"]) == ("leading", "30", str(HORIZON))
    assert float(leader["low"]) < float(leader["end"]) < float(leader["high"])
    assert site.feed.snapshot is not None
    assert csv_of(site.feed.snapshot) == answer.text


def test_report_is_one_file_that_names_no_other(runs: Path) -> None:
    watcher = Watcher(runs, "val_acc", "accuracy", HORIZON)
    told: list[int] = []
    page = report_of(watcher, watcher.refresh(), lambda done, _: told.append(done))
    assert told == [1, 2, 3]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:,)", page)
    assert HOSTILE not in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert {row["name"] for row in data["changes"]["rows"]} == {"leader", "lost", HOSTILE}
    assert set(data["details"]) == {row["id"] for row in data["changes"]["rows"]}
    assert str(runs) not in page


def test_report_gives_pages_to_the_best_runs_only_where_there_are_many(runs: Path) -> None:
    watcher = Watcher(runs, "val_acc", "accuracy", HORIZON)
    snapshot = watcher.refresh()
    page = report_of(watcher, snapshot, lambda *_: None, most_pages=1)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert list(data["details"]) == [run_id(snapshot.rows[0])]


def test_whole_page_data_cannot_end_its_element() -> None:
    page = whole_page({"x": "</script><script>alert(1)</script><!--"})
    assert "alert(1)</script>" not in page
    assert "'unsafe-inline'" not in page


@pytest.mark.parametrize(("name", "said"), [("", "is a folder"), ("nowhere/report.html", "make it first")])
def test_report_to_a_place_that_cannot_be_written_raises(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        check_report(tmp_path / name)


def test_cli_report_writes_the_file_and_says_so(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    words = ("report", str(runs), "--monitor", "val_acc", "--horizon", str(HORIZON), "--out", str(out))
    outcome = command(*words)
    assert outcome.code == 0, outcome.err
    assert "3 runs" in outcome.out
    assert out.read_text().startswith("<!doctype html>")
    missing = command(*("val_bleu" if word == "val_acc" else word for word in words), "--metric", "bleu")
    assert "they have" in missing.refusal
    assert "val_acc" in missing.refusal


# --- who may ask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8421", "localhost:8421", "LOCALHOST:9000", "[::1]:8421", "127.0.0.1"])
def test_host_of_this_machine_is_answered(host: str, site: Site) -> None:
    assert site.client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8421", "127.0.0.1.evil.org", "10.0.0.1:8421", "", "["])
def test_host_of_another_name_is_refused(host: str, site: Site) -> None:
    for path in ("/", "/api/changes", "/runs.csv", "/static/page.js"):
        assert site.client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8421", 200),
        ("http://evil.example", 403),
        ("http://127.0.0.1:9999", 403),
        ("null", 403),
        ("http://localhost:8421", 403),
    ],
)
def test_origin_must_be_the_page_itself(origin: str, status: int, site: Site) -> None:
    assert site.client.get("/api/changes", headers={"origin": origin}).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_page_can_only_be_read(method: str, site: Site) -> None:
    answer = site.client.request(method, "/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/static/page.html",
        "/api/runs/..%2f..%2fetc%2fpasswd",
        "/leader/config.json",
        "/leader/log.csv",
    ],
)
def test_path_that_names_a_file_opens_none(path: str, site: Site) -> None:
    answer = site.client.get(path)
    assert answer.status_code == 404
    assert "0.1" not in answer.text
    assert "root:" not in answer.text


def test_answers_forbid_what_the_page_does_not_need(site: Site) -> None:
    for path in ("/", "/static/page.js", "/api/changes", "/nothing"):
        headers = site.client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.fixture
def locked(runs: Path) -> Site:
    site = Site(runs, Access("0.0.0.0", 8421, TOKEN))
    site.look()
    return site


@pytest.mark.parametrize("path", ["/", "/api/changes", "/runs.csv", "/static/page.js", "/nothing"])
def test_token_is_asked_for_everywhere(path: str, locked: Site) -> None:
    for headers in ({}, {"cookie": "epochcast-8421=wrong"}, {"authorization": "Bearer wrong"}, {"cookie": "a=b; ;=;"}):
        answer = locked.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert TOKEN not in answer.text
    assert locked.client.get(f"{path}?token=wrong").status_code == 401
    assert locked.client.get(f"{path}?token=%C3%A9").status_code == 401


def test_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(locked: Site) -> None:
    answer = locked.client.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "epochcast-8421=" in cookie
    assert locked.client.get("/api/changes").status_code == 200  # the client keeps it


def test_token_as_a_header_opens_for_scripts(locked: Site) -> None:
    assert locked.client.get("/runs.csv", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_token_answer_never_leads_to_another_host(locked: Site) -> None:
    answer = locked.client.get(f"http://127.0.0.1:8421//evil.example/x?token={TOKEN}&y=1")
    assert answer.headers["location"] == "/evil.example/x?y=1"


@pytest.mark.parametrize(("host", "status"), [("192.168.0.7:8421", 200), ("evil.example:8421", 421)])
def test_open_host_is_reached_by_its_numbers_and_not_by_foreign_names(host: str, status: int, locked: Site) -> None:
    headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
    assert locked.client.get("/", headers=headers).status_code == status
    named = {**headers, "host": f"{socket.gethostname()}:8421"}
    assert locked.client.get("/", headers=named).status_code == 200


def test_host_of_a_header() -> None:
    assert [host_of(text) for text in ("A.b:1", "[::1]:2", "x@y", "", "[")] == ["a.b", "::1", "y", "", ""]


# --- the thread that looks ---------------------------------------------------------------------------------------


def test_refresher_follows_a_growing_run_and_survives_a_folder_that_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    path = write(folder / "run.csv", curve(0.6, 5))
    feed = Feed()
    refresher = Refresher(Watcher(folder, "val_acc", "accuracy", HORIZON), feed, 0.05)
    refresher.start()

    def wait_for(reached: Any) -> None:
        deadline = time.monotonic() + 30
        while not reached(feed.changes(feed.session, 0)):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    wait_for(lambda found: found["rows"] and found["rows"][0]["step"] == 5)
    append(path, 6, 0.7)
    wait_for(lambda found: found["rows"][0]["step"] == 6)
    folder.rename(tmp_path / "away")
    wait_for(lambda found: found["trouble"] or found["head"]["problem"])
    (tmp_path / "away").rename(folder)
    wait_for(lambda found: found["rows"] and not found["trouble"] and not found["head"]["problem"])
    assert refresher.error is None
    refresher.stop()


def test_refresher_breaks_off_a_look_when_it_is_stopped(tmp_path: Path) -> None:
    for number in range(300):
        write(tmp_path / f"run{number:03}.csv", curve(0.5, 3 + number % 20))
    watcher = Watcher(tmp_path, "val_acc", "accuracy", HORIZON)
    refresher = Refresher(watcher, Feed(), 10.0)
    refresher.start()
    deadline = time.monotonic() + 30
    while watcher.logs.files_read < 20 and time.monotonic() < deadline:
        time.sleep(0.001)
    refresher.stop()
    assert not refresher.alive
    assert refresher.error is None
    assert watcher.runs_forecast < 300


# --- the command -------------------------------------------------------------------------------------------------


def test_cli_serves_until_interrupted_and_a_second_one_takes_the_next_port(runs: Path) -> None:
    first = Served(runs)
    try:
        assert first.address.startswith("http://127.0.0.1:84")
        assert "?token" not in first.address
        assert first.get(first.address)[0] == 200
        second = Served(runs, "--token")
        try:
            assert second.address.split("/")[2] != first.address.split("/")[2]
            assert second.get(second.address.partition("?")[0])[0] == 401
        finally:
            assert second.end() == (0, "")
        port = first.address.rstrip("/").rpartition(":")[2]
        assert "cannot be used" in command(*words(runs, "--port", port)).refusal
    finally:
        assert first.end() == (0, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--port", "70000"), "port=70000 must be"),
        (("--host", "no.such.host.invalid"), "'no.such.host.invalid' is no host of this machine"),
        (("--host", ""), "'' is no host of this machine"),
        (("--host", "203.0.113.7"), "203.0.113.7 is no address of this machine; give another --host"),
        (("--interval", "0"), "interval=0"),
        (("--once",), "leave --once and --json out"),
        (("--json",), "leave --once and --json out"),
    ],
)
def test_cli_mistakes_end_with_one_line(options: tuple[str, ...], said: str, runs: Path) -> None:
    assert said in command(*words(runs, *options)).refusal


def test_cli_without_the_extra_names_it(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("epochcast.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "uvicorn is not installed; run: pip install 'epochcast[web]'" in command(*words(runs)).refusal
