"""Base images from the distribution's packages: no registry is asked, nothing is installed.

A root of unpacked packages, as `docker import` takes it. No maintainer script has run, so that it
is no full Debian; it has what python3, a shell and ssh need.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed import binaries, bounded, docker_api
from testbed.errors import TestbedError

PYTHON = ("python3", "openssh-client", "dash", "coreutils", "base-files", "libc-bin", "libstdc++6")
#: Packages that only maintainer scripts need.
_LEFT_OUT = (
    *("perl", "libperl", "cdebconf", "debconf", "adduser", "gawk", "mawk", "original-awk"),
    *("dpkg", "install-info", "libpam", "passwd", "libsemanage", "libsepol", "libnewt"),
    *("libslang", "libtextwrap", "libdebian", "mailcap", "mime-support", "tar", "lsb-base"),
    *("sysvinit", "init-system", "logrotate", "cron", "systemd", "usrmerge"),
)
_ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nredis:x:999:999::/tmp:/bin/sh\n",
    "group": "root:x:0:\nredis:x:999:\n",
}
_MERGED = ("bin", "sbin", "lib", "lib64")


def root_archive(packages: Sequence[str], files: Mapping[str, str]) -> Path:
    """Return a root filesystem with these packages as a tar in the cache; TestbedError if none.

    ``files`` are added, executable, by their path.
    """
    cache = binaries.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    inside = repr((packages, _LEFT_OUT, _ACCOUNTS, sorted(files.items())))
    stamp = hashlib.sha256(inside.encode()).hexdigest()[:12]
    target = cache / f"debian-root-{stamp}.tar"
    with (cache / "debian.lock").open("w") as lock:
        bounded.lock(lock)
        if not target.exists():
            folder = cache / f"fetch-{stamp}"
            shutil.rmtree(folder, ignore_errors=True)
            try:
                _build(folder, packages, files)
                _pack(folder / "root", target)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return target


def _build(folder: Path, packages: Sequence[str], files: Mapping[str, str]) -> None:
    root = folder / "root"
    (folder / "deb").mkdir(parents=True)
    for name in _MERGED:  # as on an installed Debian; packages' own links and folders fall in
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    binaries.download(folder, _closure(folder, packages))
    shutil.rmtree(root / "usr" / "share" / "doc", ignore_errors=True)
    for name, text in _ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    for name in ("tmp", "root", "run", "proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name, text in files.items():
        (root / name).write_text(text)
        (root / name).chmod(0o755)


def _pack(root: Path, target: Path) -> None:
    partial = target.with_suffix(".part")
    bounded.run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(partial), "."], check=True)
    partial.replace(target)


def _closure(folder: Path, packages: Sequence[str]) -> list[str]:
    kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    words = ["apt-cache", "depends", "--recurse", *(f"--no-{kind}" for kind in kinds)]
    done = binaries._apt([*words, *packages], folder)
    if done.returncode:
        raise TestbedError(f"apt-cache depends: {done.stderr}")
    names = {line.strip() for line in done.stdout.splitlines() if line and line[0].isalpha()}
    return sorted(n for n in names if ":" not in n and not n.startswith(_LEFT_OUT))


def import_image(
    socket: Path, name: str, packages: Sequence[str], files: Mapping[str, str] | None = None
) -> str:
    """Have an engine hold a root of packages as the image ``name``; return the name."""
    repository, _, tag = name.rpartition(":")
    with root_archive(packages, files or {}).open("rb") as file:
        path = f"/images/create?fromSrc=-&repo={repository}&tag={tag}"
        status, answer = docker_api.call(socket, "POST", path, file, timeout_s=120)
    if status != 200 or b'"error"' in answer:
        raise TestbedError(f"import of {name}: {status} {answer[-500:]!r}")
    return name
