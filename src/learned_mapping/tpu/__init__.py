"""The TPU compiler, ahead of time and without a TPU: programs, schedules and prices (extra `tpu`)."""
