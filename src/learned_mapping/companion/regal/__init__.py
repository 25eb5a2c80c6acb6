"""Paper 3's tables and figures."""
