"""The compiler's own mapping, and how it is told under the rules of the game."""
