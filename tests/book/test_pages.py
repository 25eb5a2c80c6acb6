"""The rendered book in a real browser: every page at three widths, light and dark; explorables by
mouse and by keys.

These tests need the pages that ``make book`` makes, and say that they are skipped where there are
none.
"""

import base64
import importlib.metadata
import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

HTML = Path(__file__).resolve().parents[2] / "book" / "_build" / "html"
NO_PAGES = ("genindex.html", "search.html")
PAGES = sorted(
    path.relative_to(HTML).as_posix()
    for path in HTML.rglob("*.html")
    if path.name not in NO_PAGES
    and path.relative_to(HTML).parts[0] not in ("_static", "vendor", "explorables")
)
# 30,700 before a page derived prices and twelve programs decided paper 1
WORDS, WORDS_OF_A_PAGE = 31_600, 2_500
SCREENS, SCREEN = 18, 900  # 16.5 before REGAL began at the cut and its learner had knobs
WEIGHT = 1_500_000
"""Bytes of a page with all it loads, formulas left out."""

if not PAGES:
    pytest.skip("the book is not built: run make book first", allow_module_level=True)

CHECKS = (Path(__file__).parent / "page_checks.js").read_text()
AXE = (
    next(f for f in importlib.metadata.files("axe-core-python") if f.name == "axe.min.js")
    .locate()
    .read_text()
)
STILL = (
    "<style>*, ::before, ::after {animation: none !important; transition: none !important}</style>"
)
"""A fold fades in when it opens: half way there its words are pale."""
# What is inside a drawn picture or a formula is no content of its own: the whole has a name, for
# which `names` asks.
# A phone shows the same colours, which `contrast` reads there as well.
SERIOUS = """axe.run(
  {include: [["html"]], exclude: [[".lm-drawing svg > *"], ["[data-frame] svg > *"], ["mjx-container > *"]]},
  {resultTypes: ["violations"], rules: {"color-contrast": {enabled: window.innerWidth > 500}}},
).then((found) => found.violations
  .filter((one) => one.impact === "serious" || one.impact === "critical")
  .map((one) => `axe: ${one.id}, ${one.nodes.length} times, such as ${one.nodes[0].html.slice(0, 120)}`))"""


def address(page: str, state: str = "") -> str:
    return (HTML / page).as_uri() + (f"#{state}" if state else "")


@pytest.mark.parametrize("width", (1280, 390))
@pytest.mark.parametrize("page", PAGES)
def test_page(browser, page, width):
    """No error on the console, no request that leaves the book, named controls, no empty first
    sheet on paper, no text of a figure cut, over another or, on a phone, under ten pixels. With all
    folds open: no sideways scroll, no cell cut on a wide screen, readable words in both themes,
    nothing that axe-core calls serious or critical."""
    phone, article = width < 500, "document.querySelector('.bd-article')"
    browser.size(width, touch=phone)
    browser.open(address(page))
    browser.run(CHECKS)
    browser.run("window.MathJax?.startup.promise.then(() => 0)")
    faults = browser.run(f"checks.crowded({article})")[:4] + browser.run("checks.names()")[:6]
    if phone:
        faults += browser.run(f"checks.tiny({article}, 10)")
    else:
        if (tall := browser.run(f"{article}.scrollHeight") / SCREEN) > SCREENS:
            faults.append(f"{tall:.1f} screens long, at most {SCREENS} are readable")
        sheet = base64.b64decode(browser.call("Page.printToPDF", pageRanges="1")["data"])
        # an empty one has about 1,100 bytes, a line of words with its font some 10,000
        if len(sheet) < 5_000:
            faults.append("the first sheet is empty")
    browser.run(f"document.head.insertAdjacentHTML('beforeend', '{STILL}')")
    browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    for wide in (width,) if phone else (768, 1440, width):
        browser.size(wide, touch=phone)
        browser.run("new Promise((done) => setTimeout(done, 150))")
        if actual := browser.run("checks.wide()"):
            faults.append(f"{wide} px: {actual}")
        for theme in ("light", "dark") if phone else ("dark", "light"):
            browser.run(
                "document.documentElement.dataset.theme = document.documentElement.dataset.mode ="
                f" '{theme}'"
            )
            faults += [
                f"{wide} px, {theme}: contrast {fault}"
                for fault in browser.run("checks.contrast()")[:6]
            ]
            if wide >= 1280:
                faults += [
                    f"{wide} px, {theme}: {fault}" for fault in browser.run("checks.cut()")[:6]
                ]
    browser.run(AXE + "; 0")
    assert browser.faults() + faults + browser.run(SERIOUS) == []


def words_of(page: str) -> int:
    text = (HTML / "_sources" / page).with_suffix(".md").read_text()
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(
        r"```\{(code-cell|sentence|explorable|literalinclude)\}.*?```", "", text, flags=re.S
    )
    text = re.sub(r"```\{math\}.*?```|\$\$.*?\$\$", "", text, flags=re.S)
    text = re.sub(r"\{(?:value|said)\}`[^`]*`", "", text)
    text = re.sub(r"\{(?:claim|state)\}`([^`<]*)<[^`]*`", r"\1", text)
    return len(re.findall(r"[A-Za-zÀ-ž][\w'’-]*", text))


def test_the_book_is_short():
    """Words of the chapters, code and formulas left out, and those that stored numbers fill in."""
    import sentences

    count = {
        page: words_of(page)
        for page in PAGES
        if (HTML / "_sources" / page).with_suffix(".md").exists()
    }
    long = {page: n for page, n in count.items() if n > WORDS_OF_A_PAGE}
    assert not long
    filled = sum(len(sentences.say(name, s).split()) for name, s in sentences.read().items())
    assert sum(count.values()) + filled <= WORDS


@pytest.mark.parametrize("page", PAGES)
def test_weight(page):
    """All that a page loads, formulas left out; a page without any loads nothing for them."""
    text = (HTML / page).read_text()
    loaded = re.findall(r'(?:src|href)="([^"#?]+\.(?:js|css|woff2?|svg|png))', text)
    assert ('class="math' in text) == any("mathjax" in name for name in loaded)
    files = {
        (HTML / page).parent.joinpath(name).resolve() for name in loaded if "mathjax" not in name
    }
    assert (HTML / page).stat().st_size + sum(
        f.stat().st_size for f in files if f.exists()
    ) <= WEIGHT


HELD_OUT = {
    "regal/test.html": ["Gap to the best known or the bound"],
    "mcm/why.html": [
        "Sixteen held-out graphs",
        "Sixteen graphs with headroom",
        "Twelve wide graphs",
    ],
}
"""Page -> how the captions of the tables begin by which claims are decided."""


@pytest.mark.parametrize("page", HELD_OUT)
def test_held_out_tables_are_open(page):
    """Catches one that lies folded beneath its name."""
    text = re.sub(r"<b>.*?</b> ", "", (HTML / page).read_text())
    for caption in HELD_OUT[page]:
        before = text[: text.index(f"<caption>{caption}")]
        assert before.rfind('<details class="lm-fold') <= before.rfind("</details>"), caption


def state(browser, name: str) -> dict[str, str]:
    """What the explorable has written into the address."""
    actual = browser.run(
        "Object.fromEntries(new"
        f" URLSearchParams(decodeURIComponent(location.hash).replace('#{name}:', '')))"
    )
    return dict(actual)


def said(browser, name: str) -> str:
    return browser.run(f"document.querySelector('#play-{name} .lm-words').textContent")


def slide(browser, name: str, slider: str, key: str, code: int) -> None:
    browser.run(f"document.querySelector('#play-{name} [data-name={slider}]').focus()")
    browser.key(key, code)


EXPLORABLES = {
    "layouts": ("index.html", "step"),
    "game": ("mmap/play.html", "capacity"),
    "alexnet": ("mmap/play.html", "price"),
    "chips": ("mcm/play.html", "link"),
    "race": ("regal/play.html", "op"),
}


@pytest.fixture(params=EXPLORABLES)
def explorable(browser, request):
    page, slider = EXPLORABLES[request.param]
    browser.size(1280)
    browser.open("about:blank")
    browser.open(address(page))
    return browser, request.param, page, slider


def test_explorable_by_keys(explorable):
    """Home, End and the arrows move a slider; the words change; the address brings the state back;
    nothing fails."""
    browser, name, page, slider = explorable
    slide(browser, name, slider, "Home", 36)
    at_home, words = state(browser, name), said(browser, name)
    slide(browser, name, slider, "ArrowRight", 39)
    moved = state(browser, name)
    slide(browser, name, slider, "End", 35)
    at_end = state(browser, name)
    assert at_home != moved != at_end
    last = said(browser, name)
    assert last and (last != words or name in ("game", "race")), "what is said follows the slider"
    browser.open("about:blank")
    browser.open(address(page, browser_hash(name, at_end)))
    assert state(browser, name) == at_end
    if name != "race":
        assert said(browser, name) == last
    assert browser.faults() == []


def browser_hash(name: str, values: dict[str, str]) -> str:
    return f"{name}:{urlencode(values)}"


def test_explorable_plays_and_stops(explorable):
    """The play button moves it on, and a second press stops it."""
    browser, name, *_ = explorable
    before = said(browser, name)
    play = (
        f"[...document.querySelectorAll('#play-{name} button')].find((b) =>"
        " b.textContent.startsWith('▶'))"
    )
    browser.run(f"(window.play = {play}).click()")
    browser.run("new Promise((done) => setTimeout(done, 700))")
    browser.run("play.getAttribute('aria-pressed') === 'true' && play.click()")
    assert said(browser, name) != before
    still = said(browser, name)
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert said(browser, name) == still
    assert browser.faults() == []


def test_explorable_prints_a_picture(explorable):
    """On paper there is a picture in the place of the controls."""
    browser, name, *_ = explorable
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    shown = browser.run(
        "['.lm-fallback > :is(svg, .lm-bars)', '.lm-live']"
        f".map((s) => document.querySelector('#play-{name} ' + s).checkVisibility())"
    )
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert shown == [True, False]


def test_explorable_on_a_phone(browser):
    """Text is at least ten pixels tall, and what is touched at least 24 wide and tall."""
    for name, (page, _) in EXPLORABLES.items():
        browser.size(390, touch=True)
        browser.open(address(page))
        browser.run(CHECKS)
        small, targets = browser.run(
            f"checks.small(document.querySelector('#play-{name}'), 10, 22)"
        )
        assert (name, small, targets) == (name, 0, 0)


def test_the_game_by_mouse_and_keys(browser):
    """Actions, undo, keys after a click on the picture, and the watched agent; a game that follows
    the agent's moves ends at the agent's return."""
    browser.size(1280)
    browser.open(address("mmap/play.html"))
    browser.click("#play-game [data-action='2']")
    once = state(browser, "game")["moves"]  # forced moves go by themselves
    browser.run("document.querySelector('#play-game [data-undo]').focus()")
    browser.key("d", 68)
    twice = state(browser, "game")["moves"]
    assert set(twice) == {"D"} and len(twice) > len(once) > 0
    browser.click("#play-game [data-undo]")
    assert state(browser, "game")["moves"] == once
    browser.run("document.activeElement.blur()")
    browser.click("#play-game .lm-picture svg")  # after which the caption promises the keys too
    browser.key("d", 68)
    assert state(browser, "game")["moves"] == twice
    data = json.loads(browser.run("document.querySelector('#play-game script').textContent"))
    moves = "".join("CND"[action] for action in data["agent"]["actions"])
    browser.open("about:blank")
    browser.open(
        address("mmap/play.html", f"game:program=perceptron&capacity=3&bandwidth=1&moves={moves}")
    )
    assert f"you saved {100 * data['agent']['value']:.1f} %" in said(browser, "game")
    assert re.search(
        r"Move \d+, \w+, cost [\d.]+ points|No move cost anything", said(browser, "game")
    )
    own, _, actions = data["best"]["3 1"]
    browser.open("about:blank")
    browser.open(
        address(
            "mmap/play.html", "game:program=perceptron&moves=" + "".join("CND"[a] for a in actions)
        )
    )
    assert f"you saved {100 * own:.1f} %" in said(browser, "game")
    assert browser.faults() == []


def test_credits_by_mouse_and_keys(browser):
    """A credit for each op leads to a faster partition; one for the sample pushes nothing."""
    browser.size(1280)
    browser.open("about:blank")
    browser.open(address("mcm/why.html"))
    results = lambda: int(said(browser, "credits").split(" results")[0])  # noqa: E731
    begin = results()
    for _ in range(8):
        browser.click("#play-credits [data-do=follow]")
    assert results() > begin and state(browser, "credits")["kind"] == "flow"
    browser.run(
        "const menu = document.querySelector('#play-credits select'); menu.value = 'sample';"
        "menu.dispatchEvent(new Event('change'))"
    )
    pushed = (
        "[...document.querySelectorAll('#play-credits [data-push]')].map((e) =>"
        " Number(e.dataset.push))"
    )
    pushes = browser.run(pushed)
    assert set(pushes) == {0} and "pushes no op" in said(browser, "credits")
    assert browser.faults() == []


def test_chips_by_mouse_and_keys(browser):
    """An op is dragged against the dataflow, the rule is named, FIX repairs it; keys move an op;
    the optimum is one."""
    browser.size(1280, 1400)
    browser.open(address("mcm/play.html"))
    browser.click("#play-chips [data-start]")
    x, y = browser.centre("#play-chips [data-op='0'] rect")
    lane = browser.run(
        "document.querySelector('#play-chips .lm-live .lm-room').getBoundingClientRect().width"
    )
    browser.mouse("mousePressed", x, y)
    browser.mouse("mouseMoved", x + lane, y)
    browser.mouse("mouseReleased", x + lane, y)
    assert state(browser, "chips")["at"].startswith("1")
    assert (
        browser.run("document.querySelector('#play-chips .lm-broken li').dataset.rule") == "acyclic"
    )
    browser.click("#play-chips [data-repair=fix]")
    assert "Valid." in said(browser, "chips")
    browser.run("document.querySelector('#play-chips [data-op=\"1\"]').focus()")
    browser.key("End", 35)
    assert state(browser, "chips")["at"][1] == "3"
    assert browser.run("document.activeElement.dataset.op") == "1"
    browser.click("#play-chips [data-answers]")
    browser.click("#play-chips [data-show=optimum]")
    assert "This is the optimum" in said(browser, "chips")
    browser.click("#play-chips [data-show=policy]")
    assert said(browser, "chips").startswith("Valid.")
    assert browser.faults() == []


@pytest.mark.parametrize("page", PAGES)
def test_numbers_of_a_page_set_its_figures(browser, page):
    """By a click each; the figure then says the number, or shows it at a knob."""
    if 'class="lm-state-link' not in (HTML / page).read_text():
        return
    browser.size(1280)
    browser.open(address(page))
    links = "document.querySelectorAll('a.lm-state-link')"
    for i in range(browser.run(f"{links}.length")):
        words, target = browser.run(f"[{links}[{i}].textContent, {links}[{i}].hash]")
        browser.run(f"{links}[{i}].click()")
        browser.run("new Promise((done) => setTimeout(done, 200))")
        shown = browser.run(
            f"[...document.querySelector('#play-{target[1:].partition(':')[0]}')"
            ".querySelectorAll('.lm-words, output')].map((e) => e.textContent).join(' ')"
        )
        numbers = re.findall(r"\d+(?:\.\d+)?", words)
        assert set(numbers) <= set(re.findall(r"\d+(?:\.\d+)?", shown)), (words, target, shown)
    assert browser.faults() == []


def test_a_claim_by_mouse(browser):
    """A square of the ribbon opens its claim, whose link leads to a page that is there; a sentence's
    number leads to the state that shows it; on a phone all can be touched, and paper has a picture
    and the tables."""
    browser.size(1280, 1400)
    browser.open(address("claims.html"))
    browser.click("#play-claims [data-claim='mmap.drop-backup']")
    assert browser.run("location.hash") == "#mmap.drop-backup"
    link = browser.run(
        "document.querySelector('.lm-claim-where a:last-child').getAttribute('href')"
    )
    page, _, anchor = link.partition("#")
    assert f'id="{anchor}"' in (HTML / page).read_text()
    browser.open(address("index.html"))
    browser.click("a.lm-claim-link[href*='mmap.mean-speedup']")
    browser.run("new Promise((done) => setTimeout(done, 500))")
    assert browser.run("document.querySelector('.lm-claim-back').textContent").startswith("As pub")
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    shown = browser.run(
        "['#play-claims .lm-fallback', '.lm-live', '.lm-table']"
        ".map((s) => document.querySelector(s).checkVisibility())"
    )
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert shown == [True, False, True]
    browser.size(390, touch=True)
    browser.open(address("claims.html", "mmap.learning-matters"))
    browser.run(CHECKS)
    assert browser.run("checks.small(document.querySelector('#play-claims'), 10, 22)") == [0, 0]
    assert browser.faults() == []


def test_search_works_from_a_file(browser):
    """A word of the book is found without a server."""
    browser.size(1280)
    browser.open(address("search.html") + "?q=prefetch")
    browser.run(
        "new Promise((done) => { let n = 0; const t = setInterval(() => { if"
        " (document.querySelector('#search-results li') || ++n > 50) { clearInterval(t); done(); }"
        " }, 100); })"
    )
    assert browser.run("document.querySelectorAll('#search-results li').length") > 0
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert (
        "prefetch" in browser.run("document.querySelector('#search-results').textContent").lower()
    )
    browser.open(address("search.html") + "?q=MuZero")
    browser.run("new Promise((done) => setTimeout(done, 1500))")
    first = browser.run("document.querySelector('#search-results li a').getAttribute('href')")
    assert first.startswith("mmap/"), "a page of reference stands before the chapters"
    assert browser.faults() == []
