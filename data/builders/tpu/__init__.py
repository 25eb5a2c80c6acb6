"""The TPU compiler (extra ``tpu``): programs out of it, mappings into it, and what it says that
they cost."""
