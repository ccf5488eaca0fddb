"""The hoodoo command: arguments in, calls of the rooms below, text or JSON out.

Read in this order:
    `main`       the program: `main.COMMANDS` and `main.GROUPS` register every command; exit codes
    `options`    arguments and flags that several commands share (TABLE, --option, --json, --limit)
    `commands/`  one function for each command; its parameters are its flags
    `input/`     files and schemas named on the command line
    `output/`    text, tables, JSON, progress bars
    `spark`      an engine for commands that rewrite files; starts Spark if needed
    `java`       finds a Java for Spark
    `demo/`      the guided tour of hoodoo demo

A flag of one command: add a parameter with typer annotations to its function in commands/. A flag
of many commands: add it to `options`. A new command: a function in commands/ and a line in `main`.

In: arguments. Out: stdout, stderr, exit code (0 done, 1 an error of hoodoo, 2 usage, 130 Ctrl-C).
Not here: work on tables (services, write, recovery), facts about tables (inspect).
"""
