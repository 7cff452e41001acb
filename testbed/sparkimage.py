"""An image with Spark for ``kind: spark`` jobs: a Debian root with a JRE and Python, and pyspark.

Built once, in the cache: packages come by apt-get and pip as their users configured them, nothing
is installed on the machine. Only what a standalone cluster needs is kept of Spark's 440 MB of jars.
It has two layers, so that another Spark keeps the first one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from testbed import bounded, docker_api
from testbed.binaries import cache_dir, resolve
from testbed.errors import TestbedError
from testbed.image import saved

IMAGE = "tenure-testbed/spark:4.0"
HOME = "opt/spark"
#: Spark 4.0 runs on Java 17 and 21 and on Python 3.9 to 3.13, which Debian 12 and 13 have.
PYSPARK = "pyspark>=4.0.1,<4.1"
PACKAGES = (
    *("bash", "coreutils", "libc-bin", "python3-minimal", "libpython3-stdlib"),
    "default-jre-headless",
)
JAVA_HOME = "usr/lib/jvm/default-java"
#: Nothing of the root that a program needs; the JRE's own documents are links into these.
NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/lib/dpkg")
#: Jars of other cluster managers, of Hive, of MLlib and streaming, of the shell and of Connect.
SKIPPED_JARS = (
    *("kubernetes-*", "spark-kubernetes*", "spark-yarn*", "vertx*", "bcprov*", "bcpkix*"),
    *("hive-*", "spark-hive*", "datanucleus*", "derby*", "HikariCP*", "libthrift*", "libfb303*"),
    *("spark-mllib*", "spark-graphx*", "spark-streaming*", "breeze*", "spire*", "algebra*"),
    *("cats-*", "JTransforms*", "arpack*", "blas*", "lapack*", "rocksdbjni*", "leveldbjni*"),
    *("scala-compiler*", "spark-repl*", "jline*", "spark-connect*", "netty-tcnative*-osx-*"),
    "netty-tcnative*-windows-*",
)
_PIP_TIMEOUT_S = 600.0
_PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


def load(socket: Path) -> None:
    """Give an engine the image unless it has it; raise TestbedError if it cannot be made."""
    docker_api.ensure_image(socket, IMAGE, archive(), timeout_s=300.0)


def archive() -> Path:
    """Return the image's archive in the cache, for `docker load`; make it if it is not there.

    The first call downloads some 520 MB and takes a minute; raises TestbedError if it cannot.
    """
    path = cache_dir() / f"spark-{_fingerprint()}.tar"
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "spark.lock").open("w") as lock:
        bounded.lock(lock)
        if not path.exists():
            for old in cache_dir().glob("spark-*.tar"):
                old.unlink()
            _build(path)
    return path


def is_built() -> bool:
    """Return whether the image is in the cache, so that nothing would be downloaded."""
    return (cache_dir() / f"spark-{_fingerprint()}.tar").exists()


def _fingerprint() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


def _build(path: Path) -> None:
    """Make the archive in a folder of its own, which goes whatever happens."""
    folder = cache_dir() / f"spark-build.{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        root, spark = folder / "root", folder / "layer"
        resolve(folder, PACKAGES)
        _prepare(root)
        _unpack_spark(folder, spark / HOME)
        layers = [_tar(root, folder / "root.tar"), _tar(spark, folder / "spark.tar")]
        partial = folder / path.name
        saved(partial, IMAGE, layers, {"Cmd": ["bash"], "Env": _environment()})
        partial.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment() -> list[str]:
    path = "/usr/local/bin:/usr/bin:/bin"
    return [f"PATH={path}", f"SPARK_HOME=/{HOME}", f"JAVA_HOME=/{JAVA_HOME}", "LC_ALL=C.UTF-8"]


def _prepare(root: Path) -> None:
    """Do what the packages' scripts would have done, as far as Spark needs it."""
    for name in NEEDLESS:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
    shell = root / "bin/sh"
    if not shell.exists():
        shell.symlink_to("bash")
    # the shared archive of classes halves the start of a JVM; without it Spark works all the same
    java = f"/{JAVA_HOME}/bin/java"
    bounded.run(["chroot", str(root), java, "-Xshare:dump"], timeout_s=120)


def _unpack_spark(folder: Path, home: Path) -> None:
    """Lay out SPARK_HOME from pyspark's source archive, which carries Spark."""
    argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    argv += ["--dest", str(folder), PYSPARK]
    done = bounded.run(argv, text=True, timeout_s=_PIP_TIMEOUT_S)
    found = next(folder.glob("pyspark-*.tar.gz"), None)
    if done.returncode or found is None:
        raise TestbedError(f"pip download {PYSPARK}: {done.stderr.strip()[-1000:]}")
    wanted = {"deps/bin": "bin", "deps/jars": "jars", "lib": "python/lib"}
    with tarfile.open(found) as tar:
        for member in tar:
            inside = member.name.partition("/")[2]
            parent, _, name = inside.rpartition("/")
            if member.isfile() and parent in wanted and not _is_skipped(name):
                target = home / wanted[parent] / name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                assert source is not None
                with source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
                target.chmod(member.mode & 0o777 | 0o444)
    found.unlink()


def _is_skipped(name: str) -> bool:
    return name.endswith(".cmd") or any(fnmatch(name, pattern) for pattern in SKIPPED_JARS)


def _tar(folder: Path, path: Path) -> Path:
    """Write a folder's content as a layer: sorted, root's, and without times."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for each in _walk(folder):
            entry = tar.gettarinfo(str(each), str(each.relative_to(folder)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            if entry.isreg():
                with each.open("rb") as file:
                    tar.addfile(entry, file)
            elif entry.isdir() or entry.issym() or entry.islnk():
                tar.addfile(entry)
    shutil.rmtree(folder)
    return path


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            yield Path(base) / name


def main() -> None:
    """Build the image and print where its archive is."""
    path = archive()
    print(json.dumps({"image": IMAGE, "archive": str(path), "bytes": path.stat().st_size}))


if __name__ == "__main__":
    main()
