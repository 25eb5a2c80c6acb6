"""Paper 3: the device of each op and the order of the ops (REGAL)."""

from learned_mapping.regal.compiled_cache import use_cache

use_cache()
