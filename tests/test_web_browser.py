"""The page that stays live, in a real browser."""

from __future__ import annotations

import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epochcast.watch import Row, Watcher
from epochcast.watch.table import _cells
from tests.command_line import command
from tests.logged_runs import HORIZON, append, curve, write
from tests.served_page import Served

pytest.importorskip("starlette", reason="needs epochcast[web]")
pytest.importorskip("uvicorn", reason="needs epochcast[web]")
pytest.importorskip("playwright", reason="needs playwright")

from playwright.sync_api import Browser, Page, expect, sync_playwright

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(_BROWSER is None, reason="no browser is installed: apt-get install chromium")

HOSTILE = "<img src=x onerror=alert(1)>"
_ARGUMENTS = (
    "--no-sandbox",  # the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_BROWSER, args=list(_ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write(root / "leader" / "log.csv", curve(0.9, 30))
    write(root / "open" / "log.csv", curve(0.85, 8))
    write(root / "lost" / "log.csv", curve(0.4, 20))
    write(root / "done" / "log.csv", curve(0.7))
    write(root / HOSTILE / "log.csv", [*curve(0.6, 5), math.nan])
    (root / "leader" / "hparams.yaml").write_text(f"lr: 0.00375823512013\nseed: 12345678\nnote: '{HOSTILE}'\n")
    for number in range(40):
        write(root / f"many{number:02}" / "log.csv", curve(0.2 + 0.004 * number, 10 + number % 7))
    return root


@pytest.fixture(scope="module")
def served(runs: Path) -> Iterator[Served]:
    served = Served(runs)
    yield served
    code, errors = served.end()
    assert (code, errors) == (0, "")


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    yield from opened(browser, served.address)


def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """A page in a profile of its own, that must not complain and whose dialogs fail the test."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    context.set_default_timeout(10_000)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(address)
    yield page
    context.close()
    assert said == []


def line(page: Page, name: str) -> Any:
    return page.locator("#rows tr", has=page.get_by_role("link", name=name, exact=True))


def names(page: Page) -> list[str]:
    return page.locator("#rows tr .link").all_inner_texts()


# --- the table ---------------------------------------------------------------------------------------------------


def test_runs_appear_with_the_numbers_of_the_terminal(page: Page, runs: Path) -> None:
    expect(page.locator("#shown-count")).to_have_text("45 runs")
    expected: dict[str, Row] = {row.name: row for row in Watcher(runs, "val_acc", "accuracy", HORIZON).refresh().rows}
    for name in ("leader", "open", "lost", "done"):
        step, now, end, _, chance, verdict = _cells(expected[f"{name}/log.csv"])
        cells = {
            kind: line(page, name).locator(f".{kind}-cell") for kind in ("step", "now", "end", "chance", "verdict")
        }
        expect(cells["step"]).to_have_text(f"{step} / {HORIZON}")
        expect(cells["now"]).to_have_text(now)
        expect(cells["end"]).to_have_text(end)
        expect(cells["chance"]).to_have_text(chance.replace(" ", "\u00a0"))
        expect(cells["verdict"]).to_have_text(verdict)
    expect(page.locator("#counts")).to_contain_text("1\u00a0leading")
    expect(page.locator("#saved-word")).to_contain_text("hopeless run")
    expect(page.locator("#overview path.seen")).to_have_count(5)


def test_numbers_are_written_as_the_terminal_writes_them(page: Page) -> None:
    from epochcast.watch.table import _number, _percent

    values = [0.0, 1.0, -1.5, 0.123456, 99.996, 1234.5, 12345.6, 9999.6, 1e-5, 0.000123456, -3.21e-9, 1e20, 0.99996]
    assert page.evaluate("values => values.map(number)", values) == [_number(value) for value in values]
    shares = [0.0, 0.004, 0.01, 0.256, 0.99, 0.999, 1.0]
    written = page.evaluate("shares => shares.map(percent)", shares)
    assert [text.replace("\u00a0", " ") for text in written] == [_percent(share) for share in shares]


def test_only_rows_in_sight_are_in_the_page_and_scrolling_brings_the_others(page: Page) -> None:
    expect(page.locator("#shown-count")).to_have_text("45 runs")
    assert page.locator("#rows tr[data-id]").count() < 45
    last = "many00"
    assert last not in names(page)
    page.mouse.move(600, 300)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(line(page, last)).to_be_visible()


def test_sorting_turns_the_order_and_filters_choose(page: Page) -> None:
    expect(page.locator("#shown-count")).to_have_text("45 runs")
    page.get_by_role("button", name="run", exact=True).click()
    expect(page.locator("#rows tr[data-id] .link").first).to_have_text(HOSTILE)
    page.get_by_role("button", name="run", exact=True).click()
    expect(page.locator("#rows tr[data-id] .link").first).to_have_text("open")
    page.keyboard.press("/")
    page.keyboard.type("MANY 3")
    expect(page.locator("#shown-count")).to_have_text("13 of 45 runs")  # 3, 13, 23, and 30 to 39
    page.keyboard.press("Escape")
    expect(page.locator("#shown-count")).to_have_text("45 runs")
    page.locator("#verdicts button", has_text="diverged").click()
    expect(page.locator("#rows tr[data-id]")).to_have_count(1)
    page.locator("#filter").fill("nothing like it")
    expect(page.locator("#nothing")).to_be_visible()


def test_pins_go_to_the_top_and_into_the_plot_and_stay(page: Page) -> None:
    pin = line(page, "lost").locator(".pin")
    page.locator("#filter").fill("lost")
    pin.click()
    page.locator("#filter").fill("")
    expect(page.locator("#rows tr[data-id] .link").first).to_have_text("lost")
    expect(page.locator("#overview-title")).to_have_text("Pinned runs")
    expect(page.locator("#overview path.seen")).to_have_count(1)
    page.reload()
    expect(page.locator("#rows tr[data-id] .link").first).to_have_text("lost")
    line(page, "lost").locator(".pin").click()
    expect(page.locator("#overview-title")).to_contain_text("best outlook")


def test_keys_move_open_pin_and_go_back(page: Page) -> None:
    expect(page.locator("#shown-count")).to_have_text("45 runs")
    for key in ("ArrowDown", "ArrowDown", "j", "k"):
        page.keyboard.press(key)
    second = names(page)[1]
    assert page.evaluate("document.activeElement.querySelector('.link').innerText") == second
    page.keyboard.press("End")
    expect(line(page, HOSTILE)).to_be_focused()  # which has diverged
    page.keyboard.press("Home")
    page.keyboard.press("p")
    expect(page.locator("#overview-title")).to_have_text("Pinned runs")
    page.keyboard.press("p")
    page.keyboard.press("Enter")
    expect(page.locator("#run-name")).to_have_text("leader")
    page.keyboard.press("Escape")
    expect(page.locator("#all")).to_be_visible()


# --- it stays live -----------------------------------------------------------------------------------------------


def test_appended_value_and_new_run_appear_without_a_reload(page: Page, runs: Path) -> None:
    page.evaluate("window.untouched = true")
    expect(line(page, "open").locator(".step-cell")).to_contain_text("8 /")
    append(runs / "open" / "log.csv", 9, 0.8321)
    expect(line(page, "open").locator(".step-cell")).to_contain_text("9 /")
    expect(line(page, "open").locator(".now-cell")).to_have_text("0.8321")
    write(runs / "late" / "log.csv", curve(0.88, 12))
    expect(line(page, "late")).to_be_visible()
    shutil.rmtree(runs / "late")
    expect(line(page, "late")).to_have_count(0)
    assert page.evaluate("window.untouched")


def test_plot_and_order_stay_while_they_are_pointed_at(page: Page, runs: Path) -> None:
    expect(page.locator("#overview path.seen")).to_have_count(5)
    page.locator("#overview").hover()
    expect(page.locator(".readout").first).to_be_visible()
    drawn = page.locator("#overview svg path.seen").first.get_attribute("d")
    page.evaluate("window.drawing = document.querySelector('#overview svg')")
    append(runs / "leader" / "log.csv", 31, 0.95)
    expect(line(page, "leader").locator(".step-cell")).to_contain_text("31 /")  # the table has it
    page.wait_for_timeout(300)
    assert page.evaluate("window.drawing === document.querySelector('#overview svg')")
    assert page.locator("#overview svg path.seen").first.get_attribute("d") == drawn
    page.mouse.move(5, 5)
    expect(page.locator("#overview")).to_have_attribute("aria-label", re.compile("leader at 0.9500 after step 31"))

    line(page, "lost").scroll_into_view_if_needed()
    before = names(page)
    page.locator("#rows tr[data-id]").nth(3).hover()
    append(runs / "many39" / "log.csv", 15, 0.94)
    expect(line(page, "many39").locator(".step-cell")).to_contain_text("15 /")
    assert names(page)[:6] == before[:6]
    page.mouse.move(5, 5)
    expect(page.locator("#overview")).to_be_visible()
    assert page.evaluate("!table.held")


def test_first_look_shows_how_far_it_has_got(page: Page) -> None:
    expect(line(page, "leader")).to_be_visible()
    expect(page.locator("#progress")).to_be_hidden()
    page.evaluate(
        "onChanges({everything: false, gone: [], rows: [], head: runs.head, trouble: null,"
        " progress: {what: 'forecasting runs', done: 12, total: 500}})"
    )
    expect(page.locator("#progress")).to_be_visible()
    expect(page.locator("#doing")).to_have_text("Forecasting runs: 12 of 500")


# --- the page of a run -------------------------------------------------------------------------------------------


def test_run_page_tells_all_there_is(page: Page) -> None:
    line(page, "leader").click()
    expect(page.locator("#run-name")).to_have_text("leader")
    expect(page.locator("#sentence")).to_contain_text("Go on: the run already beats")
    for band in ("b05", "b08", "b095"):
        expect(page.locator(f"#fan path.{band}")).to_have_count(1)
    assert page.locator("#fan path.earlier").count() == page.locator("#earlier-rows tr").count() >= 3
    expect(page.locator("#earlier-rows tr").first).to_contain_text(" of ")
    expect(page.locator("#config")).to_contain_text(re.compile(r"lr\s*0\.00375824\s*seed\s*12345678"))
    expect(page.locator("#config")).to_contain_text(HOSTILE)
    expect(page.locator("#others-box")).to_be_hidden()  # this model does not read other runs
    page.locator("#reach-value").fill("0.5")
    page.locator("#reach-ask").click()
    expect(page.locator("#reach-answer")).to_have_text("It has reached 0.5000 by step 2.")
    page.locator("#reach-value").fill("much")
    page.keyboard.press("Enter")
    expect(page.locator("#reach-answer")).to_have_text("Give a number, such as 0.9.")
    page.locator("#reach-value").blur()
    page.keyboard.press("Escape")
    expect(page.locator("#all")).to_be_visible()


def test_run_page_follows_its_run(page: Page, runs: Path) -> None:
    line(page, "lost").click()
    expect(page.locator("#facts")).to_contain_text(f"20 of {HORIZON}")
    append(runs / "lost" / "log.csv", 21, 0.41)
    expect(page.locator("#facts")).to_contain_text(f"21 of {HORIZON}")
    expect(page.locator("#fan")).to_have_attribute("aria-label", re.compile("after step 21"))


def test_run_page_shows_what_the_other_runs_contribute_where_the_model_reads_them(page: Page) -> None:
    """The part of the page that stays empty where each run is forecast by itself."""

    def with_alone(route: Any) -> None:
        found = route.fetch().json()
        final = {"median": 0.91, "low": 0.9, "high": 0.92}
        route.fulfill(json={**found, "others": 44, "alone": {"fan": found["fan"], "final": final}})

    page.route("**/api/runs/*", with_alone)
    line(page, "leader").click()
    expect(page.locator("#others-rows")).to_contain_text("with 44 other runs")
    expect(page.locator("#others-rows")).to_contain_text("0.9000 to 0.9200")
    expect(page.locator("#fan path.alone")).to_have_count(1)
    page.locator("#show-alone").uncheck()
    expect(page.locator("#fan path.alone")).to_have_count(0)


def test_charts_and_table_are_exported(page: Page) -> None:
    line(page, "leader").click()
    page.locator("#fan path.b05").wait_for()
    with page.expect_download() as drawing:
        page.locator("#save-svg").click()
    root = ElementTree.fromstring(drawing.value.path().read_text())
    paths = list(root.iter("{http://www.w3.org/2000/svg}path"))
    assert len(paths) > 5
    assert all(path.get("fill") and "var(" not in str(path.attrib) for path in paths)
    assert any("leader" in (text.text or "") for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert drawing.value.suggested_filename == "leader.svg"
    with page.expect_download() as picture:
        page.locator("#save-png").click()
    data = picture.value.path().read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") > 1000  # pixels wide
    assert len(data) > 10_000  # it is not empty
    page.keyboard.press("Escape")
    with page.expect_download() as table:
        page.locator("#save-csv").click()
    assert table.value.path().read_text().startswith("run,verdict,step")


# --- safety ------------------------------------------------------------------------------------------------------


def test_hostile_name_is_only_text(page: Page) -> None:
    page.locator("#filter").fill("<img")
    link = page.locator("#rows tr[data-id] .link")
    expect(link).to_have_text(HOSTILE)
    line(page, HOSTILE).locator(".pin").click()
    expect(page.locator("#legend")).to_contain_text(HOSTILE)
    page.locator("#overview").hover()
    link.click()
    expect(page.locator("#run-name")).to_have_text(HOSTILE)
    expect(page.locator("#sentence")).to_contain_text("not finite")
    assert page.locator("img").count() == 0  # and no dialog: see `opened`


def test_script_in_the_page_does_not_run(browser: Browser, served: Served) -> None:
    """The control of the test above: were a name written as HTML, the policy would still stop it."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.address)
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.evaluate("name => document.body.insertAdjacentHTML('beforeend', name)", HOSTILE.replace("alert(1)", "hit=1"))
    page.wait_for_timeout(300)
    assert page.evaluate("typeof hit") == "undefined"
    assert any("Content Security Policy" in text for text in refused)
    context.close()


def test_token_opens_the_page_once_and_for_all(browser: Browser, runs: Path) -> None:
    served = Served(runs, "--token")
    try:
        context = browser.new_context()
        page = context.new_page()
        bare, _, token = served.address.partition("?token=")
        refusal = page.goto(bare)
        assert refusal is not None
        assert refusal.status == 401
        page.goto(served.address)
        expect(line(page, "leader")).to_be_visible()
        assert page.url == bare
        assert page.evaluate("document.cookie") == ""
        assert token not in page.content()
        page.reload()
        expect(line(page, "leader")).to_be_visible()
        context.close()
    finally:
        assert served.end() == (0, "")


# --- looks -------------------------------------------------------------------------------------------------------


def lightness(page: Page, selector: str, what: str) -> float:
    numbers = page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{what}.match(/[\\d.]+/g)")
    return sum(float(number) for number in numbers[:3]) / 765


def test_dark_mode_follows_the_system_and_the_button(browser: Browser, served: Served) -> None:
    for page in opened(browser, served.address, color_scheme="dark"):
        expect(line(page, "leader")).to_be_visible()
        assert lightness(page, "body", "backgroundColor") < 0.2
        assert lightness(page, "body", "color") > 0.8
        page.locator("#theme").click()
        expect(page.locator("#theme")).to_have_text("◐ Light")
        assert lightness(page, "body", "backgroundColor") > 0.9
        page.reload()
        expect(page.locator("#theme")).to_have_text("◐ Light")


def test_narrow_screen_shows_what_matters_and_does_not_overflow(browser: Browser, served: Served) -> None:
    for page in opened(browser, served.address, viewport={"width": 360, "height": 740}, has_touch=True):
        expect(line(page, "leader")).to_be_visible()
        for cell in ("name", "bar", "end", "chance", "verdict"):
            expect(line(page, "leader").locator(f".{cell}-cell")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        line(page, "leader").locator(".link").tap()
        expect(page.locator("#fan path.b05")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_wrong_name_is_explained_and_the_page_recovers(browser: Browser, tmp_path: Path) -> None:
    write(tmp_path / "run.csv", curve(0.5, 5), "accuracy_top1")
    served = Served(tmp_path)
    try:
        for page in opened(browser, served.address):
            expect(page.locator("#problem")).to_contain_text("they have accuracy_top1")
            expect(page.locator("#content")).to_be_hidden()
            write(tmp_path / "good.csv", curve(0.5, 5))
            expect(line(page, "good.csv")).to_be_visible()
            expect(page.locator("#notes")).to_contain_text("1 run left out: no val_acc")
            (tmp_path / "torn.csv").write_text("epoch,val_acc\n1,<b>high</b>\n2,0.5\n")
            expect(page.locator("#left-out summary")).to_have_text("1 file left out")
            page.locator("#left-out summary").click()
            expect(page.locator("#left-out li")).to_contain_text("<b>high</b>")
            expect(page.locator("#state")).to_contain_text("live")
    finally:
        assert served.end() == (0, "")


def test_report_opens_from_a_file_without_a_network(browser: Browser, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    words = ("report", str(runs), "--monitor", "val_acc", "--horizon", str(HORIZON), "--out", str(out))
    assert command(*words).code == 0
    asked: list[str] = []
    for page in opened(browser, "about:blank", offline=True):
        page.on("request", lambda request: asked.append(request.url))
        page.goto(out.as_uri())
        expect(line(page, "leader")).to_be_visible()
        expect(page.locator("#state")).to_contain_text("as of 20")
        expect(page.locator("#overview path.seen")).to_have_count(5)
        line(page, "leader").click()
        expect(page.locator("#fan path.b05")).to_have_count(1)
        expect(page.locator("#reach")).to_be_hidden()  # it takes a model
        page.keyboard.press("Escape")
        page.locator("#filter").fill("<img")
        expect(page.locator("#rows tr[data-id] .link")).to_have_text(HOSTILE)
        with page.expect_download() as table:
            page.locator("#save-csv").click()
        assert table.value.path().read_text().startswith("run,verdict,step")
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []
