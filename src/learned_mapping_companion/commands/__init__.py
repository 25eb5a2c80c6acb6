"""The commands of `lmap` that regenerate tables, read data sets and speak to the compiler, by
``commands.yml``."""
