"""Credentials from AWS profiles, which obstore does not read.

The whole chain of AWS (single sign-on, assumed roles, credential processes) is boto3's trade: where it is
installed, it is asked. Without it, the plain keys of the shared credentials file are found.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lakeplane.errors import InvalidInput

_ENOUGH: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""With one of these in the environment, obstore finds credentials by itself."""


def profile_credentials(profile: str | None) -> Callable[[], Any] | None:
    """The provider for a profile: the one named, the environment's, or the default one.

    ``None`` if no profile was asked for and there is none: the other chains apply.
    """
    if profile is None:
        if any(os.environ.get(name) for name in _ENOUGH):
            return None
        profile = os.environ.get("AWS_PROFILE")
    found = _from_boto3(profile) or _from_file(profile or "default")
    if found is None and profile is not None:
        hint = "Install boto3 for profiles with roles or single sign-on"
        raise InvalidInput(f"no credentials for the AWS profile {profile!r}", hint=hint)
    return found


def _from_boto3(profile: str | None) -> Callable[[], Any] | None:
    if importlib.util.find_spec("boto3") is None or (profile is None and not _files_exist()):
        return None
    import boto3  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415

    try:
        return Boto3CredentialProvider(boto3.session.Session(profile_name=profile))
    except Exception:  # noqa: BLE001  # of boto3's own kinds; there is another place to look
        return None


def _files_exist() -> bool:
    return _file("AWS_SHARED_CREDENTIALS_FILE", "credentials").is_file() or (
        _file("AWS_CONFIG_FILE", "config").is_file()
    )


def _from_file(profile: str) -> Callable[[], Any] | None:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read(_file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return None
    section = parser[profile] if parser.has_section(profile) else {}
    key, secret = section.get("aws_access_key_id"), section.get("aws_secret_access_key")
    if not key or not secret:
        return None
    credential = {
        "access_key_id": key,
        "secret_access_key": secret,
        "token": section.get("aws_session_token"),
        "expires_at": None,
    }
    return lambda: credential


def _file(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / ".aws" / name)
