"""Methods that partition without a network: rules, random search, annealing."""
