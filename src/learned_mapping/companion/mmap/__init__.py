"""Paper 1's tables and figures."""
