"""Proven upper bounds on the return of a program."""
