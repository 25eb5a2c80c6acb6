"""MiniMalloc's files: what is read is what stands there, what is written any reader of theirs
takes."""

import csv
import os
import random

import numpy as np
import pytest

from cli_files import refusal
from learned_mapping.cli import main
from learned_mapping.doors.minimalloc import read_minimalloc, read_rows
from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.mmap.mapping import all_dropped, read_mapping
from learned_mapping.mmap.methods import PROBLEM, solve
from learned_mapping.mmap.validate import validate

# of their README
EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
INSTANCES = sorted((data_folder() / "minimalloc").glob("*.csv"))


def faults_of(instance, solution, capacity):
    """What is wrong with a solution, pair by pair, read by the standard library alone; and how many
    are placed."""
    given = {r["id"]: r for r in csv.DictReader(instance.open())}
    placed = [(given[r["id"]], r, int(r["offset"])) for r in csv.DictReader(solution.open())]
    faults = [
        r["id"]
        for r, s, _ in placed
        if any(r[key] != s[key] for key in ("id", "lower", "upper", "size"))
    ]
    for i, (a, _, x) in enumerate(placed):
        if not 0 <= x <= capacity - int(a["size"]):
            faults.append(a["id"])
        for b, _, y in placed[:i]:
            apart = int(a["upper"]) <= int(b["lower"]) or int(b["upper"]) <= int(a["lower"])
            if not apart and x < y + int(b["size"]) and y < x + int(a["size"]):
                faults.append((a["id"], b["id"]))
    return faults, len(placed)


def test_their_example_goes_in_and_out(tmp_path, capsys):
    """Would catch a lifetime that is off by one: at full capacity everything of the example just
    fits."""
    instance, out = tmp_path / "input.12.csv", tmp_path / "out.csv"
    instance.write_text(EXAMPLE)
    arguments = ["mmap", str(instance)]
    assert (
        main(["solve", *arguments, "--method", "packing", "--samples", "50", "--out", str(out)])
        == 0
    )
    assert faults_of(instance, out, 12) == ([], 5)
    assert out.read_text().splitlines()[0] == "id,lower,upper,size,offset"
    assert main(["check", *arguments, str(out)]) == 0
    out.write_text(out.read_text().replace("b5,0,21,4,", "b5,0,21,4,1"))
    assert main(["check", *arguments, str(out)]) == 1
    capsys.readouterr()
    picture = tmp_path / "picture.svg"
    assert (
        main(["show", str(instance), "--out", str(picture)]) == 0 and picture.stat().st_size > 1000
    )


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.name[0])
def test_the_eleven_are_read_exactly(path, tmp_path, capsys):
    """The rule's mapping: the judge and a check of all pairs agree, and the return is the share of
    the bytes."""
    program = read_minimalloc(path)
    rows = read_rows(path)
    assert program.num_tensors == len(rows) and program.fast_bytes == 1048576
    result = solve(program, "greedy")
    assert validate(program, result.solution).valid
    out = tmp_path / "out.csv"
    assert main(["solve", "mmap", str(path), "--method", "greedy", "--out", str(out)]) == 0
    faults, count = faults_of(path, out, 1048576)
    assert not faults and read_mapping(out, program) == result.solution
    shares = [row.size for row in read_rows(out, placed=True)]
    assert len(shares) == count
    assert sum(shares) / sum(row.size for row in rows) == pytest.approx(result.metrics["return"])


@pytest.mark.parametrize("name", "BHJK")
def test_packing_places_everything(name):
    """Four of the eleven in a tenth of a second to one second; the rules and the game's searches
    place none whole."""
    program = read_minimalloc(data_folder() / "minimalloc" / f"{name}.1048576.csv")
    result = solve(program, "packing", samples=3000)
    assert result.solution.placed.all() and validate(program, result.solution).valid
    assert result.metrics["return"] == pytest.approx(1.0)


@pytest.mark.slow
def test_packing_places_everything_on_most():
    """At least ten of eleven within a minute of one core each; upstream's own program places all
    eleven."""
    programs = map(read_minimalloc, INSTANCES)
    placed = [
        solve(program, "packing", seconds=60.0, cpu=True).solution.placed.all()
        for program in programs
    ]
    assert sum(placed) >= 10


def test_an_alignment_is_kept(tmp_path):
    """Sizes count in whole multiples of it, so every offset is one."""
    path = tmp_path / "aligned.1000.csv"
    path.write_text("id,lower,upper,size,alignment\na,0,9,65,64\nb,0,9,1,64\nc,3,5,700,64\n")
    program = read_minimalloc(path)
    assert program.fast_bytes == 960 and program.tensor_bytes.tolist() == [128, 64, 704]
    mapping = solve(program, "packing", samples=10).solution
    assert mapping.placed.all() and not np.any(mapping.offset % 64)
    solution = tmp_path / "solution.csv"
    for row, named in (("a,0,9,65,1", "offset"), ("a,0,8,65,0", "lower"), ("a,0,9,64,0", "size")):
        solution.write_text("id,lower,upper,size,offset\n" + row + "\n")
        with pytest.raises(InputError, match=f"line 2: {named}"):
            read_mapping(solution, program)
    solution.write_text("id,lower,upper,size,offset\na,0,9,65,64\n")
    assert read_mapping(solution, program).placed.sum() == 2


def test_what_is_read_more_strictly_is_said(tmp_path, capsys):
    """Alignments of 4 and 6 and a gap, with a mark and spaces as editors leave them: every offset
    suits all, nothing lies in the gap, and the command says both. By hand: of 36 bytes three
    buffers of 12."""
    path, out = tmp_path / "mixed.39.csv", tmp_path / "out.csv"
    path.write_bytes(
        b"\xef\xbb\xbfid, lower, upper, size, alignment, gaps\r\n"
        b"a, 0, 9, 5, 4, 3-5 7-8@1:2\r\nb, 0, 9, 12, 6,\r\nc, 4, 5, 1, 1,\r\n"
    )
    program = read_minimalloc(path)
    assert program.fast_bytes == 36 and program.tensor_bytes.tolist() == [12, 12, 12]
    words = ["mmap", str(path), "--method", "packing", "--samples", "10", "--out", str(out)]
    assert main(["solve", *words]) == 0
    said = capsys.readouterr().err
    assert "1 buffer is held through the gaps" in said and "3 buffers are aligned" in said
    offsets = {row.id: row.offset for row in read_rows(out, placed=True)}
    assert sorted(offsets.values()) == [0, 12, 24]
    assert main(["check", "mmap", str(path), str(out)]) == 0
    out.write_text("id,lower,upper,size,alignment,offset\na,0,9,5,4,4\n")
    capsys.readouterr()
    assert main(["check", "mmap", str(path), str(out)]) == 2
    assert "4 is no multiple of the alignment 12" in capsys.readouterr().err


def test_few_bytes_return_no_more_than_all(tmp_path):
    """Catches savings lost to rounding beside long times: a return above 1."""
    path = tmp_path / "small.9.csv"
    path.write_text(HEAD + "a,0,1,1\nb,0,1000000,1\nc,1,3,1\n")
    program = read_minimalloc(path)
    assert solve(program, "packing", samples=10).metrics["return"] == pytest.approx(1.0, abs=1e-9)


HEAD = "id,lower,upper,size\n"


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.csv", EXAMPLE, "file name"),
        ("a.0.csv", EXAMPLE, "file name"),
        ("a.12.csv", "", "is empty"),
        ("a.12.csv", HEAD, "holds no buffers"),
        ("a.12.csv", "id,lower,size\na,0,1\n", "line 1: no column 'upper'"),
        ("a.12.csv", "id,lower,upper,size,colour\n", "line 1: column 'colour' is not known"),
        ("a.12.csv", "id,lower,lower,upper,size\n", "line 1: column 'lower' stands there twice"),
        ("a.12.csv", HEAD + "a,0,1\n", "line 2: 3 cells"),
        ("a.12.csv", HEAD + "a,0,1,2\n\nb,0,1,2\n", "line 3: 1 cells"),
        ("a.12.csv", HEAD + "a,0,1,2\na,0,1,2\n", "line 3: id: 'a' is that of line 2 too"),
        ("a.12.csv", HEAD + ",0,1,2\n", "line 2: id"),
        ("a.12.csv", HEAD + "a,1,1,2\n", "line 2: upper: 1 is not after lower, 1"),
        ("a.12.csv", HEAD + "a,0,1,0\n", "line 2: size"),
        ("a.12.csv", HEAD + "a,0,1,1e3\n", "line 2: size"),
        ("a.12.csv", HEAD + "a,0,1," + "9" * 5000 + "\n", "line 2: size"),
        ("a.12.csv", HEAD + "a,0,nan,2\n", "line 2: upper"),
        ("a.12.csv", "id,lower,upper,size,gaps\na,0,9,2,three\n", "line 2: gaps"),
        ("a.12.csv", "id,lower,upper,size,alignment\na,0,9,2,4\nb,0,9,2,0\n", "line 3: alignment"),
        ("a.12.csv", "id,lower,upper,size,alignment\na,0,9,2,5\nb,0,9,2,8\n", "alignment 40"),
        ("a.2.csv", "id,lower,upper,size,alignment\na,0,9,2,4\n", "file name"),
    ],
)
def test_a_fault_is_one_line(name, text, named, tmp_path, capsys):
    path = tmp_path / name
    path.write_text(text)
    out = tmp_path / "out.csv"
    line = refusal(capsys, "solve", "mmap", path, "--method", "greedy", "--out", out)
    assert str(path) in line and named in line and not out.exists()


def test_a_solution_of_other_buffers_is_refused(tmp_path):
    path = tmp_path / "a.12.csv"
    path.write_text(EXAMPLE)
    program = read_minimalloc(path)
    assert read_mapping(_written(tmp_path, "id,lower,upper,size,offset\n"), program) == all_dropped(
        program
    )
    for text, named in (
        ("b9,0,3,4,0", "line 2: id"),
        ("b1,0,3,5,0", "line 2: size"),
        ("b1,0,3,4,-1", "offset"),
    ):
        with pytest.raises(InputError, match=named):
            read_mapping(_written(tmp_path, f"id,lower,upper,size,offset\n{text}\n"), program)
    with pytest.raises(InputError, match="no column 'offset'"):
        PROBLEM.read_solution(str(path), program)


def _written(folder, text):
    path = folder / "solution.csv"
    path.write_text(text)
    return path


def test_damaged_files_are_one_line(tmp_path):
    """Two thousand files with cuts, doublings and other bytes: a program, or a fault in one
    line."""
    rng, words = (
        random.Random(0),
        (b",", b"\n", b"-1", b"1e9", b"99999999999999999999", b'"', b"\x00", b"\xff", b"nan"),
    )
    path, read = tmp_path / "damaged.12.csv", 0
    for _ in range(int(os.environ.get("DAMAGED", "2000"))):
        data = EXAMPLE.encode()
        for _ in range(rng.randint(1, 4)):
            i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
            j = min(j, i + rng.choice((1, 3, 10)))
            data = (
                data[:i]
                + rng.choice((b"", data[i:j] * rng.choice((2, 50)), rng.choice(words)))
                + data[j:]
            )
        path.write_bytes(data)
        try:
            read += read_minimalloc(path).num_buffers >= 0
        except InputError as error:
            assert "\n" not in str(error) and "damaged.12.csv" in str(error)
    assert read > 10
