"""One module per paper, a function per table and figure; runs, results, provenance, statistics."""
