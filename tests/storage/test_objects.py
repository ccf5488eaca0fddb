"""The storage contract on a real S3 server, and what is special to object stores."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from hoodoo.errors import ConfigError, ObjectNotFound, StorageError
from hoodoo.storage import object_client, object_store, open_storage, probe_conditions
from hoodoo.storage.storage import Storage
from hoodoo.storage.traced import TracedStorage
from hoodoo_testing.servers.faulty_proxy import FaultyProxy, faulty_proxy
from hoodoo_testing.servers.object_stores import S3Server
from hoodoo_testing.storage_contract import MEGABYTE, StorageContract


@pytest.mark.server
class TestObjectStorage(StorageContract):
    # SeaweedFS serves writes to one object slowly when many want it.
    threads = 4
    rounds = 3
    large_bytes = 9 * MEGABYTE  # more than what counts as large for an object store

    @pytest.fixture
    def storage(self, s3: S3Server) -> Storage:
        return open_storage(s3.uri(f"{uuid.uuid4()}/my table"), s3.options)


@pytest.fixture
def storage(s3: S3Server) -> Storage:
    return open_storage(s3.uri(str(uuid.uuid4())), s3.options)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3.endpoint) as running:
        yield running


def arrow_s3(server: S3Server) -> pafs.S3FileSystem:
    """Another S3 client, to see what is really there."""
    return pafs.S3FileSystem(
        access_key=server.options["aws_access_key_id"],
        secret_key=server.options["aws_secret_access_key"],
        endpoint_override=server.endpoint,
        region="us-east-1",
    )


# URIs and options (no server is asked)


def test_s3_schemes_open_the_same_store() -> None:
    for uri in ("s3://b/t", "s3a://b/t/", "S3N://b/t//"):
        assert open_storage(uri).uri == "s3://b/t"


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("gs://bucket/path", {"google_skip_signature": "true"}),
        ("az://container/path", {"azure_storage_account_name": "account"}),
        ("abfss://container@account.dfs.core.windows.net/path", {}),
    ],
)
def test_uris_of_other_clouds_open(uri: str, options: dict[str, str]) -> None:
    storage = open_storage(uri, options)
    assert storage.uri == uri
    assert pickle.loads(pickle.dumps(storage)).uri == uri


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"aws_region": "x", "aws_secret_acces_key": "hidden"}, "aws_secret_acces_key"),
        ({"aws_region": "x", "hoodie.table.name": "hidden"}, "hoodie.table.name"),
        ({"aws_region": "x", "aws_allow_http": "maybe"}, "aws_allow_http"),
        ({"aws_region": "x", "timeout": "soon"}, "timeout"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_storage("s3://bucket/path", options)
    assert raised.value.key == key
    assert "hidden" not in str(raised.value)


def test_a_missing_option_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"Account must be specified.*azure_storage_account_name"):
        open_storage("az://container/path")


def test_unreachable_server_is_a_storage_error() -> None:
    storage = open_storage("s3://b/t", _options("http://127.0.0.1:1", timeout="1s"))
    with pytest.raises(StorageError, match="the option aws_endpoint") as raised:
        storage.read("a")
    assert type(raised.value) is StorageError


def test_no_connection_attempt_after_the_deadline() -> None:
    storage = open_storage("s3://b/t", _options("http://127.0.0.1:1"))
    began = time.monotonic()
    with pytest.raises(StorageError, match="busy or away") as raised:
        storage.create("a", b"", within_s=0.3)
    assert type(raised.value) is StorageError
    assert time.monotonic() - began < 2  # without a deadline: 3 s and more


@pytest.mark.parametrize(
    ("wanted_s", "limit_s"), [(None, 900), (1, 10), (10, 10), (150.5, 150.5), (3600, 900)]
)
def test_upload_limit_stays_between_bounds(wanted_s: float | None, limit_s: float) -> None:
    assert object_client.large_timeout_s(wanted_s) == limit_s


def test_http_is_refused_unless_allowed() -> None:
    options = _options("http://127.0.0.1:1") | {"aws_allow_http": "false"}
    with pytest.raises(StorageError, match="allow_http") as raised:
        open_storage("s3://b/t", options).create("a", b"")
    assert type(raised.value) is StorageError


def test_local_tables_need_no_object_store_client() -> None:
    program = (
        "import sys; from hoodoo.storage import open_storage; open_storage('/tmp/t');"
        "assert 'obstore' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def _options(endpoint: str, **more: str) -> dict[str, str]:
    return {
        "aws_endpoint": endpoint,
        "aws_allow_http": "true",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        **more,
    }


def test_etags_are_quoted_as_if_match_wants_them() -> None:
    """Azure's listings leave the quotes out, its answers to other requests have them."""
    assert (
        object_store._etag({"e_tag": "0x8D"}) == object_store._etag({"e_tag": '"0x8D"'}) == '"0x8D"'
    )
    assert object_store._etag({"e_tag": None}) == ""


# What is really in the bucket


@pytest.mark.server
def test_keys_are_the_names_that_others_see(storage: Storage, s3: S3Server) -> None:
    path = "city=a%2Fb c/größe #1.txt"
    storage.create(path, b"1")
    prefix = storage.uri.removeprefix("s3://")
    with arrow_s3(s3).open_input_stream(f"{prefix}/{path}") as stream:
        assert stream.read() == b"1"


@pytest.mark.server
def test_directory_markers_are_no_objects(storage: Storage, s3: S3Server) -> None:
    prefix = storage.uri.removeprefix("s3://")
    arrow_s3(s3).create_dir(f"{prefix}/a/b")
    storage.create("a/b/c", b"")
    storage.create("a/b-c", b"1")
    assert [info.path for info in storage.list("", recursive=True)] == ["a/b-c", "a/b/c"]
    assert [info.path for info in storage.list("a", recursive=True)] == ["a/b-c", "a/b/c"]
    assert [info.path for info in storage.list("")] == []
    assert [info.path for info in storage.list("a")] == ["a/b-c"]
    assert storage.list_directories("a") == ["b"]
    assert not storage.exists("a/b")


@pytest.mark.server
def test_refusals_of_the_server_are_storage_errors(s3: S3Server) -> None:
    stranger = dict(s3.options) | {"aws_secret_access_key": "wrong"}
    storage = open_storage(s3.uri("t"), stranger)
    for action in (
        lambda: storage.read("a"),
        lambda: storage.list(""),
        lambda: storage.create("a", b""),
        lambda: storage.replace("a", b"", if_match="x"),
        lambda: storage.delete("a"),
    ):
        with pytest.raises(StorageError, match="SignatureDoesNotMatch") as raised:
            action()
        assert "set the options aws_access_key_id and aws_secret_access_key" in str(raised.value)
        assert type(raised.value) is StorageError
    nowhere = open_storage("s3://no-such-bucket/t", s3.options)
    with pytest.raises(StorageError, match="NoSuchBucket") as raised:
        nowhere.read("a")
    assert not isinstance(raised.value, ObjectNotFound)
    assert "check the bucket in the URI, and the options aws_region" in str(raised.value)


# Requests


@pytest.mark.server
def test_parquet_is_read_in_few_requests(s3: S3Server, proxy: FaultyProxy) -> None:
    rows = 300_000
    table = pa.table({f"c{n}": list(range(n, n + rows)) for n in range(6)})
    options = dict(s3.options) | {"aws_endpoint": proxy.endpoint}
    storage = open_storage(s3.uri(str(uuid.uuid4())), options)
    for name, content in (("small", table.slice(0, 1000)), ("large", table)):
        with storage.open_write(name) as stream:
            pq.write_table(content, stream, row_group_size=100_000, compression="none")
    assert storage.stat("large").size_bytes > 8_000_000

    def requests(name: str, columns: list[str] | None) -> int:
        proxy.requests.clear()
        with storage.open_read(name) as file:
            expected = (table if name == "large" else table.slice(0, 1000)).select(
                columns or table.column_names
            )
            assert pq.read_table(file, columns=columns) == expected
        return len(proxy.requests)

    assert requests("small", None) == 1
    # The tail, and per row group (of three, the last partly in the tail) one coalesced range.
    assert requests("large", None) <= 5
    assert requests("large", ["c2"]) <= 4


@pytest.mark.server
def test_a_version_is_one_request(s3: S3Server, proxy: FaultyProxy) -> None:
    options = dict(s3.options) | {"aws_endpoint": proxy.endpoint}
    storage = open_storage(s3.uri(str(uuid.uuid4())), options)
    storage.create("a", b"1")
    proxy.requests.clear()
    assert storage.read_version("a").data == b"1"
    assert len(proxy.requests) == 1


# The probe


@pytest.mark.server
def test_the_probe_passes_a_store_that_honours_conditions(s3: S3Server) -> None:
    storage = TracedStorage(open_storage(s3.uri(str(uuid.uuid4())), s3.options))
    probe_conditions(storage)
    assert list(storage.list("", recursive=True)) == []
    storage.clear()
    probe_conditions(storage)
    assert storage.operations == []


@pytest.mark.server
def test_the_probe_refuses_a_store_that_ignores_conditions(careless_s3: S3Server) -> None:
    storage = open_storage(careless_s3.uri("table"), careless_s3.options)
    for _ in range(2):
        with pytest.raises(StorageError, match="ignores conditions"):
            probe_conditions(storage)
    assert list(storage.list("", recursive=True)) == []
