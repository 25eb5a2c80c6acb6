"""What builds the data sets: ``lmap data build SET`` imports it from here, it is no part of the installed package."""
