"""Clean: deletes versions of data files that no promised view needs.

Read in this order:
    `plan`   which files go, pure: retention, the oldest readable commit, savepoints
    `facts`  reads what the plan depends on: settings, last clean, files of partitions
    `clean`  schedules a clean and carries it out; deletes the files

Flow: `clean.schedule_clean` puts the plan on the timeline -> `clean.run_clean` owns it ->
`clean.delete_files_of_partition` deletes on the engine -> the gate completes the clean and records
it in the metadata table. If the process dies, the clean is pending, and the next clean repeats it:
a file that is gone already is a success.

In: a `TableRef` and an engine. Out: paths of deleted files.
Not here: files of dead writes and strays (recovery), what savepoints protect
(services/savepoints), instants of the timeline (services/archive). Files that a savepoint or a
pending plan names stay.
"""
