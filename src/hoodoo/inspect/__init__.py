"""Reports for people about a table; a report changes nothing.

Read in this order:
    `table`      what the table is, its state in numbers, its schema
    `timeline`   every instant: state, operation, owner, age
    `history`    completed commits in rows
    `files`      file groups, slices, sizes
    `indexes`    indexes of the metadata table: in use, being built, stuck
    `plans`      pending plans: who runs them, what they block
    `conflicts`  writes in progress, and which of two will lose
    `locks`      who holds the table's lock
    `doctor`     what is wrong, why, and the command that repairs it
    `html`       a table as a notebook shows it

In: a `TableRef`. Out: dataclasses; cli/output and api turn them into text, JSON or values.
Not here: carrying a repair out (services/repairs), text of the command line (cli/output). No module
writes, but `doctor` may create and delete a probe object to read the store's clock.
"""
