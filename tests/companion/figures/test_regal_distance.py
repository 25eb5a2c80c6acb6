"""The dots stand where the rows say, and a refusal is no dot."""

from __future__ import annotations

from learned_mapping.companion.figures.regal import NETWORK_TITLES, gains_by_distance

FAR = ("trained", "new-family", "four-devices")


def test_dots_and_refusals():
    """Catches a dot at another distance, one panel's dots in the other, and a refusal drawn as no gain."""
    rows = []
    for k, network in enumerate(NETWORK_TITLES):
        for i, distance in enumerate(FAR[:2]):
            row = {"instance": f"{network}/{distance}", "method": "regal", "metric": "improvement_percent"}
            if (k, i) != (1, 1):
                rows.append(row | {"value": 10.0 * k + i, "low": -1.0, "high": 30.0})
        rows.append({"instance": f"{network}/four-devices", "method": "regal", "metric": "refused", "value": True})
    figure = gains_by_distance({"rows": rows})
    first, second = figure.axes
    lines = [panel.containers[0].lines[0] for panel in figure.axes]
    assert list(zip(*(d.tolist() for d in lines[0].get_data()))) == [(0.0, 0.0), (1.0, 1.0)]
    assert list(zip(*(d.tolist() for d in lines[1].get_data()))) == [(10.0, 0.0)]
    assert [label.get_text() for label in first.get_yticklabels()] == ["trained", "new family", "four devices"]
    for panel in (first, second):
        assert [(text.get_text(), text.get_position()[1]) for text in panel.texts] == [("regal refuses", 2.0)]
