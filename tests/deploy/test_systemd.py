"""The units by systemd's own checkers, in a root folder of their own; nothing is installed."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path

import pytest

from tenure.daemon.app import EFFECTS_S, MOVES_S
from testbed import bounded

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = ("tenured.service", "tenured-worker.service", "tenured-agent.service")
SYSTEM = Path("/lib/systemd/system")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine as far as the checkers look: our units, systemd's targets, the programs named."""
    for tool in ("systemd-analyze", "systemd-sysusers", "systemd-tmpfiles"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} in PATH: units are checked by systemd itself")
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    for target in SYSTEM.glob("*.target"):
        shutil.copy(target, units)
    for name in SERVICES:
        shutil.copy(UNITS / name, units)
    for program in ("opt/tenure/bin/tenured", "bin/kill"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", tmp_path / program)
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    done = bounded.run(words, text=True, timeout_s=60)
    return done.returncode, done.stdout + done.stderr


def verdict(root: Path, name: str) -> tuple[int, str]:
    """Return what systemd-analyze says of a unit, leaving out units of the host's that it lacks."""
    code, text = run("systemd-analyze", "verify", f"--root={root}", "--man=no", name)
    return code, "\n".join(line for line in text.splitlines() if "tenure" in line)


def section(name: str, part: str = "Service") -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNITS / name)
    return unit[part]


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_no_fault(root: Path, name: str) -> None:
    assert verdict(root, name) == (0, "")


@pytest.mark.parametrize(
    "line", ["Restrat=always", "SystemCallFilter=@no-such-group", "ExecStart=/no/such/program"]
)
def test_systemd_would_find_a_fault(root: Path, line: str) -> None:
    unit = root / "etc" / "systemd" / "system" / "tenured.service"
    unit.write_text(unit.read_text().replace("[Service]\n", f"[Service]\n{line}\n"))
    code, text = verdict(root, "tenured.service")
    assert code or text


@pytest.mark.parametrize("name", SERVICES)
def test_little_is_left_to_an_intruder(root: Path, name: str) -> None:
    """Systemd's own scale: 0 is safest, 10 is no protection; most services of a system have 9.

    The agent runs as root, for energy meters, and may look at other processes: 0.7 of its 2.3.
    """
    limit = 25 if name == "tenured-agent.service" else 20
    words = ("systemd-analyze", "security", "--offline=true", f"--threshold={limit}")
    code, text = run(*words, f"--root={root}", name)
    assert code == 0, text[-2000:]


def test_the_user_and_the_folders_can_be_made(root: Path) -> None:
    (root / "etc").mkdir(exist_ok=True)
    code, text = run("systemd-sysusers", f"--root={root}", str(UNITS / "sysusers.conf"))
    assert code == 0, text
    assert "tenure:" in (root / "etc" / "group").read_text()
    assert ":/var/lib/tenure:/usr/sbin/nologin" in (root / "etc" / "passwd").read_text()
    words = ("systemd-tmpfiles", "--create", f"--root={root}", str(UNITS / "tmpfiles.conf"))
    code, text = run(*words)
    assert code == 0, text
    modes = {
        name: (root / name).stat().st_mode & 0o7777
        for name in ("var/lib/tenure", "run/tenure", "etc/tenure")
    }
    assert modes == {"var/lib/tenure": 0o700, "run/tenure": 0o755, "etc/tenure": 0o750}


def test_the_unit_gives_moves_the_time_that_the_daemon_takes() -> None:
    service = section("tenured.service")
    assert float(service["TimeoutStopSec"]) > MOVES_S + EFFECTS_S
    assert service["KillMode"] == "mixed", "children must not be told to stop before the daemon"
    assert service["RestartPreventExitStatus"] == "2", "a faulty configuration is not retried"
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")


@pytest.mark.parametrize("name", SERVICES)
def test_each_unit_bounds_memory_and_processes(name: str) -> None:
    service = section(name)
    assert service["MemoryMax"]
    assert service["TasksMax"]


def test_the_worker_is_another_user_without_state_and_keys() -> None:
    service = section("tenured-worker.service")
    assert service["User"] not in (section("tenured.service")["User"], "root")
    assert {"-/var/lib/tenure", "-/etc/tenure"} <= set(service["InaccessiblePaths"].split())
