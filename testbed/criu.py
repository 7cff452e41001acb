"""CRIU for the engines: packages of a later Debian, unpacked beside the system, with their libc.

Debian 12 has none, and 4.1 cannot dump a process with a socket on kernels from 6.16 on. Nothing is
installed, and the host's package lists are not touched. The program is run by its own loader, so
that its libraries are nobody else's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from testbed import binaries, bounded
from testbed.errors import TestbedError

SUITE = "forky"
_PACKAGES = (
    *("criu", "libcompel1", "libc6", "libbsd0", "libmd0", "libgnutls30t64", "libnettle8t64"),
    *("libhogweed6t64", "libgmp10", "libp11-kit0", "libffi8", "libtasn1-6", "libunistring5"),
    *("libidn2-0", "libnet9", "libnftables1", "libnftnl11", "libmnl0", "libjansson4"),
    *("libxtables12", "libnl-3-200", "libprotobuf-c1", "libuuid1"),
)
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_WRAPPER = """#!/bin/sh
unset LD_LIBRARY_PATH
exec "{root}/{lib}/ld-linux-x86-64.so.2" --library-path "{root}/{lib}" "{root}/usr/sbin/criu" "$@"
"""
_TIMEOUT_S = 300.0


def folder() -> Path:
    """Return a folder with the program ``criu``, fetched at the first call (7 MB).

    Raises TestbedError with apt's words if it cannot be had.
    """
    cache = binaries.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / "criu"
    with (cache / "criu.lock").open("w") as lock:
        bounded.lock(lock)
        if not (target / "bin" / "criu").exists():
            _fetch(target)
    return target / "bin"


def _fetch(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for name in ("lists/partial", "archives/partial", "debs", "root", "bin"):
        (target / name).mkdir(parents=True)
    _configure(target)
    _apt(target, "update")
    _apt(target, "download", *_PACKAGES)
    for deb in sorted((target / "debs").glob("*.deb")):
        binaries.unpack(deb, target / "root")
    for name in ("lists", "archives", "debs"):
        shutil.rmtree(target / name)
    partial = target / "bin" / "criu.part"
    partial.write_text(_WRAPPER.format(root=target / "root", lib=_LIBRARIES))
    partial.chmod(0o755)
    partial.rename(target / "bin" / "criu")  # last: it says that all else is there


def _configure(target: Path) -> None:
    (target / "criu.sources").write_text(
        f"Types: deb\nURIs: {_mirror()}\nSuites: {SUITE}\nComponents: main\nSigned-By: {_KEYRING}\n"
    )
    (target / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{target}/criu.sources";\n'
        'Dir::Etc::sourceparts "-";\n'
        f'Dir::State::lists "{target}/lists";\n'
        f'Dir::Cache "{target}";\n'
        'Dir::State::status "/dev/null";\n'
        'APT::Sandbox::User "root";\n'
    )


def _mirror() -> str:
    """Return the Debian mirror that this machine uses."""
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in sources:
        if not path.is_file():
            continue
        for line in path.read_text().splitlines():
            words = [word for word in line.split() if not word.startswith(("[", "signed-by"))]
            if len(words) > 1 and words[0] in ("URIs:", "deb") and "security" not in words[1]:
                return words[1]
    return "http://deb.debian.org/debian"


def _apt(target: Path, *argv: str) -> None:
    if binaries.which("apt-get") is None:
        raise TestbedError("no apt-get to fetch CRIU with")
    done = bounded.run(
        ["apt-get", "-q", "-c", str(target / "apt.conf"), *argv],
        cwd=target / "debs",
        text=True,
        timeout_s=_TIMEOUT_S,
    )
    if done.returncode:
        raise TestbedError(f"CRIU cannot be had (apt-get {argv[0]}): {done.stderr.strip()}")
