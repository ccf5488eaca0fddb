"""The marker server: executors announce files to the driver, which writes markers in batches.

Read in this order:
    `protocol`     the requests and answers: JSON over HTTP
    `server`       runs in a thread of the driver while the stage of one write runs
    `routes`       what it answers to each request
    `batches`      groups waiting markers into batches
    `connections`  limits of connections, requests and time
    `client`       how an executor announces its files

Flow: `server.serve_markers` -> an executor's `ServedMarkers` posts markers -> a batch is written to
the marker directory -> the answer; only then the executor creates its file. If the driver dies, the
batches that were written name all files that may exist, so recovery can delete them.

In: markers of one write. Out: batch files (concurrency/markers); conflicts found by the driver.
Not here: markers without a server, and their layout (concurrency/markers, format/markers).
"""
