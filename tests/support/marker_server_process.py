"""A marker server in a process of its own, to be killed: prints its client, pickled, in hex."""

from __future__ import annotations

import pickle
import sys

from hoodoo.model.instant import InstantTime
from hoodoo.runtime.env import Env
from hoodoo.spark.marker_server.server import MarkerServer


def main(uri: str, instant: str) -> None:
    """Serve until the input ends."""
    server = MarkerServer(
        Env.of(uri),
        InstantTime(instant),
        host="127.0.0.1",
        files=20,
        interval_ms=50,
        find_conflict=lambda: None,
    )
    with server:
        print(pickle.dumps(server.client).hex(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
