"""Many runs of scenarios: by seed, by a fault at every point, by few preemptions.

    `explore`   runs of one scenario, and shrinking a failure to the decisions that it needs
    `parallel`  many scenarios and seeds on several processors

In: scenarios. Out: failures, each with the script that repeats it.
Not here: how a fault happens (hoodoo_testing/simulator/world/faults).
"""
