"""Arrays in, pictures out: one module per paper, one visual style."""
