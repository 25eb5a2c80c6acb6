"""Methods that map without a network: rules, evolution, local search."""
