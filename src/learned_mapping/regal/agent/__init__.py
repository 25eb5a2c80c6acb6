"""REGAL's learner as printed: Beta laws for a genetic algorithm's mutants, learned by REINFORCE from random weights."""
