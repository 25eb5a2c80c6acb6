"""The rules of the MMapGame: state, legal moves, costs, compiled."""
