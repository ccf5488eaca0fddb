"""Archival: old instants move from the active timeline into the archived timeline.

Read in this order:
    `archive`         which instants leave (pure), when that is due, and moving them
    `history_writer`  writes files of instants, then the manifest that names them

Flow: `archive.archive` -> `archive.choose_instants_to_archive` -> `history_writer.add_to_history`
-> the instants' files are deleted from the active timeline. If the process dies in between, an
instant is in both timelines, and the next archival deletes the rest.

In: a `TableRef` and an engine. Out: which instants were archived.
Not here: reading the archived timeline (table/history), its bytes (format/timeline/history), data
files (services/clean). Archival deletes no data file.
"""
