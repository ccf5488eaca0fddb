"""The life of a table in fast forward: many commits, all services, crashes; `python -m life`."""
