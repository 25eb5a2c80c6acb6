"""What a partition may be."""
