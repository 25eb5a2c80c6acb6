"""What builds the data sets and chose the settings whose records stand beside them: no part of the installed package.

``lmap data build SET`` imports a set's builder from here.
"""
