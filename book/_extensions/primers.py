"""Small pictures of what a reader has to know: fast memory and its copy engine, MuZero, GraphSAGE,
PPO, Beta laws."""

from functools import partial

from explorable_pictures import _box, _svg, _text

from learned_mapping_companion.figures import svg

_line = partial(svg.line, attributes='class="lm-edge"')


def _path(points: list[tuple[float, float]], more: str) -> str:
    return svg.path(
        (f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points)), more
    )


def _node(x: float, y: float, words: str, r: float = 17) -> str:
    middle = _text(x, y + 4, words, 'text-anchor="middle" class="lm-on-node"')
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" class="lm-node"/>{middle}'


def memory(data: None, label: str) -> str:
    """One tensor's life under each action, over five instructions."""
    parts, left, wide = [], 120, 92
    rows = (
        ("Copy", 1, 3, (1, 2), "copied in while others run, then held to its use"),
        ("NoCopy", 0, 3, None, "kept from where it was written to its use"),
        ("Drop", 3, 3, None, "read from slow memory: the instruction takes longer"),
    )
    for i in range(5):
        words = f"instruction {i}"
        parts += [_text(left + (i + 0.5) * wide, 14, words, 'text-anchor="middle"')]
    for row, (name, start, end, copied, words) in enumerate(rows):
        y = 30 + 62 * row
        parts += [_line(left + i * wide, y - 2, left + i * wide, y + 37) for i in range(5)]
        parts.append(_text(left - 10, y + 18, name, 'text-anchor="end" class="lm-strong"'))
        if name == "Drop":
            parts.append(_box(left + 3 * wide, y + 4, 1.45 * wide, 20, 'class="lm-bar-over"'))
        else:
            parts.append(
                _box(
                    left + start * wide, y + 4, (end - start + 1) * wide, 20, 'class="lm-bar-mine"'
                )
            )
        if copied:
            parts.append(_box(left + copied[0] * wide, y + 27, 2 * wide, 8, 'class="lm-bar-bound"'))
        parts.append(_text(left, y + 50, words))
    return _svg(216, parts, label)


def muzero(data: None, label: str) -> str:
    """Represent, then dynamics along each action, and predictions at every node."""
    parts, root = (
        [_box(8, 84, 120, 42, 'class="lm-outline" rx="6"'), _text(20, 109, "the game's state")],
        (220, 105),
    )
    parts += [_line(128, 105, 200, 105), _text(132, 96, "represent")]
    for i, (name, reward) in enumerate(
        (("Copy", "r = 0.3"), ("NoCopy", "r = 0.5"), ("Drop", "r = 0"))
    ):
        x, y = 380, 40 + 65 * i
        parts += [
            _line(*root, x, y),
            _text(268, y + (8 if i != 1 else -6), f"{name}, {reward}"),
            _node(x, y, "h₁"),
        ]
        for j in range(3):
            parts += [_line(x, y, 520, y - 18 + 18 * j), _node(520, y - 18 + 18 * j, "", 5)]
    parts += [
        _node(*root, "h₀"),
        _text(545, 100, "predict at each node:"),
        _text(545, 118, "a policy and a value"),
    ]
    parts.append(
        _text(260, 212, "dynamics: the next hidden state and the reward, without the rules")
    )
    return _svg(222, parts, label)


def sage(data: None, label: str) -> str:
    """An operation takes in the means over its producers and over its consumers."""
    parts, centre = [], (330, 80)
    for y in (30, 80, 130):
        parts += [_line(100, y, *centre), _node(100, y, "u")]
    for y in (50, 110):
        parts += [_line(*centre, 560, y), _node(560, y, "w")]
    parts += [
        _node(*centre, "v", 22),
        _text(160, 20, "mean over producers"),
        _text(420, 20, "mean over consumers"),
    ]
    parts.append(
        _text(
            330,
            150,
            "after two layers v knows of operations two edges away",
            'text-anchor="middle"',
        )
    )
    return _svg(160, parts, label)


def ppo(data: None, label: str) -> str:
    """What one choice adds to the aim, against the ratio of its probabilities, for a good and a bad
    outcome."""
    parts, clip = [], 0.2
    for k, (sign, title) in enumerate(((1, "better than the batch"), (-1, "worse than the batch"))):
        left, base = 40 + 330 * k, (150 if sign > 0 else 48)
        points = []
        for i in range(81):
            ratio = 0.4 + i * 0.015
            value = min(ratio * sign, min(max(ratio, 1 - clip), 1 + clip) * sign)
            points.append((left + (ratio - 0.4) * 220, base - 75 * value))
        parts += [_text(left, 16, title, 'class="lm-strong"'), _line(left, base, left + 264, base)]
        parts += [_path(points, 'class="lm-line lm-line-1"')]
        for at, words in ((1 - clip, "1 − ε"), (1.0, "1"), (1 + clip, "1 + ε")):
            x = left + (at - 0.4) * 220
            parts.append(_text(x, base + (16 if sign > 0 else -6), words, 'text-anchor="middle"'))
    words = (
        "across: the new probability of the choice over the old one. Beyond the kink nothing is"
        " gained."
    )
    parts.append(_text(40, 186, words))
    return _svg(194, parts, label)


def beta(data: None, label: str) -> str:
    """Three Beta laws, and where a draw from each is likely to fall."""
    parts = []
    laws = (
        (1, 1, "Beta(1, 1): anything"),
        (5, 2, "Beta(5, 2): rather high"),
        (2, 8, "Beta(2, 8): low"),
    )
    for k, (a, b, words) in enumerate(laws):
        left = 20 + 220 * k
        density = [(x / 50) ** (a - 1) * (1 - x / 50) ** (b - 1) for x in range(1, 50)]
        most = max(density)
        points = [(left + 3.8 * (i + 1), 110 - 80 * d / most) for i, d in enumerate(density)]
        parts += [
            _box(left, 26, 190, 86, 'class="lm-room"'),
            _path(points, 'class="lm-line lm-line-1"'),
        ]
        parts += [
            _text(left, 16, words, 'class="lm-strong"'),
            _text(left, 128, "0"),
            _text(left + 183, 128, "1"),
        ]
    return _svg(136, parts, label)


PICTURES = {
    "memory-primer": memory,
    "muzero-primer": muzero,
    "sage-primer": sage,
    "ppo-primer": ppo,
    "beta-primer": beta,
}
TITLES = {
    "memory-primer": (
        "One tensor that instruction 3 reads, under each of the three actions. Blue: fast memory"
        " taken. Green: the copy engine at work."
    ),
    "muzero-primer": (
        "MuZero searches in a model that it has learned. Only the first state is seen, all others"
        " are imagined."
    ),
    "sage-primer": "One layer of GraphSAGE: an operation and the means of its neighbours.",
    "ppo-primer": (
        "The clip of PPO: a choice may become more or less likely, but not by much at a time."
    ),
    "beta-primer": "Beta distributions over the numbers from 0 to 1.",
}
