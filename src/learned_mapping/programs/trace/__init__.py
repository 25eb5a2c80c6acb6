"""A JAX function as a graph or as a scheduled program."""
