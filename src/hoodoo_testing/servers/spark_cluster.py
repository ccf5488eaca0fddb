"""A real Spark cluster on one machine: a standalone master and two workers, from the wheel's jars.

The workers are on loopback addresses of their own, so that Spark takes them for two machines: it
never starts a speculative copy of a task on the machine of the first one. Executors are JVMs that
the workers start, one core each. All of it dies with the process that started the cluster.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hoodoo_testing.servers.jvm import java, quick_start, spark_home
from hoodoo_testing.servers.object_stores import free_ports, running, wait_until_ready

_HOSTS = ("127.0.0.2", "127.0.0.3")
_WORKER_MEMORY = "1536m"
_EXECUTOR_MEMORY = "640m"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster."""

    url: str
    java_options: tuple[str, ...]
    local_directory: Path
    """Where executors keep shuffle files."""
    pids: tuple[int, ...]
    """Of the master and the workers."""

    def settings(self) -> Mapping[str, str]:
        """What a session needs to run its tasks here, one executor on each worker."""
        options = " ".join(self.java_options)
        return {
            "spark.master": self.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": options,
            "spark.executor.extraJavaOptions": options,
            "spark.executor.cores": "1",
            "spark.executor.memory": _EXECUTOR_MEMORY,
            "spark.ui.enabled": "false",
        }

    def shuffle_files(self) -> list[Path]:
        """What executors wrote for later stages to fetch."""
        return sorted(self.local_directory.rglob("shuffle_*"))


@contextmanager
def spark_cluster(directory: Path, *, pythonpath: Sequence[str] = ()) -> Iterator[SparkCluster]:
    """A cluster that keeps its files below `directory`. Raises `ServerUnavailable`.

    `pythonpath` is where Python workers find modules beside those of this environment.
    """
    (port,) = free_ports(1)
    url, options, local = f"spark://127.0.0.1:{port}", quick_start(), directory / "local"
    local.mkdir(parents=True)
    environment = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": _scala_version(),
        "SPARK_LOCAL_DIRS": str(local),
        "JAVA_HOME": str(Path(java()).resolve().parent.parent),
        "PYTHONPATH": os.pathsep.join(pythonpath),
    }
    common_arguments = ["--webui-port", "0"]
    with ExitStack() as stack:

        def start(log: Path, main: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
            command = ["env", *(f"{key}={value}" for key, value in environment.items())]
            command += [f"SPARK_LOCAL_IP={host}", java(), *options, "-Xmx256m", "-cp", _classes()]
            command += [
                f"org.apache.spark.deploy.{main}",
                "--host",
                host,
                *common_arguments,
                *arguments,
            ]
            return stack.enter_context(running(command, log=log))

        log = directory / "master.log"
        master = start(log, "master.Master", "127.0.0.1", "--port", str(port))
        wait_until_ready(master, _says("New state: ALIVE", log), log=log)
        workers = {}
        for host in _HOSTS:
            log = directory / f"{host}.log"
            size = ["--cores", "1", "--memory", _WORKER_MEMORY]
            place = ["--work-dir", str(directory / host)]
            workers[log] = start(log, "worker.Worker", host, *size, *place, url)
        for log, worker in workers.items():
            wait_until_ready(worker, _says("Successfully registered with master", log), log=log)
        yield SparkCluster(url, options, local, (master.pid, *(w.pid for w in workers.values())))


def _says(text: str, log: Path) -> Callable[[], bool]:
    return lambda: text in log.read_text(errors="replace")


def _classes() -> str:
    """As Spark's own launcher puts them: else the archive of classes would not fit."""
    jars = spark_home() / "jars"
    return ":".join(map(str, (spark_home() / "conf", *jars.glob("slf4j-api-*.jar"), jars / "*")))


def _scala_version() -> str:
    """What Spark's scripts tell its launcher by the environment: `2.13`."""
    (library,) = spark_home().glob("jars/scala-library-*.jar")
    return ".".join(library.stem.rpartition("-")[2].split(".")[:2])
