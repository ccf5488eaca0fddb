"""What a command line names as input: files to load, and schemas.

Read in this order:
    `files`       which files a path means, and their format
    `read_files`  their rows as Arrow tables, in the types of the table
    `schema`      schemas: a file, Avro JSON, or the short form id:long!,name:string

In: texts of the command line. Out: Arrow tables and schemas; `InputError` says what is wrong.
Not here: the same files read by Spark (spark/read/input_files), rows of Python callers
(rows/incoming).
"""
