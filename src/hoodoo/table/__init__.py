"""What a table is: properties, timeline, schema; opening and creating one.

Read in this order:
    `ref`         `TableRef`: an opened table with its settings; `ref.open_ref` opens one
    `properties`  hoodie.properties on storage, also while a writer replaces the file
    `timeline`    the active timeline at one moment; contents of instants; moments and time zones
    `history`     instants of the archived timeline
    `schema`      the schema as of a timeline
    `options`     options of a write, compared with the write and the table
    `writable`    refuses tables that hoodoo could not write correctly
    `create`      creates a table: the new hoodie.properties makes it one

In: a URI and options. Out: a `TableRef`; timelines, metadata and schemas as values.
Not here: rows and lists of data files (read), adding to the timeline or changing properties of an
existing table (concurrency/transactions), archiving (services/archive).
"""
