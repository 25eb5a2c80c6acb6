"""The data sets under ``data/``: a module per set that builds it, and the manifest that says what is in it."""
