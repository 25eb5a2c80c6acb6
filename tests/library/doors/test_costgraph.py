"""CostGraphDef text: a hand-worked file, round trips, and hostile text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_mapping.doors.costgraph import parse_costgraph, read_costgraph
from learned_mapping.errors import InputError
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

EXAMPLE = """
# A root that only orders, two producers, and a node that reads both of the second's outputs.
node { name: "root" }
node {
  name: "left"  id: 7
  output_info { size: 70 alias_input_port: -1 }
  control_input: 0
  compute_cost: 58
}
node <
  name: 'ri' 'ght'; id: 0x9,
  output_info: { size: 52 dtype: DT_FLOAT shape { dim { size: 13 } } },
  output_info { }
  control_input: [0, 7]
  temporary_memory_size: -0
>
node {
  name: "end" id: 12 is_final: true
  input_info { preceding_node: 7 }
  input_info { preceding_node: 9 }
  input_info { preceding_node: 9 preceding_port: 1 }
  output_info { size: 55 alias_input_port: 0 }
  compute_cost: 2000000
}
"""


def format_costgraph(graph):
    """Text of a graph whose tensors of 0 bytes named ^NAME are control edges."""
    names, lines = dict(enumerate(graph.op_names)), []
    control = [t.startswith("^") for t in graph.tensor_names]
    result = [
        [t for t in np.flatnonzero(graph.tensor_producer == op) if not control[t]] for op in names
    ]
    for op, name in names.items():
        lines.append(
            f'node {{ name: "{name}" id: {op} compute_cost: {round(graph.op_seconds[op] * 1e6)}'
        )
        for tensor in graph.edge_tensor[graph.edge_consumer == op]:
            producer = graph.tensor_producer[tensor]
            if control[tensor]:
                lines.append(f"  control_input: {producer}")
            else:
                port = result[producer].index(tensor)
                lines.append(
                    f"  input_info {{ preceding_node: {producer} preceding_port: {port} }}"
                )
        lines += [
            f"  output_info {{ size: {graph.tensor_bytes[t]} alias_input_port: -1 }}"
            for t in result[op]
        ]
        final = any(graph.tensor_is_output[t] for t in result[op])
        lines.append("  is_final: true }" if final else "}")
    return "\n".join(lines) + "\n"


def test_hand_worked_example():
    """Would catch a wrong default, unit, port or control edge: every value is worked out by
    hand."""
    graph = parse_costgraph(EXAMPLE)
    assert graph.op_names == ("root", "left", "right", "end")
    assert graph.op_seconds.tolist() == [0, 58e-6, 0, 2.0]
    sizes = dict(zip(graph.tensor_names, graph.tensor_bytes.tolist()))
    assert sizes == {"left:0": 70, "right:0": 52, "right:1": 0, "end:0": 55, "^root": 0, "^left": 0}
    assert [graph.tensor_names[i] for i in np.flatnonzero(graph.tensor_is_output)] == ["end:0"]
    edges = {
        (graph.tensor_names[t], graph.op_names[c])
        for t, c in zip(graph.edge_tensor, graph.edge_consumer)
    }
    assert edges == {
        ("^root", "left"),
        ("^root", "right"),
        ("^left", "right"),
        ("left:0", "end"),
        ("right:0", "end"),
        ("right:1", "end"),
    }


RELEASED = """
node {
  name: "_SOURCE"
}
node {
  name: "node_0"
  id: 1
  output_info {
    size: 10
    alias_input_port: -1
  }
  control_input: 0
  compute_cost: 5
}
node {
  name: "node_1"
  id: 2
  input_info {
    preceding_node: 1
  }
  input_info {
    preceding_node: 1
    preceding_port: 3
  }
  control_input: 0
  compute_cost: 6
}
node {
  name: "node_2"
  id: 3
  input_info {
    preceding_node: 1
    preceding_port: 3
  }
}
"""


def test_a_port_without_an_output_orders_and_carries_nothing():
    """Would catch graphs of REGAL's release refused for a port that their nodes do not state, or
    its edge lost."""
    graph = parse_costgraph(RELEASED)
    sizes = dict(zip(graph.tensor_names, graph.tensor_bytes.tolist()))
    assert sizes == {"node_0:0": 10, "node_0:3": 0, "^_SOURCE": 0}
    assert graph.op_edges.tolist() == [[0, 1], [0, 2], [1, 2], [1, 3]]
    assert graph.metadata == {"format": "CostGraphDef", "ports_without_output": 1}


@pytest.mark.parametrize("piece", ['"d" ', '"d"\n', "\\n", "''"])
def test_pieces_are_counted_before_the_parser_keeps_them(piece):
    """Would catch a file of a few MiB that takes gigabytes, a hundred bytes for each string, line
    or escape."""
    with pytest.raises(InputError, match="lines, quotes and escapes"):
        parse_costgraph('node { name: "a" device: ' + piece * 2_100_000 + "}")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(GRAPH_FAMILIES)), st.integers(0, 2**32), st.integers(1, 60))
def test_graphs_survive_the_round_trip(family, seed, num_ops):
    """Would catch edges, sizes, times or outputs lost on the way through the text."""
    graph = random_graph(np.random.default_rng(seed), family, num_ops)
    again = parse_costgraph(format_costgraph(graph))
    assert again.op_names == graph.op_names
    assert np.array_equal(again.op_seconds, np.round(graph.op_seconds * 1e6) * 1e-6)
    assert np.array_equal(again.tensor_bytes, graph.tensor_bytes)
    assert np.array_equal(again.edge_consumer, graph.edge_consumer)
    assert np.array_equal(again.edge_tensor, graph.edge_tensor)
    final = set(graph.tensor_producer[graph.tensor_is_output].tolist())
    assert set(again.tensor_producer[again.tensor_is_output].tolist()) == final


def test_control_edges_survive_the_round_trip(tmp_path):
    """Would catch control edges turned into data edges."""
    graph = parse_costgraph(EXAMPLE)
    (tmp_path / "a.pbtxt").write_text(format_costgraph(graph))
    again = read_costgraph(tmp_path / "a.pbtxt")
    assert again.digest == graph.digest and again.name == "a"


FAULTS = [
    ("", "node"),
    ("# nothing\n", "node"),
    ('node { name: "a" }\nnode { name: "a" id: 1 }', "node[1].name"),
    ('node { name: "a" id: 1 }\nnode { name: "b" id: 1 }', "node[1].id"),
    ("node { }", "node[0].name"),
    ('node { name: "" }', "node[0].name"),
    ('node { name: "a\\n" }', "node[0].name"),
    ('node { name: "a', "missing ending quote"),
    ('node { name: "a"\n', "line 1, node[0]: "),
    (
        'node { name: "a" \n colour: 3 }',
        'line 2, node[0]: Message type "Node" has no field named "colour"',
    ),
    ("edge { }", 'no field named "edge"'),
    ("node: 3", "line 1, CostGraphDef: "),
    ('node { name: "a" id: 1 id: 2 }', 'multiple "id"'),
    ('node { name: "a" id: one }', "line 1, node[0]: "),
    ('node { name: "a" id: 1.5 }', "line 1, node[0]: "),
    ('node { name: "a" id: 99999999999 }', "out of range: 99999999999"),
    ("node { name: a }", "line 1, node[0]: "),
    ('node { name: "a" id }', 'Expected ":"'),
    ('node { name: "a" is_final: 2 }', "line 1, node[0]: "),
    ('node { name: "a" compute_cost: -1 }', "node[0].compute_cost"),
    ('node { name: "a" compute_cost: 9223372036854775807 }', "node[0].compute_cost"),
    ('node { name: "a" compute_cost: nan }', "line 1, node[0]: "),
    ('node { name: "a"\noutput_info { size: -2 } }', "node[0].output_info[0].size"),
    ('node { name: "a" output_info { size: 9000000000000000000 } }', "node[0].output_info[0].size"),
    ('node { name: "a" input_info { preceding_node: 3 } }', "node[0].input_info[0].preceding_node"),
    (
        'node { name: "a" }\nnode { name: "b" id: 1 input_info { preceding_port: -1 } }',
        "node[1].input_info[0].preceding_port",
    ),
    ('node { name: "a" control_input: [4] }', "node[0].control_input[0]"),
    ('node { name: "a" control_input: [0 0] }', 'Expected ","'),
    ('node { name: "a" control_input: 0 }', "uses its own output"),
    (
        'node { name: "a" output_info { } input_info { preceding_node: 1 } }\n'
        'node { name: "b" id: 1 output_info { } input_info { } }',
        "cycle",
    ),
    ('node { name: "a" } @', "got @"),
    ('node { name: "a" } }', "got }"),
    ("node > name: 3 <", "line 1, CostGraphDef: "),
    ('node { name: "a" output_info { shape { dim { size: x } } } }', "line 1, node[0]"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_hostile_text_is_named(text, message):
    """Would catch a fault let through, a traceback, or a message without node and field."""
    with pytest.raises(InputError) as caught:
        parse_costgraph(text)
    assert (
        message in str(caught.value)
        and "\n" not in str(caught.value)
        and len(str(caught.value)) < 300
    )


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=' {}<>[]:,;"\\#\n-0129.xeE', max_size=60))
def test_random_text_never_crashes(text):
    """Would catch any exception but `InputError`, and a tokenizer that does not end."""
    with pytest.raises(InputError) as caught:
        parse_costgraph(text)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text(tmp_path):
    """Would catch a traceback for a binary protocol buffer given in place of text."""
    (tmp_path / "a.pbtxt").write_bytes(b"\x0a\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_costgraph(tmp_path / "a.pbtxt")
