"""What the agents of the three papers share."""
