"""The site: what its hooks make of the code, and the checker of its links, which must be able to find fault."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import epochcast as ec
from tests.checkout import ROOT, SCRIPTS, in_a_checkout

pytestmark = in_a_checkout
if SCRIPTS.is_dir():
    sys.path.append(str(SCRIPTS))
    import check_site
    import site_hooks


# --- generated parts --------------------------------------------------------------------------------------------------


def test_command_line_names_every_command_and_option() -> None:
    page = site_hooks.command_line()
    for name, command in site_hooks.commands().items():
        part = page.split(f"## {name}\n")[1].split("\n## ")[0]
        for param in command.params:
            if param.param_type_name == "option" and not param.hidden:
                assert param.opts[0] in part, (name, param.opts)
    assert len(site_hooks.commands()) >= 8
    assert "--kind" not in page  # hidden: it will go


def test_metrics_and_models_are_all_there() -> None:
    assert re.findall(r"^\| `(\w+)` \|", site_hooks.metrics(), re.M) == ec.metric_names()
    cards = site_hooks.models()
    assert [name for name in ec.models() if f"{{ #{name} }}" not in cards] == []


def test_log_links_to_pages_beside_it() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", site_hooks.log())
    assert links
    assert [link for link in links if not (ROOT / "docs" / "research" / link).is_file()] == []


def test_mark_of_a_generated_part_is_replaced() -> None:
    assert "<!-- generated" not in site_hooks.on_page_markdown("a\n\n<!-- generated: metrics -->\n\nb")
    with pytest.raises(KeyError):
        site_hooks.on_page_markdown("<!-- generated: nonsense -->")


@pytest.mark.parametrize("folder", ["guide", "how-to", "reference", "research"])
def test_page_of_a_part_is_in_the_navigation(folder: str) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = sorted((ROOT / "docs" / folder).rglob("*.md"))
    assert pages
    assert [page for page in pages if page.relative_to(ROOT / "docs").as_posix() not in navigation] == []


def test_pages_for_users_have_no_private_words() -> None:
    """What a leg was need nobody know but who reads the log."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    private = re.compile(r"\blegs?\b|\breal\d+\b|\buntold\b")
    assert [page.name for page in pages if private.search(page.read_text(encoding="utf-8"))] == []


# --- links ------------------------------------------------------------------------------------------------------------


def site(folder: Path, body: str) -> list[str]:
    """What the checker says of a page with this body beside another one."""
    (folder / "other").mkdir()
    (folder / "other" / "index.html").write_text('<h1 id="there">Other</h1>')
    (folder / "index.html").write_text(f"<html><body>{body}</body></html>")
    return list(check_site.problems(folder))


@pytest.mark.parametrize(
    "body",
    [
        '<a href="other/">page</a>',
        '<a href="other/#there">anchor</a><a href="#">top</a>',
        '<a href="https://example.org/anything">elsewhere</a>',
        f'<a href="{check_site.REPOSITORY}/blob/main/README.md">file</a>' if SCRIPTS.is_dir() else "",
    ],
)
def test_links_that_lead_somewhere_pass(body: str, tmp_path: Path) -> None:
    assert site(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="nowhere/">page</a>', "no such page"),
        ('<a href="other/#here">anchor</a>', "no anchor 'here'"),
        ('<img src="picture.png">', "no such page"),
        ('<script src="https://example.org/a.js"></script>', "loaded from elsewhere"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "loaded from elsewhere"),
        (
            f'<a href="{check_site.REPOSITORY}/blob/main/nothing.py">file</a>' if SCRIPTS.is_dir() else "",
            "has no nothing",
        ),
        (f'<a href="{check_site.SITE}guide/nothing/">page</a>' if SCRIPTS.is_dir() else "", "no page guide/nothing"),
    ],
)
def test_link_that_leads_nowhere_is_found(body: str, fault: str, tmp_path: Path) -> None:
    (problem,) = site(tmp_path, body)
    assert fault in problem
