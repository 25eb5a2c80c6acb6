"""Methods that schedule without a network: rules, BRKGA, local search."""
