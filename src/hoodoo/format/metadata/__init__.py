"""The records of a metadata table: Avro values <-> Arrow columns, keys, file groups."""
