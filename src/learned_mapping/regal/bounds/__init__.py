"""Exact optima and proven bounds by constraint programming."""
