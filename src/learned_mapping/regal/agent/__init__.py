"""REGAL's networks: what they see, how they are trained and used."""
