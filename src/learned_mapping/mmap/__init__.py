"""Paper 1: which buffers live in fast memory, when, and at what offset (the MMapGame)."""
