"""What a process works with: storage, clock, ids, and an engine that runs tasks per file.

Read in this order:
    `env`           `Env`: storage, clock and ids of a table, handed down to every layer
    `engine`        `Engine`: applies a task to each item; `LocalEngine` does so in threads
    `lost_answers`  create, replace and delete until the outcome is known

In: a `Storage`. Out: an `Env` and an `Engine`; both reach executors by pickling.
All time, randomness and storage access go through `Env`, so the simulator can replace all three.
Not here: the engine on Spark (spark/engine), decisions about the table (concurrency).
"""
