"""Every sentence with numbers still holds, is in a page, and would be missed if it did not hold."""

import re
from pathlib import Path

import explorable_data
import explorable_pictures
import notebooks
import pytest
import sentences
import values

from learned_mapping import mcm, mmap, regal
from learned_mapping.mmap.agent.config import LONG
from learned_mapping.problem import RULE, SEARCH
from learned_mapping_companion import results

BOOK = Path(__file__).resolve().parents[2] / "book"


SENTENCES = sentences.read()
PAGES = "".join(
    path.read_text()
    for path in sorted(BOOK.rglob("*.md"))
    if not {"_build", ".ipynb_checkpoints"} & set(path.parts)
)


@pytest.mark.parametrize("name", SENTENCES)
def test_it_holds(name):
    text = sentences.say(name, SENTENCES[name])
    assert text and "{" not in text and "nan" not in text.lower().split()


def test_each_is_said_once_or_more_and_none_is_unknown():
    assert set(re.findall(r"\{(?:sentence|said)\}[ `](\S+?)[`\n]", PAGES)) == set(SENTENCES)


def test_one_that_no_longer_holds_is_refused():
    """As when a result is made anew and turns out otherwise."""
    wrong = {**SENTENCES["mmap.news"], "cases": [{"holds": "prod < 1", "text": "no"}]}
    with pytest.raises(ValueError, match="no case holds"):
        sentences.say("wrong", wrong)


def test_one_whose_rows_are_missing_is_refused():
    numbers = {"lost": {"artifact": "mmap.table3", "rows": {"method": "nobody"}}}
    with pytest.raises(ValueError, match="lost = None"):
        sentences.say("wrong", {"numbers": numbers, "cases": [{"holds": "lost > 0", "text": "no"}]})


def test_the_readme_says_the_same():
    """Its three sentences of news are those of the front page, and its picture shows the stored
    layouts."""
    readme = " ".join((BOOK.parent / "README.md").read_text().split())
    for name in ("claims.news", "mmap.news", "mcm.news", "regal.news"):
        assert sentences.say(name, SENTENCES[name]) in readme
    picture = explorable_pictures.readme_picture(explorable_data.layouts())
    assert (BOOK / "layouts.svg").read_text() == picture, (
        "write it anew with `python book/build.py --readme-picture`"
    )


def test_every_name_stands_once():
    """A second entry of one name would silently take the place of the first."""
    names = re.findall(r"^(\S+):$", sentences.PATH.read_text(encoding="utf-8"), re.M)
    assert len(names) == len(set(names)) == len(sentences.read())


WITHOUT_LEARNING = {
    **{name: method for problem in (mmap, mcm, regal) for name, method in problem.METHODS.items()},
    **{f"{name}-prod": method for name, method in mmap.METHODS.items()},
}
"""Method -> what it is; ``-prod`` falls back on the compiler's mapping."""
HEADLINES = {
    "mmap.news mmap.ten": [("mmap.fresh", 1, "speedup", "all")],
    "mmap.fresh": [("mmap.fresh", 1, "return", "all")],
    "mcm.news mcm.ten mcm.fresh": [("mcm.fresh", 1, "over_optimum", "all")],
    "regal.news regal.simple": [
        ("regal.test", -1, "gap_percent", kind) for kind in ("synthetic-runtime", "traced-runtime")
    ],
}
"""Sentences that say how a learner does -> the stored rows by which its rivals are judged, and
which way is better."""
CALLED = {
    "edit-search": "edit-search",
    "priced": "prices on memory",
    "priced-prod": "prices on memory",
    "edit-search-prod": "edit-search",
    "edit-search-repeats": "edit-search-repeats",
    "sa-balanced": "annealing from an even",
    "climb": "climb",
    "spectral-local-search": "local search that begins there",
}


@pytest.mark.parametrize(
    ("name", "rows"),
    [(name, rows) for names, of in HEADLINES.items() for name in names.split() for rows in of],
)
def test_the_strongest_rival_without_learning_is_named(name, rows):
    """By the stored rows, so that a rival that a new table makes the strongest has to be named too.
    Catches a learner that is shown beside the rivals it beats alone. Exact solvers are no rivals of
    a learner's kind."""
    artifact, sign, metric, instance = rows
    values = {
        row["method"]: sign * row["value"]
        for row in results.stored(artifact)["rows"]
        if (row["metric"], row["instance"]) == (metric, instance)
        and (method := WITHOUT_LEARNING.get(row["method"])) and method.kind in (RULE, SEARCH)
    }  # fmt: skip
    strongest = max(values, key=values.get)
    assert CALLED[strongest] in sentences.say(name, SENTENCES[name]).lower(), strongest


def test_the_strongest_rival_is_in_the_pictures_of_ten_minutes():
    """Catches a ladder of bars without the method that ties with the learner, or is above it."""
    for picture, name in (
        ("chips-ladder", "a climb by pushes"),
        ("race-ladder", "then local search"),
    ):
        assert name in explorable_pictures.PICTURES[picture](None, "")


SAID_ONCE = {
    "mmap/parts.md": ["What `--size paper` lacks", "no new values"],
    "mmap/agent.md": ["nothing behind it is seen"],
    "mcm/learners.md": ["of them over the paper's 36", "{math}`T = 2`"],
    "mcm/why.md": ["none over the paper's 36"],
    "mcm/silicon.md": ['"uniform", "pearson"'],
    "regal/learner.md": [
        "layer norm",
        ": a skip",
        'shared.json")["noise"]["5000"]',
        '["curve"][0]["entropy"]',
        'traced-memory-0.json")["training_graphs"]',
    ],
    "sentences.yml": ["a ceiling: the search over six numbers"],
}
"""Page -> what differs from a paper, or limits what a table can tell, and is said there."""


def test_what_differs_from_the_papers_is_said_in_one_place():
    """Catches a difference that a page keeps silent about, and one that stands in two places, of
    which one gets old."""
    texts = {
        path.relative_to(BOOK).as_posix(): " ".join(path.read_text().split())
        for path in (*sorted(BOOK.rglob("*.md")), sentences.PATH)
        if not {"_build", ".ipynb_checkpoints"} & set(path.parts)
    }
    for page, facts in SAID_ONCE.items():
        for fact in facts:
            assert [(name, text.count(fact)) for name, text in texts.items() if fact in text] == [
                (page, 1)
            ], fact


MOST_WORDS, MEAN_WORDS, MOST_NUMBERS = 40, 18, 2
NUMBERS_OF_A_PAGE = {"index": 12, "ten-minutes": 35}
SENTENCES_OF_AN_ITEM, ABOVE_A_TABLE = 3, 4
NUMBER = re.compile(r"\{[^}]*\}|(?<![\w`.{])[-+−]?\.?\d[\d,]*(?:\.\d+)?")


def parted(text: str) -> list[str]:
    """The sentences of a text; a colon or semicolon before a new clause counts as an end."""
    plain = " ".join(text.replace("**", "").split())
    return re.split(r"(?<=[.!?;:])\s+(?=[A-Z`*0-9\"({])", plain)


@pytest.mark.parametrize("page", ["index", "ten-minutes"])
def test_the_first_pages_are_short_of_breath_and_of_numbers(page):
    """By the page as its notebook has it, with the sentences' numbers filled in; headings and lists
    part sentences."""
    words = "\n".join(
        cell.source for cell in notebooks.notebook(page).cells if cell.cell_type == "markdown"
    )
    plain = re.sub(r"`[^`]*`|^#.*$|^\|.*$", "", re.sub(r"\]\([^)]*\)", "]", words), flags=re.M)
    said = [
        line
        for part in re.split(r"\n\s*(?:\n|[-*\d])", plain)
        for line in parted(" ".join(part.split()))
        if line
    ]
    assert [line for line in said if len(line.split()) > MOST_WORDS] == []
    assert sum(len(line.split()) for line in said) / len(said) <= MEAN_WORDS
    cited = re.sub(r"\([\w .;]+, \d{4}[^)]*\)|^\d\.", "", plain, flags=re.M)
    assert len(re.findall(r"\d[\d,.]*", cited)) <= NUMBERS_OF_A_PAGE[page]


def test_an_item_of_the_front_page_has_three_sentences():
    """What the paper says, what we find, so what."""
    items = re.findall(r"^\d\. .*\{said\}`(\S+)`$", (BOOK / "index.md").read_text(), re.M)
    assert len(items) == 3
    for name in items:
        said = sentences.say(name, SENTENCES[name])
        assert len(re.split(r"(?<=[.!?])\s+(?=[A-Z*])", said)) <= SENTENCES_OF_AN_ITEM, name


CHAPTERS = sorted(
    path.relative_to(BOOK).as_posix()
    for path in BOOK.rglob("*.md")
    if not {"_build", ".ipynb_checkpoints"} & set(path.parts)
)
CODE = re.compile(r"^(```|~~~).*?^\1$|^#.*$|^\|.*$|^\(.*\)=$|\A---\n.*?\n---\n", re.S | re.M)
TABLE = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?:(?!^```).)*?(?:show|listing|_table|settings\.\w+)\(|^\|",
    re.S | re.M,
)
"""Where a table begins: a cell that shows one, or one that is written out."""


def plain_words(text: str) -> str:
    """A page's own words: links by theirs, what the code fills in as one word."""
    text = re.sub(r"\{(?:doc|claim|state)\}`([^`<]+?) <[^`]*>`", r"\1", text)
    text = re.sub(r"\{(?:said|cite:?\w*)\}`[^`]*`|\]\([^)]*\)", "", text)
    return re.sub(r"(?:\{[\w:]+\})?`[^`]*`", "X", text)


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_chapter_can_be_read_aloud(page):
    """By a chapter's own text, which no sentence of the list above is: no sentence is longer than a
    breath, and most are shorter by half."""
    text = plain_words(CODE.sub("\n\n", (BOOK / page).read_text()))
    parts = re.split(r"\n\s*(?:\n|[-*] |\d+\. )", text)
    said = [line.split() for part in parts for line in parted(part) if line]
    assert [" ".join(line) for line in said if len(line) > MOST_WORDS] == []
    assert sum(map(len, said)) <= MEAN_WORDS * len(said)


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_paragraph_above_a_table_leaves_the_numbers_to_it(page):
    """With the sentences' numbers filled in: at most four."""
    text = re.sub(
        r"```\{sentence\} (\S+)\n```|\{said\}`(\S+)`",
        lambda name: (
            sentences.say(name[1] or name[2], SENTENCES[name[1] or name[2]]) + "\n" * bool(name[1])
        ),
        (BOOK / page).read_text(),
    )
    for table in TABLE.finditer(text):
        above = re.split(r"\n\s*(?:\n|#|[-*] |\d+\. )", text[: table.start()].rstrip())[-1]
        if above.startswith(("```", "|", ":")) or above.endswith("```"):
            continue
        named = re.sub(r"(?:Figure|Tables?|Section|Eq\.|[Pp]apers?|Algorithm) \d+", "", above)
        filled = plain_words(re.sub(r"\{value\}`[^`]*`", "7", named))
        assert len(NUMBER.findall(filled)) <= ABOVE_A_TABLE, above


def test_they_can_be_read_aloud():
    """No sentence has more than two numbers, nor more words than one breath; intervals belong in
    tables."""
    said = [
        line
        for entry in SENTENCES.values()
        for case in entry["cases"]
        for line in parted(case["text"])
    ]
    faults = [line for line in said if len(line.split()) > MOST_WORDS]
    for line in said:
        plain = re.sub(r"`[^`]*`|(Figure|Tables?|Section|[Pp]aper) \d+", "", line)
        faults += [line] * (len(NUMBER.findall(plain)) > MOST_NUMBERS)
    assert faults == []
    assert sum(len(line.split()) for line in said) / len(said) <= MEAN_WORDS


def test_a_value_comes_from_the_code_or_from_a_result():
    """Would catch a role that prints a number wrongly, and an expression that fails without failing
    the build."""
    assert values.text_of('of("mmap.agent.config").LONG:,') == f"{LONG:,}"
    assert values.text_of('row("mmap.table3", "all", "muzero", "speedup"):.2f').startswith("1.")
    assert values.text_of('len(record("mcm/silicon.json")["candidates"])').isdigit()
    for wrong in ('row("mmap.table3", "all", "nobody", "speedup")', "open", 'of("nothing").LONG'):
        with pytest.raises(ValueError, match="value "):
            values.text_of(f"{wrong}:g")


@pytest.mark.parametrize("words", sorted(set(re.findall(r"\{value\}`([^`]+)`", PAGES))))
def test_every_value_of_the_pages_is_there(words):
    text = values.text_of(words)
    assert text and "nan" not in text and "object at" not in text
