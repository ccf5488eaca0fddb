"""A soak: writers that collide all the time, are killed and stopped, and a check of what is left.

`make soak`; see docs/testing.md.
"""
