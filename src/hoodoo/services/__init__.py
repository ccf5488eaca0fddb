"""Table services: work on a table that never changes what a reader of it sees."""
