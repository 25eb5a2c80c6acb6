"""What builds the data sets, trains the shipped networks, and chose the settings whose records
stand beside them.

No part of the installed package. ``lmap data build SET`` imports a set's builder from here; in the
folder ``data`` ``python -m builders.training.NAME`` trains.
"""
