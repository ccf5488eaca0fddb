"""Table URIs and paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import ConfigError
from hoodoo.storage import open_storage
from hoodoo.storage.uri import TableUri, parse_uri


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("/data/trips", "file:///data/trips"),
        ("/data//trips/", "file:///data/trips"),
        ("//data/trips", "file:///data/trips"),
        ("/data/x/../trips", "file:///data/trips"),
        ("file:///data/trips/", "file:///data/trips"),
        ("FILE:///data/trips", "file:///data/trips"),
        ("file:/data/trips", "file:///data/trips"),
        ("file://localhost/data/trips", "file:///data/trips"),
        ("/data/a b%20ü?x=1#y", "file:///data/a b%20ü?x=1#y"),
        ("/", "file:///"),
        ("memory://name", "memory://name"),
        ("memory://name/", "memory://name"),
        ("memory://name/a/b", "memory://name/a/b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a b/c%2Fd/", "s3://bucket/a b/c%2Fd"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("S3N://bucket/a", "s3://bucket/a"),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("azure://container/a", "az://container/a"),
        ("abfs://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
    ],
)
def test_a_uri_has_one_normal_form(uri: str, normal: str) -> None:
    assert str(parse_uri(uri)) == normal
    assert parse_uri(normal) == parse_uri(uri)


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_uri("a/../b") == TableUri("file", "", f"{tmp_path}/b")
    assert parse_uri(".") == TableUri("file", "", str(tmp_path))


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "nul\0",
        "\ud800",
        "file://",
        "file:",
        "file:relative",
        "file://host/path",
        "file://relative",
        "memory://",
        "memory:///a",
        "s3://",
        "s3:///key",
        "s3://bucket//a",
        "s3://bucket/a//b",
        "s3://bucket/../a",
        "s3://bucket/a/./b",
        "s3://user@bucket/a",
        "abfss://container/a",
        "http://host/a",
        "hdfs://host/a",
        "://",
        "s3:bucket://x",
    ],
)
def test_a_bad_uri_is_a_config_error(uri: str) -> None:
    if uri in ("://", "s3:bucket://x"):  # no scheme, so plain (odd) paths
        assert parse_uri(uri).scheme == "file"
        return
    with pytest.raises(ConfigError) as raised:
        open_storage(uri)
    assert raised.value.key == "uri"
    assert raised.value.value == uri


@given(st.text(max_size=30), st.sampled_from(["", "s3://", "memory://", "file://", "gs://b/"]))
def test_any_text_parses_to_a_normal_form_or_is_refused(text: str, scheme: str) -> None:
    try:
        parsed = parse_uri(scheme + text)
    except ConfigError:
        return
    assert parse_uri(str(parsed)) == parsed
