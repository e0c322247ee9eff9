from __future__ import annotations

from dataclasses import dataclass

KEY, SECRET, TOKEN = "AKIACANARY", "canary/secret+key==", "canary-session-token%2F="


@dataclass(frozen=True)
class S3:
    url: str

    def options(self, **more: str) -> dict[str, str]:
        return s3_options(self.url, **more)


def s3_options(url: str, **more: str) -> dict[str, str]:
    return {
        "s3.endpoint": url,
        "s3.region": "eu-central-1",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.session-token": TOKEN,
        "s3.path-style-access": "true",
        **{f"store.{name.replace('_', '-')}": value for name, value in more.items()},
    }
