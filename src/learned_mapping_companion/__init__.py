"""What regenerates the tables and figures of the book, from runs to claims; it needs the checkout.

It stands on `learned_mapping`, which knows nothing of it but the entry point of its commands.
"""
