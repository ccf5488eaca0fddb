"""Servers for tests: started where they are installed, else the tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import pytest

from hoodoo_testing.servers.object_stores import ServerUnavailable

Server = TypeVar("Server")


@contextmanager
def or_skip(server: AbstractContextManager[Server]) -> Iterator[Server]:
    """A running server; without it, the skip names what is missing."""
    try:
        with server as running:
            yield running
    except ServerUnavailable as reason:
        pytest.skip(str(reason))
