"""What a schedule is and what it costs, compiled."""
