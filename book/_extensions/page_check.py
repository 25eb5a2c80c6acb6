"""Checks of rendered pages: nothing is loaded from elsewhere, and what is linked inside the book is
there."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself when it shows a page: (tag, attribute).
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("iframe", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("video", "src"),
    ("video", "poster"),
    ("audio", "src"),
    ("track", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("input", "src"),
    ("image", "href"),
    ("image", "xlink:href"),
    ("use", "href"),
    ("use", "xlink:href"),
}
FETCHING_LINKS = {
    "stylesheet",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "icon",
}
CSS_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


def is_external(address: str) -> bool:
    """Whether an address leaves the folder of the pages."""
    parts = urlsplit(address.strip())
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


class _Page(HTMLParser):
    """Collects what a page fetches and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self._in_style = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        self._in_style = tag == "style"
        for name, value in values.items():
            if (tag, name) in FETCHED:
                self.fetched += (
                    [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
                )
            if name == "style":
                self.fetched += _css_addresses(value)
        if tag == "link" and FETCHING_LINKS & set(values.get("rel", "").lower().split()):
            self.fetched.append(values.get("href", ""))
        if tag == "a" and "href" in values:
            self.linked.append(values["href"])

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.fetched += _css_addresses(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False


def _css_addresses(text: str) -> list[str]:
    return [first or second for first, second in CSS_URL.findall(text)]


def pages_of(folder: Path) -> list[Path]:
    """The rendered pages; the theme leaves templates of its own under ``_static``."""
    return [
        path
        for path in sorted(folder.rglob("*.html"))
        if path.relative_to(folder).parts[0] != "_static"
    ]


def external_resources(folder: Path) -> list[str]:
    """One line for each thing that a page or style sheet under `folder` would load from
    elsewhere."""
    faults = []
    pages = set(pages_of(folder))
    for path in sorted(folder.rglob("*")):
        if path in pages:
            addresses = _Page(path).fetched
        elif path.suffix == ".css":
            addresses = _css_addresses(path.read_text(encoding="utf-8"))
        else:
            continue
        name = path.relative_to(folder)
        faults += [
            f"{name}: loads {address} from elsewhere"
            for address in addresses
            if is_external(address)
        ]
    return faults


def broken_links(folder: Path) -> list[str]:
    """One line for each file that a page under `folder` links to or loads and that is not there."""
    faults = []
    for path in pages_of(folder):
        page = _Page(path)
        for address in page.fetched + page.linked:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            if not (path.parent / unquote(parts.path)).exists():
                faults.append(f"{path.relative_to(folder)}: {address} is not there")
    return faults
