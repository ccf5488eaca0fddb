"""The commands of hoodoo, grouped by what a user wants; one function for each command.

Read in this order:
    `create`     create
    `write`      write: loads files in this process or by Spark
    `read`       scan, changes
    `inspect`    show, schema, timeline, files, conflicts
    `services`   compact, log-compact, cluster, upkeep
    `plans`      plans, cancel
    `index`      index create, run, status, drop
    `retention`  clean, archive, restore, savepoint
    `repair`     recover, rollback, doctor
    `lock`       lock status, break
    `upgrade`    upgrade
    `demo`       demo

A flag is a parameter of the command's function, with typer annotations and its help text; flags
that many commands share are in cli/options. `main.COMMANDS` (cli/main) must list a new command.

In: parsed arguments. Out: calls of api, inspect or services; text through cli/output.
Not here: printing (cli/output/text), work on the table. More than ten lines of work belong into a
room below.
"""
