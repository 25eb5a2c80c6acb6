"""The exact optimum of the static objective, and bounds."""
