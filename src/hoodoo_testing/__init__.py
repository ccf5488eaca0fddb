"""Tools for tests and benchmarks: real servers, made-up tables, and a simulator; not in the wheel.

    `storage_contract`  what every storage must do, as tests to subclass
    `servers/`          object stores, ZooKeeper and a Spark cluster on this machine
    `tables/`           old tables, metadata tables made by hand, fresh indexes to compare with
    `simulator/`        real code on a virtual clock, with crashes and lost answers

In: everything of hoodoo. Out: fixtures and checks for tests, bench and scripts.
Not here: tests themselves (tests). Nothing in src/hoodoo imports this package.
"""
