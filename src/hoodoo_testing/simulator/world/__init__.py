"""The simulated world: one store, one network, virtual time, and processes that take turns.

Read in this order:
    `world`     `World`: makes environments and plays actors
    `stage`     actors take turns: one moves, and virtual time leaps when all wait
    `schedule`  who moves next and what goes wrong: by seed, or by a recorded script
    `faults`    what can go wrong with an operation or a process
    `network`   requests and answers that get lost or late
    `storage`   the store as one simulated process sees it
    `clock`     time, timers and ids of one simulated process
    `trace`     what happened, one line each

In: settings, actors, a schedule. Out: results and steps of a run.
Not here: tables; nothing here knows what a table is (hoodoo_testing/simulator/actors does).
"""
