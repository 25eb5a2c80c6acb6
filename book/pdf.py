"""One PDF of the book (`make pdf`): the rendered pages joined into one document, printed by a
headless Chromium."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

BOOK = Path(__file__).resolve().parent
HTML = BOOK / "_build" / "html"
TARGET = BOOK / "_build" / "learned-mapping.pdf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-pdf-header-footer",
)
PATIENCE_S = 600


def pages() -> list[str]:
    """The pages in the order of the contents, such as ``mmap/play``."""
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text())
    return [
        contents["root"],
        *(chapter["file"] for part in contents["parts"] for chapter in part["chapters"]),
    ]


def anchor(page: str, name: str) -> str:
    """The place in the joined document of a place in a page."""
    return f"{page.replace('/', '-')}--{name}"


def article(page: str) -> Tag:
    """What a page says, with its links turned into links of the joined document."""
    text = (HTML / f"{page}.html").read_text(encoding="utf-8")
    body = BeautifulSoup(text, "html.parser").find("article", class_="bd-article")
    for gone in body.select("script, .headerlink, .lm-live"):
        gone.decompose()
    for element in body.find_all(id=True):
        if not element.find_parent("svg"):
            element["id"] = anchor(page, element["id"])
    for link in body.find_all("a", href=True):
        parts = urlsplit(link["href"])
        if parts.scheme:
            continue
        inside = (
            os.path.normpath(os.path.join(os.path.dirname(page), parts.path))
            if parts.path
            else f"{page}.html"
        )
        target = inside.removesuffix(".html")
        link["href"] = "#" + (
            anchor(target, parts.fragment) if parts.fragment else anchor(target, "page")
        )
    for fold in body.find_all("details", class_="lm-fold"):
        fold["open"] = ""
    for image in body.find_all("img", src=True):
        image["src"] = os.path.normpath(os.path.join(os.path.dirname(page), image["src"]))
    body["id"] = anchor(page, "page")
    return body


def main() -> int:
    browser = os.environ.get("CHROMIUM") or next(
        (b for name in BROWSERS if (b := shutil.which(name))), None
    )
    if browser is None:
        print("pdf: no Chromium is installed: set CHROMIUM to one", file=sys.stderr)
        return 2
    if not (HTML / "index.html").exists():
        print("pdf: the book is not built: run make book first", file=sys.stderr)
        return 2
    whole = BeautifulSoup((HTML / "index.html").read_text(encoding="utf-8"), "html.parser")
    whole.html["data-theme"] = whole.html["data-mode"] = "light"
    kept = [
        script
        for script in whole.head.find_all("script")
        if "mathjax" in script.get("src", "") or "MathJax" in script.text
    ]
    for script in whole.head.find_all("script"):
        script.extract()
    for script in kept:
        whole.head.append(script)
    whole.body.clear()
    for page in pages():
        whole.body.append(article(page))
    joined = HTML / "whole-book.html"
    joined.write_text(str(whole), encoding="utf-8")
    try:
        command = [
            browser,
            *FLAGS,
            "--virtual-time-budget=120000",
            f"--print-to-pdf={TARGET}",
            joined.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S)
    finally:
        joined.unlink()
    if done.returncode or not TARGET.exists():
        print(
            f"pdf: the browser failed: {done.stderr.decode(errors='replace').strip()[-300:]}",
            file=sys.stderr,
        )
        return 1
    print(f"Wrote {TARGET}, {TARGET.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
