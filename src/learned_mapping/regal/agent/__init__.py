"""REGAL's networks: what they see, how they are trained (REINFORCE as printed; imitation, ours) and used."""
