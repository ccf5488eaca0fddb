"""Pure computations on rows: Arrow columns in, Arrow columns out; no file is opened here.

Read in this order:
    `incoming`     rows as users have them (frames, dicts, streams) -> an Arrow table
    `conform`      rows of one schema -> rows of another; how a table's schema may evolve
    `keys`         record keys and partition paths of all rows
    `hashes`       a 64-bit hash of each text of a column
    `merge`        changes merged among themselves and with base rows: which version wins
    `filter`       filters of users -> Arrow expressions
    `expressions`  SQL expressions -> Arrow expressions, and their values
    `arrays`       small helpers on columns and pieces of tables

In: Arrow tables, and rules of model. Out: Arrow tables, arrays, expressions.
Not here: the text rules of single values (model/keys, model/merge, model/predicate), reading files
(read), Spark columns (spark). Functions work on whole columns and do not loop over rows.
"""
