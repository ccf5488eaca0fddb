"""A deterministic simulator: real code on a virtual clock, one storage operation at a time.

`docs/simulator.md` tells how to write a scenario and how to read a trace.
"""
