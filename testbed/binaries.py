"""Find the engine's binaries in PATH, or unpack the distribution's packages into a cache.

Nothing is installed: packages are downloaded with `apt-get download` and unpacked with
`dpkg -x` into the testbed's own folder. The host's package lists are used if they are there;
otherwise lists are fetched into the same folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from testbed import bounded
from testbed.errors import TestbedError
from testbed.layout import Toolchain

_ENGINE_PACKAGES = ("docker.io", "containerd", "runc")
_IMAGE_PACKAGE = "busybox-static"
_OPTIONAL_PACKAGES = ("tini", "iptables")
_WANTED = (
    *("dockerd", "docker", "docker-proxy", "containerd", "containerd-shim", "ctr", "runc"),
    *("containerd-shim-runc-v1", "containerd-shim-runc-v2", "docker-init", "tini-static"),
    *("busybox", "xtables-nft-multi", "xtables-legacy-multi"),
)
_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_APT_TIMEOUT_S = 300.0


def cache_dir() -> Path:
    """Return the cache folder: TENURE_TESTBED_CACHE, else tenure-testbed in the XDG cache."""
    own = os.environ.get("TENURE_TESTBED_CACHE")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "tenure-testbed"


def _search_path() -> str:
    """Return PATH with the folders of system programs, which a user's PATH may lack."""
    given = os.environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*filter(None, given), *_SYSTEM_PATH]))


def which(program: str) -> str | None:
    """Return the path of a program in PATH or in the system's folders."""
    return shutil.which(program, path=_search_path())


def toolchain() -> Toolchain:
    """Return the binaries, unpacking packages first if need be; raise TestbedError if impossible.

    The first call on a machine may download some 70 MB; later ones read a file.
    """
    source = which("dockerd") or "packages"
    folder = cache_dir() / ("unpacked" if source == "packages" else "beside-own-docker")
    record = folder / "toolchain.json"
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "lock").open("w") as lock:
        bounded.lock(lock)
        if not _is_usable(record):
            _build(folder, None if source == "packages" else source)
        return Toolchain(**json.loads(record.read_text()))


def _is_usable(record: Path) -> bool:
    """Return whether the record of an earlier call still names what exists."""
    try:
        known = Toolchain(**json.loads(record.read_text()))
    except (OSError, ValueError, TypeError):
        return False
    return all(os.path.exists(p) for p in (known.dockerd, known.busybox, known.init_path) if p)


def _build(folder: Path, own_dockerd: str | None) -> None:
    """Fill a folder with bin, lib and toolchain.json, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "deb", "root"):
        (folder / name).mkdir(parents=True)
    download(folder, [*(_ENGINE_PACKAGES if own_dockerd is None else ()), _IMAGE_PACKAGE])
    for package in _OPTIONAL_PACKAGES:
        with contextlib.suppress(TestbedError):  # not in every release: what works is probed below
            download(folder, [package])
    root = folder / "root"
    for program in _WANTED:
        _pick(root, program, folder / "bin")
    xtables = next(root.glob("usr/lib/**/xtables"), None)
    if xtables is not None:
        xtables.rename(folder / "xtables")
    _complete_libraries(folder, (*_ENGINE_PACKAGES, "iptables"))
    chain = _describe(folder, own_dockerd)
    for name in ("deb", "root", "apt"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "toolchain.json").write_text(json.dumps(asdict(chain), indent=1))


def unpack_program(folder: Path, package: str, program: str) -> None:
    """Fill a folder with bin/PROGRAM of a package and the libraries in lib that the system lacks.

    The caller holds the lock of the cache. Raises TestbedError if it cannot be had.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "deb", "root"):
        (folder / name).mkdir(parents=True)
    download(folder, [package])
    _pick(folder / "root", program, folder / "bin")
    if not (folder / "bin" / program).exists():
        raise TestbedError(f"the package {package} holds no {program}")
    _complete_libraries(folder, (package,))
    for name in ("deb", "root", "apt"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _pick(root: Path, program: str, target: Path) -> None:
    """Copy one program of the unpacked packages into a folder, following its links."""
    for where in ("usr/bin", "usr/sbin", "bin", "sbin"):
        found = root / where / program
        if found.exists():
            shutil.copy2(found, target / program)
            return


def _describe(folder: Path, own_dockerd: str | None) -> Toolchain:
    """Return the toolchain of a filled folder."""
    binaries = folder / "bin"
    busybox = binaries / "busybox"
    if not busybox.exists():
        raise TestbedError("the package busybox-static holds no busybox")
    init = next((binaries / n for n in ("tini-static",) if (binaries / n).exists()), None)
    system = os.pathsep.join(_SYSTEM_PATH)
    path = f"{binaries}:{system}"
    if own_dockerd is not None:  # its containerd and runc are beside it
        path = f"{Path(own_dockerd).parent}:{system}:{binaries}"
    library_path = str(folder / "lib") if any((folder / "lib").iterdir()) else ""
    xtables_path, has_iptables = _choose_iptables(folder, library_path)
    return Toolchain(
        dockerd=own_dockerd or str(binaries / "dockerd"),
        path=path,
        library_path=library_path,
        xtables_path=xtables_path,
        has_iptables=has_iptables,
        init_path="" if init is None else str(init),
        busybox=str(busybox),
    )


def _apt(argv: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    return bounded.run(argv, cwd=cwd, env=env, text=True, timeout_s=_APT_TIMEOUT_S)


def _private_lists(folder: Path) -> list[str]:
    """Return apt options that keep lists and caches in our folder."""
    apt = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    return ["-o", f"Dir::State::lists={apt / 'lists'}", "-o", f"Dir::Cache={apt / 'cache'}"]


def unpack(deb: Path, root: Path) -> None:
    """Unpack a package's files below a folder; raise TestbedError with dpkg's words on failure."""
    bounded.run(["dpkg", "-x", deb, root], check=True, timeout_s=_APT_TIMEOUT_S)


def download(folder: Path, packages: Iterable[str]) -> None:
    """Download and unpack packages into root; raise TestbedError with apt's words on failure."""
    for program in ("apt-get", "dpkg"):
        if which(program) is None:
            raise TestbedError(f"no dockerd in PATH and no {program} to fetch one with")
    debs = folder / "deb"
    base = ["apt-get", "-q", "-o", "APT::Sandbox::User=root"]
    # Without lists apt-get fails, with old lists the mirror may hold newer files by now.
    done = _apt([*base, "download", *packages], debs)
    if done.returncode:
        own = _private_lists(folder)
        updated = _apt([*base, *own, "update"], debs)
        done = _apt([*base, *own, "download", *packages], debs)
        if done.returncode:
            raise TestbedError(f"apt-get download: {updated.stderr}{done.stderr}")
    for deb in sorted(debs.glob("*.deb")):
        unpack(deb, folder / "root")
        deb.unlink()


def resolve(folder: Path, packages: Iterable[str]) -> None:
    """Unpack packages and all that they depend on into root, as if nothing were installed.

    Raises TestbedError with apt's words on failure.
    """
    if which("apt-get") is None or which("dpkg") is None:
        raise TestbedError("no apt-get and dpkg to fetch packages with")
    (folder / "apt/cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (folder / "root").mkdir(exist_ok=True)
    status = folder / "apt/status"
    status.touch()
    base = ["apt-get", "-q", "-y", "-o", "APT::Sandbox::User=root"]
    base += ["-o", f"Dir::State::status={status}", "-o", f"Dir::Cache={folder / 'apt/cache'}"]
    install = ["install", "--download-only", "--no-install-recommends", *packages]
    done = _apt([*base, *install], folder)
    if done.returncode:
        own = [*base, *_private_lists(folder)]
        updated = _apt([*own, "update"], folder)
        done = _apt([*own, *install], folder)
        if done.returncode:
            raise TestbedError(f"apt-get install: {updated.stderr}{done.stderr}")
    for deb in sorted((folder / "apt/cache/archives").glob("*.deb")):
        unpack(deb, folder / "root")
    shutil.rmtree(folder / "apt")


def _missing_libraries(folder: Path) -> set[str]:
    """Return the shared libraries that neither the system nor our lib folder has."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder / "lib"), "LC_ALL": "C"}
    missing = set()
    for binary in sorted((folder / "bin").iterdir()):
        done = bounded.run(["ldd", str(binary)], env=env, text=True)
        for line in done.stdout.splitlines():
            if "not found" in line:
                missing.add(line.split()[0])
    return missing


def _complete_libraries(folder: Path, roots: Sequence[str]) -> None:
    """Fetch the libraries that are missing, and only those: the rest stay the system's own."""
    if not _missing_libraries(folder):
        return
    download(folder, _library_packages(folder, roots))
    while missing := _missing_libraries(folder):
        for name in missing:
            found = next((folder / "root").glob(f"**/{name}"), None)
            if found is None:
                raise TestbedError(f"no package brings the shared library {name}")
            shutil.copy2(found, folder / "lib" / name)


def _library_packages(folder: Path, roots: Sequence[str]) -> list[str]:
    """Return the library packages that packages depend on, directly or not, but not libc."""
    own = _private_lists(folder) if (folder / "apt").exists() else []
    without = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
    options = [f"--no-{kind}" for kind in without]
    done = _apt(["apt-cache", *own, "depends", "--recurse", *options, *roots], folder)
    names = {line.strip() for line in done.stdout.splitlines() if line and line[0].isalpha()}
    skipped = ("libc6", "libc-", "libgcc", "libcrypt1", "libpam", "libelogind")
    return sorted(
        n for n in names if n.startswith("lib") and ":" not in n and not n.startswith(skipped)
    )


def _choose_iptables(folder: Path, library_path: str) -> tuple[str, bool]:
    """Return the extension folder and whether an iptables works that the engine will find.

    The system's own is taken if it works; else ours, in the variant this kernel knows.
    """
    if which("iptables") and _has_nat(["iptables"], {}):
        return "", True
    extensions = str(folder / "xtables")
    env = {"XTABLES_LIBDIR": extensions, "LD_LIBRARY_PATH": library_path}
    for variant in ("xtables-nft-multi", "xtables-legacy-multi"):
        binary = folder / "bin" / variant
        if binary.exists() and _has_nat([str(binary), "iptables"], env):
            for name in ("iptables", "ip6tables", "iptables-save"):
                (folder / "bin" / name).symlink_to(variant)
            return extensions, True
    return "", False


def _has_nat(iptables: Sequence[str], env: dict[str, str]) -> bool:
    """Return whether a rule like the engine's own can be set, in a namespace made for it."""
    rule = ["-t", "nat", "-A", "OUTPUT", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "RETURN"]
    done = bounded.run(
        ["unshare", "--net", *iptables, *rule],
        env={**os.environ, "PATH": _search_path(), **env},
    )
    return done.returncode == 0
