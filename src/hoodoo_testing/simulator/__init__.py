"""A deterministic simulator: real code on a virtual clock, one storage operation at a time.

Read in this order:
    `scenario`    `Scenario`: setup, actors, checks; `scenario.run` runs one
    `world/`      store, network, clock and processes, with faults and schedules
    `actors/`     writers, a cluster, another engine
    `checks/`     what must hold of a table at every moment and at the end
    `scenarios/`  all scenarios, by topic
    `search/`     many runs: by seed, by faults at every point, by preemptions
    `__main__`    the command: python -m hoodoo_testing.simulator

In: a scenario and a seed or a script. Out: an outcome with a trace, and the command that repeats
the run.
Not here: real servers (hoodoo_testing/servers). docs/simulator.md tells how to write a scenario and
how to read a trace.
"""
