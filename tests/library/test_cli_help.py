"""What the command line says of itself: help, guesses at what was meant, completion."""

import subprocess

import pytest

from cli_files import refusal, run

ELSEWHERE = {
    "mmap": ("--chips", "--fused", "--devices", "--transfers", "--repair"),
    "mcm": ("--size", "--device ", "--devices", "--objective"),
    "regal": ("--chips", "--fold", "--size", "--hardware"),
}


def test_alone_it_helps(capsys):
    """Would catch an error for whoever asks what there is."""
    code, out, err = run(capsys)
    assert (code, err) == (0, "") and out.startswith("usage: lmap") and "solve" in out


@pytest.mark.parametrize("paper", ELSEWHERE)
def test_help_of_a_paper_has_its_own_options(capsys, paper):
    """Would catch options of other papers, and help that is cut for whoever asks next."""
    code, out, _ = run(capsys, "solve", paper, "--help")
    assert code == 0 and "--machine" in out and "--method" in out
    assert not any(option in out for option in ELSEWHERE[paper])
    assert f"{paper}: " not in out.partition("\n\nrules")[0]
    heads = [line.partition(" of ")[0] for line in out.splitlines() if line.endswith(f"{paper}:")]
    assert heads == ["rules", "searches", "agents"]
    _, whole, _ = run(capsys, "solve", "--help")
    assert all(option in whole for options in ELSEWHERE.values() for option in options)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("sovle",), "did you mean solve?"),
        (("solve", "mcn"), "did you mean mcm?"),
        (("solve", "mcm", "g.json", "--metod", "sa"), "--metod; did you mean --method?"),
        (("solve", "mcm", "g.json", "--machin=x"), "required: --method"),
        (
            ("solve", "mcm", "g.json", "--method", "greedy-carefull", "--out", "p.json"),
            "did you mean greedy-careful",
        ),
        (("check", "--hardware", "silicone", "g.json"), "did you mean silicon?"),
    ],
)
def test_it_guesses_what_was_meant(capsys, line, said):
    """Would catch a list of everything for a slip of one letter, or a guess that comes second."""
    assert said in refusal(capsys, *line)


def test_shells_complete(capsys, tmp_path):
    """Would catch a script that the shell does not take."""
    code, out, _ = run(capsys, "--completion", "bash")
    assert code == 0 and "--machine" in out and "regal" in out
    (tmp_path / "lmap.sh").write_text(out)
    subprocess.run(["bash", "-n", tmp_path / "lmap.sh"], check=True)
    assert "--machine" in run(capsys, "--completion", "zsh")[1]
