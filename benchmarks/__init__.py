"""How fast the kernels are: ``make bench`` runs all of it, no test does."""
