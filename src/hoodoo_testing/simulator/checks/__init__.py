"""What must hold of a simulated table, read directly from the store.

    `truth`           the table as its objects say, without the reader under test
    `invariants`      what holds after each mutation, and once all is recovered and swept
    `metadata_table`  the metadata table lists the same files, and its indexes are right

In: the simulated store. Out: an error that names the violation.
Not here: checks of one scenario (the scenario has them). These modules trust neither the reader
nor the timeline code of hoodoo.
"""
