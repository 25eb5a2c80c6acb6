"""Parameters of the searches by objective, chosen on training graphs.

Apart from the methods, so that a search's records do not rest on all other methods.
"""

from __future__ import annotations

from learned_mapping.regal.searches.brkga import BrkgaParameters
from learned_mapping.regal.searches.local_search import LocalSearchParameters

TUNED_BRKGA = {
    "runtime": BrkgaParameters(population=100, elite_fraction=0.2, mutant_fraction=0.05, bias=0.7),
    "memory": BrkgaParameters(population=100, elite_fraction=0.2, mutant_fraction=0.02, bias=0.6),
}
"""Parameters by objective, chosen on training graphs alone; `data/regal/tuning.json` is the record."""
TUNED_LOCAL_SEARCH = {
    "runtime": LocalSearchParameters(device_share=0.05, cluster_share=0.4, cluster_ops=128),
    "memory": LocalSearchParameters(device_share=0.3, cluster_share=0.2, cluster_ops=512),
}
"""As `TUNED_BRKGA`, for the mix of moves."""
