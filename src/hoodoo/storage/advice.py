"""What to set when an object store turns a request away. Pure: from the client's text to advice."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one kind of store, by what they are about."""

    credentials: str
    place: str
    endpoint: str


_S3 = _Options(
    credentials="aws_access_key_id and aws_secret_access_key (aws_session_token, if they are "
    "temporary)",
    place="aws_region",
    endpoint="aws_endpoint",
)
_GCS = _Options(
    credentials="google_service_account (the path of its key file)",
    place="google_service_account",
    endpoint="google_base_url",
)
_AZURE = _Options(
    credentials="azure_storage_account_name and azure_storage_account_key",
    place="azure_storage_account_name",
    endpoint="azure_storage_endpoint",
)
_STORES = (
    (re.compile(r"GCS|googleapis\.com|metadata\.google"), _GCS),
    (re.compile(r"MicrosoftAzure|\.core\.windows\.net|Account must be specified"), _AZURE),
)
_CREDENTIALS = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|InvalidClientTokenId"
    r"|AuthenticationFailed|NoAuthenticationInformation|169\.254\.|metadata\.google"
    r"|401 Unauthorized|[Cc]redential|Account must be specified"
)
_REGION = re.compile(
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint"
    r"|301 Moved|Received redirect without LOCATION"
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_DENIED = re.compile(r"AccessDenied|AuthorizationFailure|403 Forbidden|status code: 403")
_AWAY = re.compile(r"error sending request|kind: Connect,|dns error|Connection refused")


def advise(text: str) -> str:
    """What to set, for an error of the client as it tells it; nothing where that is not known."""
    options = next((found for pattern, found in _STORES if pattern.search(text)), _S3)
    if "builder error" in text:
        return "an http:// endpoint needs the option allow_http=true"
    if _REGION.search(text):
        return f"set the option {options.place} to where the bucket is"
    if _NO_BUCKET.search(text):
        return f"check the bucket in the URI, and the options {options.place}, {options.endpoint}"
    if _CREDENTIALS.search(text):
        return f"set the options {options.credentials}"
    if _DENIED.search(text):
        return (
            "the credentials must allow to list, read, write and delete there; "
            f"others are set by the options {options.credentials}"
        )
    if _AWAY.search(text):
        return f"nobody answers there: check the network, and the option {options.endpoint}"
    return ""
