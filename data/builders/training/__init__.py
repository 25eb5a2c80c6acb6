"""What trains and chooses what is shipped: one command each."""
