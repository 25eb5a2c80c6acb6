"""The commands of `lmap` and their options. Nothing heavy is imported before a command runs."""

import argparse
import functools
import importlib
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from learned_mapping.errors import shown

PAPERS = ("mmap", "mcm", "regal")
TRUST = (
    "Files are checked and never executed. `trace` and `extract` import and run the module you name: name none that "
    "you would not run. `make --cluster` sends code to a Ray cluster, which asks nobody for a password: keep its "
    "ports to yourself. The book's page on trust says more."
)
"""What a user has to know before files and machines of others come into it."""
PROFILES = ("quick", "full", "paper")


class _MethodsHelp(argparse.Action):
    """Help that ends with a line for each method of the paper named before it."""

    def __init__(self, **options: Any):
        super().__init__(**options, nargs=0)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> NoReturn:
        parser.print_help()
        if getattr(namespace, "paper", None) in PAPERS:
            from learned_mapping.problem import problem

            print(f"\nmethods of {namespace.paper}:")
            for name, method in problem(namespace.paper).methods().items():
                print(f"  {name:<28} {method.description}")
        else:
            print("\nThe methods: lmap solve mmap|mcm|regal --help")
        raise SystemExit(0)


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, which takes the value of ``--seconds=--`` for an empty list."""
        args = sys.argv[1:] if args is None else list(args)
        for argument in args:
            if argument.startswith("--") and argument.endswith("=--"):
                self.error(f"{argument[:-3]}: expected a value, got '--'")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        text = shown(message.removeprefix("argument "), 2000)
        try:
            if sys.stderr is not None:
                help_command = f"lmap {' '.join(self.prog.split()[1:])} --help".replace("  ", " ")
                print(f"lmap: {text} ({help_command})", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass
        raise SystemExit(2)


def integer(low: int, high: int) -> Callable[[str], int]:
    """An option's type: a whole number in [low, high]."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is outside [{low}, {high}]")
        return value

    return convert


def positive(high: float) -> Callable[[str], float]:
    """An option's type: a finite number above 0 and at most `high`."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
        if not math.isfinite(value) or not 0 < value <= high:
            raise argparse.ArgumentTypeError(f"{text} is outside (0, {high:g}]")
        return value

    return convert


def names(text: str) -> tuple[str, ...]:
    """An option's type: names with commas between them."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "" in found:
        raise argparse.ArgumentTypeError(f"expected names with commas between them, got {text!r}")
    return found


def _late(module: str, function: str) -> Callable[[Any], int]:
    """A command whose module is imported when it runs."""

    def run(options: Any) -> int:
        return getattr(importlib.import_module(f"learned_mapping.cli.{module}"), function)(options)

    return run


@functools.cache
def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(prog="lmap", description="How an ML program is mapped onto an accelerator: three papers, rerun.",
                     epilog=TRUST)  # fmt: skip
    parser.add_argument("--version", action="version", version=f"lmap {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _experiment_commands(commands)
    _solution_commands(commands)
    _program_commands(commands)
    return parser


def _version() -> str:
    import learned_mapping

    return learned_mapping.__version__


def _add(
    commands: Any, name: str, help_text: str, run: Callable[[Any], int], **options: Any
) -> argparse.ArgumentParser:
    description = help_text[0].upper() + help_text[1:] + "."
    command = commands.add_parser(name, help=help_text, description=description, **options)
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    command.set_defaults(run=run)
    return command


def _experiment_commands(commands: Any) -> None:
    _add(
        commands,
        "artifacts",
        "every table and figure: what is stored, how old, fresh or stale",
        _late("experiments", "artifacts"),
    )
    make = _add(
        commands,
        "make",
        "regenerate tables and figures; runs already done are not redone",
        _late("experiments", "make"),
    )
    make.add_argument("ids", nargs="*", metavar="ID", help="such as regal.table1 (see: lmap artifacts)")
    make.add_argument("--all", action="store_true", help="every one")
    make.add_argument("--profile", choices=PROFILES, default="quick", help="how much work (default: quick)")
    make.add_argument("--seeds", type=integer(1, 10_000), help="runs per method and instance (default: the profile's)")
    where = make.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=integer(1, 1024), default=1, help="local processes (default: 1)")
    where.add_argument("--cluster", metavar="ADDRESS", help="a Ray cluster instead: HOST:PORT, or auto")
    make.add_argument(
        "--reuse-stale",
        action="store_true",
        help="use runs of methods that behave differently now too; the result shows as stale",
    )
    make.add_argument(
        "--minutes",
        type=positive(1e6),
        help="start no run that would end later than so long after now; exit 4 if any lack",
    )
    make.add_argument("--long", action="store_true", help="also the runs that take hours, such as a learner's")
    make.add_argument("--only", type=names, default=(), metavar="METHOD,...", help="the runs of these methods")
    make.add_argument("--instances", type=names, default=(), metavar="NAME,...", help="the runs on these instances")

    verify = _add(
        commands, "verify", "compute stored runs again and compare value by value", _late("experiments", "verify")
    )
    verify.add_argument("--sample", type=integer(1, 100_000), default=10, help="runs drawn (default: 10)")
    verify.add_argument("--seed", type=integer(0, 2**32 - 1), default=0, help="of the draw (default: 0)")

    fingerprint = _add(
        commands,
        "fingerprint",
        "let methods play small frozen instances; a stored result is stale once they do otherwise",
        _late("experiments", "fingerprint"),
    )
    fingerprint.add_argument("keys", nargs="*", metavar="PROBLEM/METHOD", help="such as regal/brkga (default: all)")
    fingerprint.add_argument("--check", action="store_true", help="store nothing; exit 1 where any has changed")


def _solution_commands(commands: Any) -> None:
    solve = _add(commands, "solve", "map a program or a graph of your own", _late("solutions", "solve"), add_help=False)
    solve.add_argument(
        "-h", "--help", action=_MethodsHelp, help="this message, and the methods of a paper named before"
    )
    solve.add_argument("paper", choices=PAPERS)
    solve.add_argument("instance", metavar="INSTANCE", help="a program (mmap) or a graph (mcm, regal)")
    solve.add_argument("--method", required=True, help="such as greedy-tuned, optimum, brkga")
    solve.add_argument("--out", required=True, metavar="SOLUTION.json", help="the solution's file, .json or .json.gz")
    solve.add_argument("--seconds", type=positive(1e7), help="time limit")
    solve.add_argument(
        "--samples", "--evaluations", type=integer(1, 10**12), help="limit in evaluations of the cost model"
    )
    solve.add_argument("--seed", type=integer(0, 2**32 - 1), default=0, help="of all random choices (default: 0)")
    _hardware_options(solve)
    solve.add_argument("--start", choices=("greedy-careful",), help="mcm: a search judges this partition first")
    solve.add_argument("--repair", choices=("engine", "cp-sat"), help="mcm: what makes a candidate valid (default: the "
                       "compiled engine; CP-SAT takes seconds a repair, and a batch is finished)")  # fmt: skip
    solve.add_argument("--strength", choices=("chain", "general"), help="mcm: the rule a repair keeps, the chain rule "
                       "or Eq. 4 itself (default: chain)")  # fmt: skip
    solve.add_argument(
        "--alone",
        action="store_true",
        help="the method as it is: without, a search or a learner that ends behind a simple rule gives the rule's",
    )
    solve.add_argument(
        "--checkpoint",
        metavar="FILE.npz",
        help="muzero and its kind, rl, finetune: keep the learner's state here, and go on from it",
    )
    solve.add_argument("--objective", choices=("runtime", "memory"), help="regal: what to minimise (default: runtime)")

    check = _add(commands, "check", "judge a solution by the independent validator", _late("solutions", "check"))
    check.add_argument(
        "files",
        nargs="+",
        metavar="[mmap|mcm|regal] INSTANCE [SOLUTION]",
        help="a solution with its instance and problem, or an instance alone",
    )
    check.add_argument("--all", action="store_true", help="list every violation, not the first 20 of each rule")
    _hardware_options(check, chips=False)

    show = _add(commands, "show", "draw a program, a graph or a solution", _late("solutions", "show"))
    show.add_argument("instance", metavar="INSTANCE")
    show.add_argument("solution", metavar="SOLUTION", nargs="?")
    show.add_argument("--out", required=True, metavar="FILE", help="ends in .svg, .png, .pdf or .html")


def _hardware_options(command: argparse.ArgumentParser, *, chips: bool = True) -> None:
    command.add_argument(
        "--hardware",
        choices=("analytical", "silicon"),
        help="mcm: what judges a partition, the cost model or the simulated chips (default: analytical)",
    )
    if chips:
        command.add_argument("--chips", type=integer(1, 4096), help="mcm: chips in the package (default: 36)")
        command.add_argument(
            "--fold",
            action="store_true",
            help="mcm: first put weights that are ops of their own, and cheap shared ops, where they are used",
        )
        command.add_argument("--devices", type=integer(1, 8), help="regal: devices (default: 2)")
    command.add_argument(
        "--transfers", choices=("rendezvous", "free"), help="regal: what a transfer blocks (default: rendezvous)"
    )
    command.add_argument("--memory-gib", type=positive(1e6), help="regal: memory of a device in GiB (default: 16)")


def _program_commands(commands: Any) -> None:
    trace = _add(commands, "trace", "a graph, or a program, from your own JAX function", _late("programs", "trace"))
    trace.add_argument(
        "function",
        metavar="MODULE:FUNCTION",
        help="a function, or one without arguments that returns (function, arguments)",
    )
    trace.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="DTYPE[SHAPE]",
        help="an argument, such as f32[32,224,224,3]; repeat",
    )
    trace.add_argument("--parameters", default="", metavar="I,J", help="positions of the arguments that are parameters")
    trace.add_argument("--name", help="of the graph (default: the function's)")
    trace.add_argument("--unroll-limit", type=integer(1, 10**6), help="operations that unrolling one loop may make")
    trace.add_argument("--program", action="store_true", help="write a scheduled program for `lmap solve mmap`")
    trace.add_argument("--out", required=True, metavar="FILE.json")

    extract = _add(
        commands, "extract", "a program from the real TPU compiler (extra: tpu)", _late("programs", "extract")
    )
    extract.add_argument("function", metavar="MODULE:FUNCTION")
    extract.add_argument("--arg", action="append", default=[], metavar="DTYPE[SHAPE]")
    extract.add_argument("--out", required=True, metavar="PROGRAM.json")
    extract.add_argument("--mapping", metavar="MAPPING.json", help="also write the compiler's own mapping here")
    extract.add_argument("--cycles", action="store_true", help="also compile in full, with CMEM on and off (minutes)")

    extract.add_argument("--hlo", metavar="FILE.txt", help="also write the compiler's program here, for `lmap price`")

    price = _add(
        commands,
        "price",
        "what the TPU compiler itself says mappings of its program cost (extra: tpu)",
        _late("programs", "price"),
    )
    price.add_argument("program", metavar="PROGRAM.json")
    price.add_argument("mappings", nargs="*", metavar="MAPPING.json")
    price.add_argument("--hlo", metavar="FILE.txt", help="what `lmap extract --hlo` wrote with the program (default: "
                       "for one of the sixty compiled programs it is compiled anew)")  # fmt: skip
    price.add_argument("--whole", action="store_true", help="compile each mapped program whole to code (minutes)")
    price.add_argument("--instructions", action="store_true", help="also print the cycles of every instruction")

    data = _add(commands, "data", "the data sets that come with the project", _late("data", "data"))
    data.add_argument("action", choices=("list", "build", "verify"), nargs="?", default="list", help="default: list")
    data.add_argument("sets", nargs="*", metavar="SET", help="such as graphs (default: all; build wants a name)")
    data.add_argument("--out", metavar="FOLDER", help="build: here instead of in place")
    data.add_argument("--files", action="store_true", help="list, verify: file by file, those in no set too")
