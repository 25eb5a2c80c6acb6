"""The commands of `lmap` and their options. Nothing heavy is imported before a command runs.

A package adds commands by an entry point of the group `GROUP`: a module with ``commands.yml``
beside it.
"""

import argparse
import functools
import importlib
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from learned_mapping import __version__
from learned_mapping.errors import InputError, alternative
from learned_mapping.programs.json_io import read_yaml

PAPERS = ("mmap", "mcm", "regal")
LEAST = 1e-300  # Of an option that has to be above 0: a part of it is too.
TRUST = (
    "Files are checked and never executed. `trace` and `extract` import and run the module you"
    " name: name none that you would not run. `make --cluster` sends code to a Ray cluster, which"
    " asks nobody for a password: keep its ports to yourself. The book's page on trust says more."
)
"""The warning that a user needs before files and machines of others come into it."""


class _MethodsHelp(argparse.Action):
    """Help that ends with a line for each method of the paper named before it."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: str | None = None
    ) -> NoReturn:
        paper = getattr(namespace, "paper", None)
        if paper not in PAPERS:
            parser.print_help()
            print("\nOptions of one paper alone, and its methods: lmap solve mmap|mcm|regal --help")
            raise SystemExit(0)
        from learned_mapping.problem import problem

        _help_of(paper, parser)
        name = "silicon" if getattr(namespace, "hardware", None) == "silicon" else paper
        chosen = problem(name)
        for title, kinds in GROUPS.items():
            methods = {n: m for n, m in chosen.methods().items() if m.kind in kinds}
            lines = [f"  {n:<28} {m.description}{chosen.note_of(n)}" for n, m in methods.items()]
            if lines:
                print(f"\n{title} of {name}:", *lines, sep="\n")
        print("\nor your own: --method FILE.py:FUNCTION")
        raise SystemExit(0)


GROUPS = {
    "rules": ("rule",),
    "searches": ("search", "exact"),
    "agents of the paper, and ours,": ("paper's learner", "our learner"),
}
"""Headings of the methods, and the kinds of `problem.KINDS` under each."""


def _help_of(paper: str, parser: argparse.ArgumentParser) -> None:
    """Prints the help with the options of this paper and of all; those of others say so by their
    first words, as in ``mcm, regal: ...``."""
    helps = {action: action.help for action in parser._actions}
    for action, text in helps.items():
        owners, colon, rest = (text or "").partition(": ")
        if colon and set(owners.split(", ")) <= set(PAPERS):
            action.help = rest if paper in owners.split(", ") else argparse.SUPPRESS
    try:
        parser.print_help()
    finally:
        for action, text in helps.items():
            action.help = text


class _Completion(argparse.Action):
    """Prints what makes a shell complete the commands and their options."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: str | None = None
    ) -> NoReturn:
        import shtab

        print(shtab.complete(parser, values))
        raise SystemExit(0)


class _Retired(argparse.Action):
    """An option that there was, which says what is there now."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        raise InputError(str(option), "", f"is gone: {self.const}")


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.register("action", "boolean", argparse.BooleanOptionalAction)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments as argparse reads them; it takes the value of ``--seconds=--`` for an empty
        list."""
        args = sys.argv[1:] if args is None else list(args)
        for argument in args:
            if argument.startswith("--") and argument.endswith("=--"):
                self.error(f"{argument[:-3]}: expected a value, got '--'")
            if self._subparsers is None and self.prefix_chars == "-":
                self._expect_known(argument)
        return super().parse_known_args(args, namespace)

    def _expect_known(self, argument: str) -> None:
        """Complains of an option of another name, before others that it leaves out."""
        name = argument.partition("=")[0]
        own = [flag for action in self._actions for flag in action.option_strings]
        if re.match("--[a-z]", name) and not any(flag.startswith(name) for flag in own):
            self.error(f"unrecognized arguments: {argument}{alternative(name, own)}")

    def error(self, message: str) -> NoReturn:
        help_command = f"lmap {' '.join(self.prog.split()[1:])} --help".replace("  ", " ")
        if choice := re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)$", message):
            message += alternative(choice[1], choice[2].replace("'", "").split(", "))
        raise InputError("", "", f"{message.removeprefix('argument ')} ({help_command})")


def _number(kind: type, what: str, low: float, high: float, bounds: str) -> Callable[[str], Any]:
    """An option's type: a number of a kind in [low, high], and how an error names the two."""

    def convert(text: str) -> Any:
        try:
            if not text.isascii() or "_" in text:
                raise ValueError
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is outside {bounds}")
        return value

    return convert


def integer(low: int, high: int) -> Callable[[str], int]:
    """An option's type: a whole number in [low, high]."""
    return _number(int, "a whole number", low, high, f"[{low}, {high}]")


def positive(high: float) -> Callable[[str], float]:
    """An option's type: a number above 0, from `LEAST` on, and at most `high`."""
    return _number(float, "a number", LEAST, high, f"[{LEAST:g}, {high:g}]")


def number(high: float) -> Callable[[str], float]:
    """An option's type: a number from 0 to `high`."""
    return _number(float, "a number", 0.0, high, f"[0, {high:g}]")


def names(text: str) -> tuple[str, ...]:
    """An option's type: names with commas between them."""
    parts = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "" in parts:
        raise argparse.ArgumentTypeError(f"expected names with commas between them, got {text!r}")
    return parts


TYPES: dict[str, Callable] = {
    "integer": integer,
    "positive": positive,
    "number": number,
    "names": lambda: names,
}


GROUP = "learned_mapping.commands"
FROM_CHECKOUT = {
    "artifacts": "every table and figure", "make": "regenerate tables and figures",
    "verify": "compute stored runs again", "fingerprint": "let methods play small frozen instances",
    "data": "the data sets", "extract": "a game from the TPU compiler",
    "price": "mappings priced by the TPU compiler",
}  # fmt: skip
"""Commands of the companion, which an installed package has not."""


def _late(package: str, place: str) -> Callable[[Any], int]:
    """A command whose module, of a package, is imported when it runs."""
    module, _, function = place.partition(".")
    return lambda options: getattr(importlib.import_module(f"{package}.{module}"), function)(
        options
    )


def _tables() -> dict[str, dict[str, Any]]:
    """The package of each table of commands, and the table: the library's own, and those of entry
    points."""
    tables = {"learned_mapping.cli": read_yaml(Path(__file__).with_name("commands.yml"))}
    for point in metadata.entry_points(group=GROUP):
        try:
            found = importlib.util.find_spec(point.value)
        except ModuleNotFoundError:
            found = None  # the companion, where the library is installed by itself
        if found is not None and found.origin is not None:
            tables[point.value] = read_yaml(Path(found.origin).with_name("commands.yml"))
    return tables


def _refused(name: str) -> Callable[[Any], int]:
    """A command of the companion where that is not there."""

    def run(options: Any) -> int:
        fault = (
            "needs a checkout of the project; an installed package has the methods and their"
            " networks"
        )
        raise InputError(f"lmap {name}", "", fault)

    return run


@functools.cache
def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(
        prog="lmap",
        description="How an ML program is mapped onto an accelerator: three papers, rerun.",
        epilog=TRUST,
    )
    parser.add_argument("--version", action="version", version=f"lmap {__version__}")
    words = 'print what makes a shell complete commands: eval "$(lmap --completion bash)"'
    shells = ["bash", "zsh", "tcsh"]
    parser.add_argument("--completion", action=_Completion, choices=shells, help=words)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    specs: dict[str, tuple[str, dict[str, Any]]] = {}
    for package, table in _tables().items():
        for name, spec in table.items():  # a command that is there already may run otherwise
            specs[name] = package, specs.get(name, ("", {}))[1] | spec
    for name, (package, spec) in specs.items():
        help, own_help = spec["help"], name == "solve"
        description = f"{help[0].upper()}{help[1:]}."
        command = commands.add_parser(
            name, help=help, description=description, add_help=not own_help
        )
        command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        command.set_defaults(run=_late(package, spec["run"]))
        if own_help:
            words = "this message, and the methods of a paper named before"
            command.add_argument("-h", "--help", action=_MethodsHelp, nargs=0, help=words)
        groups: dict[int, Any] = defaultdict(command.add_mutually_exclusive_group)
        for flags, settings in spec.get("options", {}).items():
            keywords = dict(settings)
            place = groups[keywords.pop("group")] if "group" in keywords else command
            if "type" in keywords:
                kind, *bounds = keywords["type"]
                keywords["type"] = TYPES[kind](*bounds)
            place.add_argument(*flags.split(), **keywords)
        for flag, instead in spec.get("retired", {}).items():
            gone = {"action": _Retired, "nargs": "?", "const": instead, "help": argparse.SUPPRESS}
            command.add_argument(flag, **gone)
    for name in [name for name in FROM_CHECKOUT if name not in specs]:
        help = f"{FROM_CHECKOUT[name]}; needs a checkout"
        command = commands.add_parser(name, help=help, add_help=False, prefix_chars="\0")
        command.add_argument("rest", nargs=argparse.REMAINDER)
        command.set_defaults(run=_refused(name))
    return parser
