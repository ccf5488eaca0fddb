"""Spark sessions and Python workers: made ready, checked, named, watched.

Read in this order:
    `session`        the session of a DataFrame; job descriptions; Spark's failures as our errors
    `configure`      settings that make Python workers cheap
    `worker_python`  workers run the driver's Python, or one that has hoodoo
    `workers`        what all code in workers shares: errors, memory, imports
    `local_session`  a quiet Spark for one command
    `progress`       how far Spark's stages are

In: a session or a builder. Out: a session that hoodoo can use, or an error before any job runs.
Not here: registering the data source (spark/datasource/register), finding Java (cli/java).
"""
