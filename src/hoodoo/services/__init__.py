"""Table services: upkeep that changes how rows are stored, never which rows there are."""
