"""How much of a reward's noise is its stream's."""

import numpy as np
from learned_mapping_builders.regal_shared import shares


def test_shares_of_known_parts():
    """Catches parts that are mixed up or not freed of each other: costs are made of parts of known
    variance."""
    rng = np.random.default_rng(0)
    laws, streams = 60, 80
    law, stream = 3.0 * rng.standard_normal((laws, 1)), 2.0 * rng.standard_normal((1, streams))
    shared, left = shares(law + stream + 0.5 * rng.standard_normal((laws, streams)))
    assert abs(shared / 4.0 - 1) < 0.3 and abs(left / 0.25 - 1) < 0.1
    shared, left = shares(law + 0.5 * rng.standard_normal((laws, streams)))
    assert shared < 0.02 and abs(left / 0.25 - 1) < 0.1
