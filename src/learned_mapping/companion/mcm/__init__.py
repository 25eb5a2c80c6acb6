"""Paper 2's tables and figures."""
