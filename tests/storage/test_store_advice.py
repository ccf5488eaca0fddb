"""Errors of object stores name the options to set."""

from __future__ import annotations

import pytest

from hoodoo.storage.object_client import advise

REFUSED = "Error performing GET https://b.{host}/x in 1ms - Server returned non-2xx status code: "


def told(status: str, code: str = "", host: str = "s3.amazonaws.com") -> str:
    body = f": <Error><Code>{code}</Code></Error>" if code else ""
    return REFUSED.format(host=host) + status + body


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (told("403 Forbidden", "InvalidAccessKeyId"), ["set the options aws_access_key_id"]),
        (told("403 Forbidden", "ExpiredToken"), ["aws_session_token"]),
        (told("403 Forbidden", "AccessDenied"), ["must allow", "aws_access_key_id"]),
        (told("403 Forbidden"), ["must allow", "aws_access_key_id"]),
        (told("301 Moved Permanently", "PermanentRedirect"), ["set the option aws_region"]),
        (told("400 Bad Request", "AuthorizationHeaderMalformed"), ["set the option aws_region"]),
        (told("404 Not Found", "NoSuchBucket"), ["the bucket in the URI", "aws_endpoint"]),
        ("Error performing PUT http://169.254.169.254/latest/api/token", ["aws_secret_access_key"]),
        ("Generic S3 error: HTTP error: error sending request", ["aws_endpoint"]),
        ("Generic S3 error: HTTP error: builder error", ["allow_http=true"]),
        (told("403 Forbidden", host="storage.googleapis.com"), ["google_service_account"]),
        (told("401 Unauthorized", host="storage.googleapis.com"), ["google_service_account"]),
        (
            told("403 Forbidden", "AuthenticationFailed", host="blob.core.windows.net"),
            ["azure_storage_account_name and azure_storage_account_key"],
        ),
    ],
)
def test_an_error_names_what_to_set(text: str, options: list[str]) -> None:
    advice = advise(text)
    assert all(option in advice for option in options), advice


def test_other_errors_get_no_advice() -> None:
    assert advise(told("500 Internal Server Error", "InternalError")) == ""
