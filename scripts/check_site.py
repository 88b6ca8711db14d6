"""Whether the built site holds together: every link and anchor inside it, and every file of the repository it names.

    python scripts/check_site.py site

Nothing is fetched. Links to other sites are left alone, but nothing that a page needs to be read may come from one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/epochcast/epochcast"
RAW = "https://raw.githubusercontent.com/epochcast/epochcast/main/"
SITE = "https://epochcast.github.io/epochcast/"
_FILE = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|tree|raw)/main/(.+)")
_HERE = "https://here.invalid/"  # stands for the root of the site
_LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "video": "src", "link": "href"}
_LOADED_RELS = {"stylesheet", "icon", "preload", "preconnect", "modulepreload"}


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = {"", "top", "__top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        if tag in _LOADED and _LOADED[tag] in found:
            rels = set(found.get("rel", "").split())
            if tag != "link" or rels & _LOADED_RELS:
                self.loads.add(found[_LOADED[tag]])


def problems(site: Path) -> Iterator[str]:
    """A sentence for each link that leads nowhere, and for each thing that is loaded from elsewhere."""
    pages = {file.relative_to(site).as_posix(): Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    for name, page in sorted(pages.items()):
        if name == "404.html":  # its links are absolute, as it may be shown anywhere
            continue
        for target in sorted(page.links | page.loads):
            fault = _fault(site, pages, urljoin(_HERE + name, target))
            if fault is not None:
                yield f"{name}: {target}: {fault}"
        yield from (f"{name}: {target}: is loaded from elsewhere" for target in page.loads if "//" in target)


def _fault(site: Path, pages: dict[str, Page], address: str) -> str | None:
    if not address.startswith(_HERE):
        return None if urlsplit(address).scheme == "mailto" else fault_of_address(address)
    plain, anchor = urldefrag(address)
    path = unquote(urlsplit(plain).path).lstrip("/")
    if path == "" or path.endswith("/"):
        path += "index.html"
    if not (site / path).is_file():
        return "there is no such page"
    if path in pages and unquote(anchor) not in pages[path].anchors:
        return f"the page has no anchor {anchor!r}"
    return None


def fault_of_address(address: str) -> str | None:
    """What is wrong with an address of another site: only those of ours can be checked."""
    plain = urldefrag(address)[0]
    named = plain.removeprefix(RAW) if plain.startswith(RAW) else None
    if match := _FILE.fullmatch(plain):
        named = match[1]
    if named is not None:
        return None if (ROOT / named).exists() else f"the repository has no {named}"
    if plain.startswith(SITE):
        page = plain.removeprefix(SITE).strip("/") or "index"
        places = [ROOT / "docs" / f"{page}.md", ROOT / "docs" / page / "index.md"]
        return None if any(place.is_file() for place in places) else f"the site has no page {page}"
    return None


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    found = list(problems(site))
    count = len(list(site.rglob("*.html")))
    if count == 0:
        found.append(f"{site} holds no pages; build it with: make docs")
    print("\n".join([*found, f"{count} pages, {len(found)} problems"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
