"""The options of stores, under the names that Iceberg's catalogs give them, and who may set which.

A user's option that is not known is refused, with the nearest name: a typing error must not end in the wrong
bucket. An option that a remote catalog sends is taken from an allow-list, and what is not on it is ignored: a
server must not choose proxies, profiles or programs. Credentials are wrapped at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput, StoreCannot
from lakeplane.model.location import parse_location
from lakeplane.storage.secret import Secret

Given: TypeAlias = Mapping[str, str | Secret | bool | int]
"""Options as a user or a catalog gives them."""


class Option(msgspec.Struct, frozen=True):
    """What is known about one option."""

    is_credential: bool = False
    """Belongs to a set of credentials: never mixed with those of another origin, never shown."""
    may_be_vended: bool = False
    takes_account: bool = False
    """May be followed by the name of a storage account: ``adls.sas-token.myaccount``."""


_VENDED: Final = Option(may_be_vended=True)
_CREDENTIAL: Final = Option(is_credential=True, may_be_vended=True)
_CREDENTIAL_OF_ACCOUNT: Final = Option(is_credential=True, may_be_vended=True, takes_account=True)
_OF_THE_USER: Final = Option()

OPTIONS: Final[Mapping[str, Option]] = {
    "s3.access-key-id": _CREDENTIAL,
    "s3.secret-access-key": _CREDENTIAL,
    "s3.session-token": _CREDENTIAL,
    "s3.session-token-expires-at-ms": _CREDENTIAL,
    "s3.region": _VENDED,
    "s3.endpoint": _VENDED,
    "s3.path-style-access": _VENDED,
    "s3.remote-signing-enabled": _VENDED,
    "s3.sse.type": _VENDED,
    "s3.sse.key": _VENDED,
    "s3.anonymous": _OF_THE_USER,
    "s3.profile-name": _OF_THE_USER,
    "s3.proxy-uri": Option(is_credential=True),
    "gcs.oauth2.token": _CREDENTIAL,
    "gcs.oauth2.token-expires-at": _CREDENTIAL,
    "gcs.service.host": _VENDED,
    "gcs.no-auth": _OF_THE_USER,
    "gcs.application-credentials": _OF_THE_USER,
    "adls.account-name": _VENDED,
    "adls.account-key": _CREDENTIAL,
    "adls.sas-token": _CREDENTIAL_OF_ACCOUNT,
    "adls.sas-token-expires-at-ms": _CREDENTIAL_OF_ACCOUNT,
    "adls.token": _CREDENTIAL,
    "adls.tenant-id": Option(is_credential=True),
    "adls.client-id": Option(is_credential=True),
    "adls.client-secret": Option(is_credential=True),
    "adls.endpoint": _OF_THE_USER,
    "store.request-timeout-seconds": _OF_THE_USER,
    "store.max-retries": _OF_THE_USER,
}

_ALIASES: Final = {
    "client.region": "s3.region",
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "client.profile-name": "s3.profile-name",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
    "gcs.token": "gcs.oauth2.token",
}

FAMILIES: Final = ("s3", "gcs", "adls")
_PREFIXES: Final = (*(f"{family}." for family in FAMILIES), "client.", "store.")


class Options(msgspec.Struct, frozen=True):
    """Checked options: plain ones, and credentials that do not show."""

    plain: dict[str, str] = {}
    secret: dict[str, Secret] = {}

    def credentials(self, family: str) -> dict[str, str]:
        """The credentials for one kind of store, revealed, by their names without the family."""
        prefix = f"{family}."
        return {k.removeprefix(prefix): v.reveal() for k, v in self.secret.items() if k.startswith(prefix)}

    def flag(self, name: str, *, default: bool) -> bool:
        """An option that is true or false."""
        text = self.plain.get(name, str(default)).strip().lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"{name} must be true or false")
        return text == "true"

    def count(self, name: str, *, default: int) -> int:
        """An option that is a whole number, not negative."""
        text = self.plain.get(name, str(default)).strip()
        if not (text.isascii() and text.isdigit() and len(text) < 10):  # noqa: PLR2004
            raise InvalidInput(f"{name} must be a whole number")
        return int(text)


NONE: Final = Options()


def is_store_option(name: str) -> bool:
    """Whether an option is about stores: the others are for somebody else."""
    return name.startswith(_PREFIXES)


def user_options(given: Given) -> Options:
    """Check what a user gave; refuse what is not known."""
    found = NONE
    for name, value in given.items():
        key = _known(name)
        if key is None:
            near = difflib.get_close_matches(name, [*OPTIONS, *_ALIASES], n=1)
            hint = f"Did you mean {near[0]}?" if near else "See docs/storage.md for those that there are"
            raise InvalidInput(f"unknown storage option {name!r}", hint=hint)
        found = _with(found, key, value)
    return found


def vended_options(given: Given) -> Options:
    """Take from what a catalog server sent what it may say; ignore the rest."""
    found = NONE
    for name, value in given.items():
        key = _known(name)
        if key is not None and _option(key).may_be_vended:
            found = _with(found, key, value)
    if found.flag("s3.remote-signing-enabled", default=False) and not found.secret:
        hint = "Ask the catalog for vended credentials, or give credentials as options"
        raise StoreCannot("the catalog wants to sign each request itself, which is not supported", hint=hint)
    return found


def merge(users: Options, vended: Options) -> Options:
    """Put what a server sent over what the user gave, without mixing credentials of both.

    A server that sends credentials for a kind of store replaces all of the user's for it. One that sends none
    must not say where the user's own credentials are to be sent.
    """
    plain, secret = dict(users.plain), dict(users.secret)
    for family in FAMILIES:
        sends = {key for key in vended.secret if key.startswith(f"{family}.")}
        if sends:
            secret = {
                k: v for k, v in secret.items() if not k.startswith(f"{family}.") or k == "s3.proxy-uri"
            }
            secret |= {key: vended.secret[key] for key in sends}
        says = {k: v for k, v in vended.plain.items() if k.startswith(f"{family}.")}
        if not sends:
            says = {k: v for k, v in says.items() if k not in ("s3.endpoint", "gcs.service.host")}
        plain |= says
    if any(key.startswith("gcs.") for key in vended.secret):
        _check_https(vended.plain.get("gcs.service.host"))
    for name in ("s3.endpoint", "gcs.service.host"):
        if name in vended.plain:
            parse_location(vended.plain[name])  # refuses link-local addresses
    return Options(plain, secret)


def _check_https(host: str | None) -> None:
    if host is not None and not host.lower().startswith("https://"):
        raise InvalidInput("a catalog wants a token to be sent without encryption", field="gcs.service.host")


def _known(name: str) -> str | None:
    key = _ALIASES.get(name, name)
    if key in OPTIONS:
        return key
    accounts = (known for known, option in OPTIONS.items() if option.takes_account)
    return key if any(key.startswith(f"{known}.") for known in accounts) else None


def _option(key: str) -> Option:
    found = OPTIONS.get(key)
    return found if found is not None else _CREDENTIAL_OF_ACCOUNT


def _with(options: Options, key: str, value: str | Secret | bool | int) -> Options:  # noqa: FBT001
    if _option(key).is_credential:
        wrapped = value if isinstance(value, Secret) else Secret(_text(value))
        return Options(options.plain, {**options.secret, key: wrapped})
    if isinstance(value, Secret):
        raise InvalidInput(f"{key} is no secret", hint="Give it as plain text")
    return Options({**options.plain, key: _text(value)}, options.secret)


def _text(value: str | bool | int) -> str:  # noqa: FBT001
    return str(value).lower() if isinstance(value, bool) else str(value)
