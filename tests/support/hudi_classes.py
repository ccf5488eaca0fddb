"""Apache Hudi's Java classes in a JVM of their own, without Spark: for what needs no session."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parents[2] / "scripts" / "peers.py"
LIGHT = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Duser.timezone=UTC"]

_DECLARES = re.compile(r"^org/apache/hudi/.*(Config|ConfigHolder|Options\$?|SqlWriter\$)\.class$")


class ClassesUnavailable(Exception):
    """Something that they need cannot be had on this machine."""


class HudiClasses:
    """A JVM that has Hudi's bundle, and what Spark brings along, on its class path."""

    def __init__(self, jvm: Any, bundle: str) -> None:
        self._jvm = jvm
        self._bundle = bundle

    def lock(self, provider: str, settings: Mapping[str, str]) -> JavaLock:
        """A lock by the name of its provider's class."""
        properties = self._jvm.org.apache.hudi.common.config.TypedProperties()
        for name, value in settings.items():
            properties.setProperty(name, value)
        hadoop = self._jvm.org.apache.hadoop.conf.Configuration()
        storage = self._jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
        given = self._jvm.org.apache.hudi.common.config.LockConfiguration(properties)
        made = getattr(self._jvm.org.apache.hudi.client.transaction.lock, provider)(given, storage)
        return JavaLock(made, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)

    def bucket(self, key: str, fields: str, count: int) -> int:
        """The bucket of a record key by these fields of it."""
        return int(self._identifier.getBucketId(key, fields, count))

    def bucket_of_file(self, file_id: str) -> int:
        """The bucket that a file id tells."""
        return int(self._identifier.bucketIdFromFileId(file_id))

    def bloom_filter(self, text: str, type_code: str) -> Any:
        """The filter that a footer's text holds; it has `mightContain`."""
        bloom = self._jvm.org.apache.hudi.common.bloom
        return bloom.BloomFilterFactory.fromString(text, type_code)

    def timed_paths(self, settings: Mapping[str, str]) -> Callable[[object], str]:
        """What the timestamp-based key generator makes of a value in column `at`."""
        properties = self._jvm.org.apache.hudi.common.config.TypedProperties()
        fields = {"recordkey": "id", "partitionpath": "at"}
        named = {f"hoodie.datasource.write.{name}.field": f for name, f in fields.items()}
        for name, value in {**named, **settings}.items():
            properties.setProperty(name, value)
        made = self._jvm.org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator(properties)

        def path_of(value: object) -> str:
            known = made.getDefaultPartitionVal() if value is None else value
            return str(made.getPartitionPath(known))

        return path_of

    def config_keys(self) -> dict[str, str | None]:
        """Every key of every class that declares keys, other spellings too, with its default."""
        keys: dict[str, str | None] = {}
        for name in _declaring(self._bundle):
            found = self._jvm.java.lang.Class.forName(name)
            names = {field.getName() for field in found.getDeclaredFields()}
            scala_object = found.getField("MODULE$").get(None) if "MODULE$" in names else None
            for field in found.getDeclaredFields():
                if not field.getType().getName().endswith(".ConfigProperty"):
                    continue
                field.setAccessible(True)
                declared = field.get(scala_object)
                default = str(declared.defaultValue()) if declared.hasDefaultValue() else None
                for key in (declared.key(), *declared.getAlternatives()):
                    # The same key is declared twice where one of them only has no default.
                    keys[key] = keys.get(key) or default
        return keys

    @property
    def _identifier(self) -> Any:
        return self._jvm.org.apache.hudi.index.bucket.BucketIdentifier


class JavaLock:
    """One lock provider, as a writer of Hudi's has it."""

    def __init__(self, provider: Any, milliseconds: Any) -> None:
        self._provider = provider
        self._milliseconds = milliseconds

    def try_acquire(self, wait_ms: int = 200) -> bool:
        """Whether it got the lock; some providers say no by an exception."""
        from py4j.protocol import Py4JJavaError

        try:
            return bool(self._provider.tryLock(wait_ms, self._milliseconds))
        except Py4JJavaError as error:
            if "FAILED_TO_ACQUIRE" not in str(error.java_exception):
                raise
            return False

    def holder(self) -> str:
        """Whom it knows to have the lock, after it did not get it."""
        return str(self._provider.getCurrentOwnerLockInfo())

    def release(self) -> None:
        self._provider.unlock()

    def close(self) -> None:
        """What a writer does at its end."""
        self._provider.close()


def _declaring(bundle: str) -> Iterator[str]:
    """Classes whose names say that they declare keys."""
    with zipfile.ZipFile(bundle) as jar:
        for entry in jar.namelist():
            if _DECLARES.search(entry) and b"ConfigProperty;" in jar.read(entry):
                yield entry.removesuffix(".class").replace("/", ".")


@contextmanager
def hudi_classes() -> Iterator[HudiClasses]:
    """Starts the JVM, and ends it. Raises `ClassesUnavailable`."""
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    except ImportError:
        raise ClassesUnavailable("py4j is not installed (pip install pyspark)") from None
    looked = subprocess.run([sys.executable, PEERS], capture_output=True, text=True)
    if looked.returncode:
        raise ClassesUnavailable(looked.stderr.strip().splitlines()[-1])
    found = json.loads(looked.stdout)
    (spark,) = Path(found["python"]).parents[1].glob("lib/*/site-packages/pyspark/jars")
    port = launch_gateway(
        classpath=f"{found['bundle']}:{spark}/*",
        java_path=f"{found['java_home']}/bin/java",
        javaopts=LIGHT,
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield HudiClasses(gateway.jvm, found["bundle"])
    finally:
        gateway.shutdown()
