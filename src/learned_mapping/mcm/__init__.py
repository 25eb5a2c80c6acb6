"""Paper 2: which chip of a multi-chip module runs each op."""
