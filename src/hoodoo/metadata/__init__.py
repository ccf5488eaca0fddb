"""The metadata table: a listing of files and indexes, kept as a table inside the table."""
