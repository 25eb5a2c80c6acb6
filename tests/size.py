"""The size of what there is to read: tokens of Python by folder, written to ``sizes.yml`` by ``make
size``."""

import tokenize
from pathlib import Path

ROOT, FILE = Path(__file__).resolve().parents[1], Path(__file__).with_name("sizes.yml")
FOLDERS = (
    "src/learned_mapping",
    "src/learned_mapping_companion",
    "data/builders",
    "book/_extensions",
    "tests",
)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
"""Tokens that are not read, or that make reading easier."""


def tokens(folder: str) -> int:
    """Tokens of all Python files in a folder, but for comments and layout."""
    count = 0
    for path in (ROOT / folder).rglob("*.py"):
        with path.open("rb") as stream:
            count += sum(token.type not in LAYOUT for token in tokenize.tokenize(stream.readline))
    return count


if __name__ == "__main__":
    FILE.write_text("".join(f"{folder}: {tokens(folder)}\n" for folder in FOLDERS))
