"""States draw themselves in a notebook, as what they were made for."""

import subprocess
import sys

import numpy as np

from learned_mapping.hardware.devices import Devices
from learned_mapping.mcm.draw import picture as picture_of_partition
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mmap.draw import picture as picture_of_mapping
from learned_mapping.mmap.mapping import all_dropped
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.draw import picture as picture_of_schedule
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.style import svg_text


def test_each_state_is_drawn_on_its_instance():
    """Would catch a state that is drawn with other hardware than it was made for, or not at all."""
    program, graph = toy_program(), random_graph(np.random.default_rng(0), "layered", 12)
    assert program._repr_html_() == svg_text(picture_of_mapping(program))
    assert all_dropped(program)._repr_html_() == svg_text(
        picture_of_mapping(program, all_dropped(program))
    )
    partition = make_partition(np.zeros(12, int), 2)
    assert partition._repr_html_() is None, "of which graph, it does not know"
    assert partition.on(graph)._repr_html_() == svg_text(picture_of_partition(graph, partition))
    instance = Instance(graph, Devices(transfers="free"))
    schedule = decode(instance, np.random.default_rng(0).random(instance.chromosome_length))
    assert schedule._repr_html_() == svg_text(
        picture_of_schedule(graph, schedule, instance.machine)
    )
    assert Schedule.of([0] * 12, [], 2).on(graph)._repr_html_() is None, (
        "a schedule without steps has no picture"
    )


def test_nothing_is_imported_to_draw_before_something_is_drawn():
    """Would catch a second of matplotlib at every start of the command line."""
    modules = "mmap.mapping", "mcm.partition", "regal.schedule", "programs.program"
    imports = "; ".join(f"import learned_mapping.{module}" for module in modules)
    script = (
        f"import sys; {imports}; print([m for m in sys.modules if m.startswith('matplotlib') or"
        " m.endswith('draw')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_a_stored_table_is_shown_without_what_trains_networks():
    """Would catch a second of JAX and scipy.stats in every page that only shows results."""
    shown = "; ".join(f"show('{name}')" for name in ("mmap.table2", "mcm.table1", "regal.effect"))
    script = (
        f"import sys; from learned_mapping_companion.pages import show; {shown}; "
        "print([name for name in ('jax', 'scipy.stats') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
