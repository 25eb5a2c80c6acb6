"""Local search over whole games by edits of the best one, whatever proposes them: chance, or a network that learns."""
