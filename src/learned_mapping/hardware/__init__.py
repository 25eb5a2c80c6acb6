"""What programs are mapped onto: every cost that an agent or a baseline sees comes from here."""
