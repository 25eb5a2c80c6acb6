"""Paper 3: the device of each op and the order of the ops (REGAL)."""
