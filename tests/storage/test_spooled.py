"""Objects too large for memory wait on disk until they are sent."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

from hoodoo.errors import ObjectExists, OutcomeUnknown, StorageError
from hoodoo.storage import open_storage
from hoodoo.storage.storage import ObjectInfo
from hoodoo.storage.write_streams import SPOOL_BYTES, SpooledWrite
from hoodoo_testing.servers.faulty_proxy import ANSWER_LOST, faulty_proxy
from hoodoo_testing.servers.object_stores import S3Server

PIECE = bytes(range(256)) * 4096
PIECES = SPOOL_BYTES // len(PIECE)


class Sent:
    """What a stream sends."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def create(self, path: str, data: bytes | memoryview) -> ObjectInfo:
        if path in self.objects:
            raise ObjectExists(path)
        self.objects[path] = bytes(data)
        return ObjectInfo(path, len(data), 0, "")


@pytest.mark.parametrize("count", [0, 1, PIECES, PIECES + 1, 2 * PIECES])
def test_what_is_written_is_sent_once(count: int) -> None:
    sent = Sent()
    stream = SpooledWrite("a", sent.create)
    for _ in range(count):
        assert stream.write(PIECE) == len(PIECE)
    assert stream.tell() == count * len(PIECE)
    assert not sent.objects
    stream.close()
    stream.close()
    assert sent.objects == {"a": PIECE * count}
    with pytest.raises(StorageError, match="closed"):
        stream.write(b"more")


@pytest.mark.parametrize("count", [1, PIECES + 1])
def test_what_is_discarded_is_not_sent(count: int) -> None:
    sent = Sent()
    stream = SpooledWrite("a", sent.create)
    for _ in range(count):
        stream.write(PIECE)
    stream.discard()
    stream.close()
    assert stream.closed
    assert not sent.objects


MEMORY = """
import re, sys
from hoodoo.storage import open_storage

def anonymous_mb():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

storage = open_storage(sys.argv[1], dict(option.split("=", 1) for option in sys.argv[2:]))
before, most = anonymous_mb(), 0
with storage.open_write("large") as stream:
    for n in range(100):
        stream.write(bytes([n]) * (1 << 20))
        most = max(most, anonymous_mb())
print(max(most, anonymous_mb()) - before)
"""


@pytest.mark.server
def test_a_large_object_takes_little_memory_and_is_whole(s3: S3Server) -> None:
    uri = s3.uri(str(uuid.uuid4()))
    options = [f"{key}={value}" for key, value in s3.options.items()]
    told = subprocess.run(
        [sys.executable, "-c", MEMORY, uri, *options], capture_output=True, text=True, check=True
    )
    assert int(told.stdout) < 50
    storage = open_storage(uri, s3.options)
    assert storage.stat("large").size_bytes == 100 << 20
    assert storage.read("large", 99 << 20) == bytes([99]) * (1 << 20)


@pytest.mark.server
def test_a_large_object_is_not_overwritten(s3: S3Server) -> None:
    storage = open_storage(s3.uri(str(uuid.uuid4())), s3.options)
    storage.create("large", b"first")
    stream = storage.open_write("large")
    for _ in range(PIECES + 1):
        stream.write(PIECE)
    with pytest.raises(ObjectExists):
        stream.close()
    assert storage.read("large") == b"first"


@pytest.mark.server
def test_large_object_with_lost_answer_is_unknown(s3: S3Server) -> None:
    with faulty_proxy(s3.endpoint) as proxy:
        options = {**s3.options, "aws_endpoint": proxy.endpoint}
        storage = open_storage(s3.uri(str(uuid.uuid4())), options)
        stream = storage.open_write("large")
        for _ in range(PIECES + 1):
            stream.write(PIECE)
        proxy.faults = [ANSWER_LOST]
        with pytest.raises(OutcomeUnknown):
            stream.close()
        assert storage.stat("large").size_bytes == (PIECES + 1) * len(PIECE)
