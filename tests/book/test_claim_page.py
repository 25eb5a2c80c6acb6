"""The page of a claim: its rule is Python's, and what it promises is there; without a built book.

It would catch a verdict that the page and the tables give differently, a question whose link opens
another answer, words that are cut, and a text that links to nothing.
"""

import functools
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import claim_links
import explorables
import pytest
import sentences

from learned_mapping.errors import InputError
from learned_mapping_companion.claims import (
    NOT_YET_RUN,
    State,
    answer,
    judge_all,
    read_claims,
    rows_of,
    state_of,
)
from learned_mapping_companion.measures import counting_rows

BOOK = Path(__file__).resolve().parents[2] / "book"
SCRIPTS = BOOK / "extra" / "explorables"
RULES = (SCRIPTS / "claim_rules.js").read_text()
CLAIMS = {claim.id: claim for claim in read_claims()}


@functools.cache
def rows(name):
    """The stored rows that a claim is asked of."""
    return rows_of(CLAIMS[name])


ASK = """(asked) => asked.map(([id, claim, state]) => {
  window.kept = window.kept || {};
  const own = data.claims.find((c) => c.id === id), artifact = own.artifact;
  if (own.rule && !kept[artifact]) kept[artifact] = lm.claimRules.rowsOf(data, artifact);
  const without = new Set(state.without);
  const rows = claim.rows || kept[artifact] || [];
  const a = lm.claimRules.answer(data, {...own, ...claim}, rows, {...state, without});
  return [a.verdict, a.measured];
})"""


@pytest.fixture(scope="module")
def page(browser):
    browser.open("about:blank")
    browser.run(RULES)
    browser.run(f"window.data = {json.dumps(explorables.data_of('claims'))}; 0")
    return browser


def asked(page, cases):
    """What JavaScript says of (claim, what is made up of it, state)."""
    told = [
        [claim.id, made, vars(state) | {"without": sorted(state.without)}]
        for claim, made, state in cases
    ]
    return json.loads(page.run(f"JSON.stringify(({ASK})({json.dumps(told)}))"))


def expected(claim, state, made):
    judged = answer(claim, made.get("rows") or rows(claim.id), state)
    found = judged.measured
    return judged.verdict, found and [found.value, found.low, found.high]


def differing(actual, cases, known):
    """The cases on which the two do not agree to 1e-6."""
    found = []
    for (claim, _, state), (verdict, ends), (published, own) in zip(cases, actual, known):
        same = (
            ends == own if own is None or ends is None else ends == pytest.approx(own, 1e-6, 1e-9)
        )
        if verdict != published or not same:
            found.append((claim.id, state, verdict, ends, published, own))
    return found


def changes(claim, rng):
    """A change that a reader can make, drawn at random."""
    known = rows(claim.id)
    methods = sorted({row["method"] for row in known})
    counting = counting_rows(claim.measure, known)
    instances = sorted({row["instance"] for row in counting} - {"all"})
    line = claim.reproduced[1 if claim.falls else 0]
    return rng.choice(
        [
            State(arm=rng.choice(methods)),
            State(rival=rng.choice(methods)),
            State(by=rng.choice(("games", "moves"))),
            State(training=rng.randint(1, 3)),
            State(line=line * rng.uniform(0.7, 1.3)),
            State(without=frozenset(rng.sample(instances, min(3, len(instances))))),
        ]
    )


def measurable():
    return [claim for claim in CLAIMS.values() if claim.measure is not None]


@pytest.mark.slow
def test_the_rule_in_the_page_is_that_of_the_tables(page):
    """Every claim as published, three leave-outs each, and two hundred changes drawn at random."""
    rng, cases = random.Random(0), [(claim, {}, State()) for claim in CLAIMS.values()]
    for claim in measurable():
        counting = counting_rows(claim.measure, rows(claim.id))
        names = sorted({row["instance"] for row in counting} - {"all"})
        for name in rng.sample(names, min(3, len(names))):
            cases.append((claim, {}, State(without=frozenset({name}))))
    for _ in range(200):
        claim = rng.choice(measurable())
        cases.append((claim, {}, changes(claim, rng)))
    known = [expected(claim, state, made) for claim, made, state in cases]
    assert differing(asked(page, cases), cases, known) == []
    assert sum(verdict == NOT_YET_RUN for verdict, _ in known) < len(known) / 2
    published = {item.claim.id: item.verdict for item in judge_all()}
    assert [verdict for verdict, _ in known[: len(CLAIMS)]] == list(published.values())


def made_up():
    """Claims of ours that no claim of the papers stands for: of more instances than there are, with
    a second line behind the first, and of a learner that has hardly learned on some instances."""
    many = replace(CLAIMS["mmap.better-than-random"], instances=999)
    lines = {"reproduced": (0.1, 0.3), "same_direction": (0.25, 1.0)}
    behind = replace(CLAIMS["mmap.evolution-above-random"], **lines)
    kept = ("instance", "method", "metric", "value", "low", "high", "n", "baseline")
    few = [{key: row[key] for key in kept if key in row} for row in rows(many.id)]
    for row in [row for row in few if row["metric"] == "updates"][::2]:
        row["value"] = 3.0
    return [
        (many, {"instances": 999}, State()),
        (behind, {"reproduced": [0.1, 0.3], "same": [0.25, 1.0]}, State()),
        (replace(many, instances=1), {"rows": few, "instances": 1}, State()),
    ]


FAULTS = {
    "another seed": ("key[0] = seed;", "key[0] = seed + 1;"),
    "an end one draw off": ("0.975 * DRAWS) - 1]", "0.975 * DRAWS)]"),
    "an end that does not count": ("low <= from && to <= high", "low < from && to < high"),
    "what a learner has learned": ("row.value < least", "row.value < 0"),
    "a row over all counted twice": ('if (row.instance === "all" &&', "if (false &&"),
    "too few instances": ("claim.instances > 1", "false"),
    "the lower of two lines": ("Math.min(low, least) <= from", "least <= from"),
    "one training for all": ("training > 0", "training > 99"),
    "a line that stays": (
        "verdict(lined(claim, state.line), measured)",
        "verdict(claim, measured)",
    ),
    "ends of runs": ("e.low === e.high", "true"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_pages_rule_is_seen(page, fault, faulty_cases):
    """Catches a comparison that would let one of these pass."""
    old, new = FAULTS[fault]
    assert RULES.count(old) == 1
    cases, known = faulty_cases
    try:
        page.run(RULES.replace(old, new))
        assert differing(asked(page, cases), cases, known)
    finally:
        page.run(RULES)
    assert differing(asked(page, cases), cases, known) == []


@pytest.fixture(scope="module")
def faulty_cases():
    small = ("mmap.better-than-random", "mmap.learning-matters", "mmap.search-matters-over-ppo")
    small += ("mcm.unconstrained-finds-nothing", "mcm.rl-over-random", "mcm.zero-shot-stalls")
    cases = [(CLAIMS[name], {}, State()) for name in small] + made_up()
    cases.append((CLAIMS["mcm.rl-over-random"], {}, State(line=1.3)))
    cases.append((CLAIMS["mcm.zero-shot-stalls"], {}, State(training=1)))
    return cases, [expected(claim, state, made) for claim, made, state in cases]


@pytest.fixture
def shown(browser, tmp_path):
    """Opens the explorable at an address; returns (browser, its data)."""

    def show(address="", width=1280):
        data = explorables.data_of("claims")
        data["claims"] = [claim | {"link": "#"} for claim in data["claims"]]
        text = json.dumps(data).replace("</", "<\\/")
        scripts = "".join(
            f'<script src="{(SCRIPTS / f"{name}.js").as_uri()}"></script>'
            for name in explorables.SCRIPTS["claims"]
        )
        path, style = tmp_path / "claims.html", (BOOK / "_static" / "book.css").as_uri()
        path.write_text(
            '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f'<link rel="stylesheet" href="{style}"><body style="max-width:688px"><figure'
            ' class="lm-explorable" id="play-claims" data-explorable="claims" data-label="claims">'
            f'<script type="application/json">{text}</script><figcaption></figcaption></figure>'
            f"{scripts}"
        )
        browser.size(width, 900, touch=width < 600)
        browser.open("about:blank")
        browser.open(path.as_uri() + (f"#{address}" if address else ""))
        return data

    yield show
    assert browser.faults() == []


def go(browser, address: str) -> None:
    browser.run(
        "new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), {once: true});"
        f" location.hash = {json.dumps(address)}; setTimeout(done, 2000); }})"
    )


def chip(browser) -> str:
    return browser.run("document.querySelector('.lm-chip').textContent")


FAULTS_OF_LAYOUT = """(() => {
  const svg = document.querySelector('.lm-picture svg'), box = svg.getBoundingClientRect(), faults = [];
  for (const t of svg.querySelectorAll('text')) {
    const r = t.getBoundingClientRect();
    if (r.width && (r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1 || r.top < box.top - 1)) faults.push(`cut: ${t.textContent}`);
  }
  for (const e of document.querySelectorAll('.lm-live *')) {
    const r = e.getBoundingClientRect();
    if (r.right > innerWidth + 1) faults.push(`wide: ${e.className}`);
    if (e.matches('a, button, select, input') && r.width && Math.min(r.width, r.height) < 23.5) faults.push(`small: ${e.textContent}`);
  }
  return faults;
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_every_claim_has_a_page_without_a_fault_of_layout(browser, shown, width):
    """Nothing is cut or too small to touch; each page opens with the published verdict; a learner's
    claim shows the strongest that learns nothing as a ring, and asks of it first; most pages are
    one screen high."""
    data, tall = shown(width=width), []
    for claim in data["claims"]:
        go(browser, claim["id"])
        assert chip(browser) == claim["verdict"], claim["id"]
        assert browser.run(FAULTS_OF_LAYOUT) == [], claim["id"]
        tall.append(browser.run("document.querySelector('.lm-live').offsetHeight"))
        asked = browser.run(
            "[...document.querySelectorAll('.lm-claim-asked li')].map((li) => li.textContent)"
        )
        assert len(asked) <= 6
        if claim.get("rival"):
            assert browser.run("document.querySelectorAll('.lm-picture .lm-hollow').length")
            assert claim["rival"]["method"] in asked[0], claim["id"]
    assert width < 600 or sum(height <= 860 for height in tall) >= 40


@pytest.mark.slow
def test_a_question_opens_the_answer_that_it_gives(browser, shown):
    """Every question of every claim, by its link; nothing is cut or too small to touch there."""
    followed = 0
    for claim in shown()["claims"]:
        go(browser, claim["id"])
        for address, words in browser.run(
            "[...document.querySelectorAll('.lm-claim-asked a')].map((a) => [a.getAttribute('href'),"
            " a.parentElement.textContent.slice(a.textContent.length)])"
        ):
            go(browser, address)
            promised, number = re.fullmatch(
                r" +([a-z ]+), (.*?)(?: \(.*turns? it\))?", words
            ).groups()
            assert chip(browser) == f"{promised}, by the same rule", address
            assert browser.run(FAULTS_OF_LAYOUT) == [], address
            assert browser.run("document.querySelector('.lm-claim-number').textContent") == number
            followed += 1
    assert followed > 80


def test_a_claim_is_taken_apart_by_hand(browser, shown):
    """By key and by click an instance leaves, and Back brings it in again; what is changed says so
    and leads back; the arrows walk the ribbon; an address of nonsense draws a claim."""
    shown("mmap.better-than-random")
    assert chip(browser) == "reproduced"
    browser.run("document.querySelector('.lm-picture svg').focus()")
    for name, code in (("ArrowDown", 40), ("x", 88)):
        browser.key(name, code)
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert "without=" in browser.run("location.hash")
    assert chip(browser).endswith(", by the same rule")
    assert "As published: reproduced" in browser.run(
        "document.querySelector('.lm-claim-back').textContent"
    )
    browser.run("history.back()")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run("location.hash") == "#mmap.better-than-random"
    assert chip(browser) == "reproduced"
    browser.run("document.querySelector('.lm-square[aria-current]').focus()")
    browser.key("ArrowRight", 39)
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert browser.run("location.hash") == "#mmap.evolution-above-random"
    shown("mmap.learning-matters?rival=edit-search")
    assert browser.run("document.querySelector('.lm-claim-adds').textContent") == "", (
        "against the strongest itself a weaker one would answer"
    )
    for address in ("nothing?arm=%%%", "mmap.mean-speedup?arm=nobody", "mmap.fig7", "?&&="):
        shown(address)
        assert chip(browser) in ("reproduced", f"{NOT_YET_RUN}, by the same rule"), address


def test_a_text_that_links_to_no_answer_is_refused():
    """Catches a link to a claim that is gone, to rows that nobody has, and to a word that no
    address has."""
    assert claim_links.parts_of("mmap.better-than-random") == ("reproduced",) + (
        "mmap.better-than-random",
    )
    words, address = claim_links.parts_of("it ties <mcm.rl-over-random?rival=sa-balanced>")
    assert (words, address) == ("it ties", "mcm.rl-over-random?rival=sa-balanced")
    for wrong in ("mmap.nothing", "mmap.mean-speedup?arm=nobody", "mmap.on-hardware?arm=muzero"):
        with pytest.raises(ValueError, match="mmap"):
            claim_links.parts_of(wrong)
    for query in ("method=x", "line=high", "training=first"):
        with pytest.raises(InputError):
            state_of(query)


@pytest.mark.slow
def test_numbers_of_sentences_lead_to_states_that_show_them():
    """Catches a link whose state shows another number than the text prints."""
    links = 0
    for name, sentence in sentences.read().items():
        printed = sentences.say(name, sentence, linking=True)
        assert re.sub(r"\{claim\}`(\S+) <[^>]+>`", r"\1", printed) == sentences.say(name, sentence)
        for text in claim_links.ROLE.findall(printed):
            words, address = claim_links.parts_of(text)
            found = claim_links.judged(address.split("?")[0], state_of(address.partition("?")[2]))
            value = found.measured.value
            size = len(words.partition(".")[2])
            shares = (value, 100 * (value - 1), 100 * (1 - value), 1 / value if value else 0)
            assert any(abs(float(words) - share) <= 0.006 * 10 ** (2 - size) for share in shares), (
                text
            )
            links += 1
    assert links >= 40
