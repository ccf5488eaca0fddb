"""Keys of the marker server: it collects the markers of a write in the Spark driver."""

from __future__ import annotations

from hoodoo.config.key import Key, boolean, integer

MARKER_SERVER = Key(
    "hoodie.embed.timeline.server",
    boolean,
    True,
    "Batched markers on Spark are collected by a server in the driver; false: each task writes "
    "batches of its own.",
)
MARKER_SERVER_PORT = Key(
    "hoodie.embed.timeline.server.port",
    integer(0, 65_535),
    0,
    "Port of the marker server in the driver; 0 is any free one.",
)
MARKER_INTERVAL_MS = Key(
    "hoodie.markers.timeline_server_based.batch.interval_ms",
    integer(1),
    50,
    "Longest time that a marker waits before the marker server begins to write its batch.",
)
MARKER_FILES = Key(
    "hoodie.markers.timeline_server_based.batch.num_threads",
    integer(1, 1000),
    20,
    "Most batch files that the marker server makes for a write, and so its writes under way.",
)
