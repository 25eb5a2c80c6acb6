"""Paper 2's constraint repair: it knows a graph's edges, the chips and the rules, nothing else."""
