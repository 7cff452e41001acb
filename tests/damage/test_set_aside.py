"""What is set aside with a damaged record, what then must not happen, and the two ways out."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.cli.daemon import main
from tenure.core.state import set_aside
from tenure.core.state.tables import KINDS
from tenure.model.aside import Aside, Damaged
from tenure.model.container import ContainerState
from tenure.model.deployment import Deployment, Member, Phase, Revision, Rollout, Template
from tenure.model.estimate import AppRuns
from tenure.store.codec import Codec
from tenure.store.errors import StoreDamaged
from tests.damage.fleets import SEEDS, Fleet, fleet_of, plain, write
from tests.damage.test_damaged_state import start
from tests.fleet.store import Records

FAMILIES = tuple(kind for kind, rule in set_aside.RULES.items() if rule.has_family)


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    return [fleet_of(seed) for seed in SEEDS]


@pytest.fixture
def config(tmp_path: Path, fleets: list[Fleet]) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    write(tmp_path / "state", fleets[2])
    node = {"name": "away", "url": f"unix://{tmp_path}/away.sock", "generation": "nursery"}
    file = tmp_path / "tenured.yml"
    file.write_text(json.dumps({"state_dir": str(tmp_path / "state"), "nodes": [node]}))
    return file


def hurt(config: Path, kind: str, key: str) -> None:
    """Change one digit or letter at the end of a record's text."""
    with closing(sqlite3.connect(config.with_name("state") / "state.db")) as db:
        (body,) = db.execute("SELECT body FROM records WHERE (kind, key) = (?, ?)", (kind, key))
        db.execute(
            "UPDATE records SET body = ? WHERE (kind, key) = (?, ?)",
            (body[0][:-3] + "~" + body[0][-2:], kind, key),
        )
        db.commit()


def run(config: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main([*words, "--config", str(config)])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_every_kind_of_record_has_a_rule() -> None:
    assert set(set_aside.RULES) == set(KINDS)


def test_the_text_of_every_record_confirms_its_key(fleets: list[Fleet]) -> None:
    codec = Codec(KINDS)
    for fleet in fleets:
        for (kind, key), row in plain(fleet.records).items():
            if set_aside.RULES[kind].may_go and kind != "effects":
                wrong = Damaged(kind, key, codec.encode(kind, key, row).encode(), "flipped")
                rest = {
                    k: {n: r for n, r in t.items() if (k, n) != (kind, key)}
                    for k, t in fleet.records.items()
                }
                gone, refused = set_aside.spread([wrong], rest)
                assert not refused
                assert (kind, key) in {(one.kind, one.key) for one in gone}
                other = Damaged(kind, f"x{key}", wrong.body, "flipped in its key")
                assert set_aside.spread([other], rest)[1]


def test_nothing_of_a_family_is_left_behind(fleets: list[Fleet]) -> None:
    """What is left speaks of nothing that is set aside, whichever record of a family it was."""
    codec, seen = Codec(KINDS), set()
    for fleet in fleets:
        for (kind, key), row in plain(fleet.records).items():
            if kind not in FAMILIES:
                continue
            wrong = Damaged(kind, key, codec.encode(kind, key, row).encode(), "flipped")
            whole = {k: dict(rows) for k, rows in fleet.records.items()}
            del whole[kind][key]
            gone, refused = set_aside.spread([wrong], whole)
            if refused:
                assert kind == "effects"
                continue
            seen.add(kind)
            for one in gone:
                whole[one.kind].pop(one.key, None)
            assert {e.job for e in whole.get("executors", {}).values()} <= set(
                whole.get("jobs", {})
            )
            assert {t.batch for t in whole.get("tasks", {}).values()} <= set(
                whole.get("batches", {})
            )
            open_ = [m for m in whole.get("migrations", {}).values() if not m.is_over]
            assert {m.container for m in open_} <= set(whole.get("services", {}))
    assert seen >= {"jobs", "executors", "services", "tombstones", "batches", "tasks", "effects"}


def test_a_set_aside_job_is_told_and_given_up(
    config: Path, fleets: list[Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    path = config.with_name("state") / "state.db"
    key = min(fleets[2].records["executors"])
    job = key.partition("/")[0]
    assert run(config, capsys, "backup", str(config.with_name("backup")))[0] == 0
    hurt(config, "executors", key)
    code, said = run(config, capsys, "check")
    assert (code, f"executors {key}" in said) == (1, True)
    state, store = start(path)
    store.close()
    assert job not in state.tables.jobs
    assert ("executor", key) in state.quarantined
    state, store = start(path)  # and it stays so
    store.close()
    assert ("job", job) in state.quarantined
    code, said = run(config, capsys, "check")
    assert code == 0
    assert f"set aside: executors {key} of {job}: it is not what was written" in said
    assert run(config, capsys, "discard", "j-nobody")[0] == 1
    code, said = run(config, capsys, "discard", job)
    assert code == 0
    state, store = start(path)
    store.close()
    assert (state.quarantined, job in state.tables.jobs) == ({}, False)


def test_a_set_aside_job_is_put_back_and_every_node_looked_at(
    config: Path, fleets: list[Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    path, backup = config.with_name("state") / "state.db", config.with_name("backup")
    key = min(fleets[2].records["executors"])
    job = key.partition("/")[0]
    assert run(config, capsys, "backup", str(backup))[0] == 0
    hurt(config, "executors", key)
    start(path)[1].close()
    code, said = run(config, capsys, "restore", str(backup), "--only", job)
    assert (code, "looks at every node" in said) == (0, True)
    state, store = start(path)
    store.close()
    assert state.quarantined == {}
    assert state.meta.is_restoring
    for (kind, name), row in plain(fleets[2].records).items():
        if kind not in ("meta", "stays"):
            assert getattr(state.tables, kind)[name] == row


def test_a_number_of_a_service_is_given_up_only_where_its_container_is_gone(
    tmp_path: Path, config: Path, fleets: list[Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the service would begin another beside it."""
    records = fleets[2].records
    key, one = min(records["services"].items())
    web = replace(one, name="web-1", deployment="web")
    first = (Revision(1, Template("web", web.body, web.request)),)
    service = Deployment("web", 1, Rollout(), first, 1, members=(Member(1, 1, key),))
    rows = {"services": records["services"] | {key: web}, "deployments": {"web": service}}
    records = records | rows
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").mkdir(mode=0o700)
    write(tmp_path / "state", Fleet(records, fleets[2].events))
    hurt(config, "services", key)
    path = config.with_name("state") / "state.db"
    state, store = start(path)
    store.close()
    assert ("container", key) in state.quarantined
    code, said = run(config, capsys, "discard", key)
    assert (code != 0, "then add --gone" in said) == (True, True)
    code, _ = run(config, capsys, "discard", key, "--gone")
    assert code == 0
    aside = [Aside("services", key, key, "it is not what was written")]
    again = {"f" * 64: replace(web, id="f" * 64, state=ContainerState.RUNNING)}
    assert set_aside.from_backup(aside, records, {**records, "services": again}) == (
        *({}, "another container is called web-1 by now"),
    )
    lost = [Aside("deployments", "web", "web", "it is not what was written")]
    found, _ = set_aside.from_backup(lost, records, {**records, "services": again})
    assert [(m.number, m.container) for m in found["deployments"]["web"].members] == [(1, "f" * 64)]


def test_what_is_set_aside_alone_is_given_up_alone(
    tmp_path: Path, config: Path, fleets: list[Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    """A service and what was learned of an app are both called web."""
    records = fleets[2].records
    one = min(records["services"].values(), key=lambda row: row.id)
    first = (Revision(1, Template("web", one.body, one.request)),)
    web = Deployment("web", 0, Rollout(), first, 1)
    rows: Records = {"apps": {"web": AppRuns("web")}, "deployments": {"web": web}}
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").mkdir(mode=0o700)
    write(tmp_path / "state", Fleet(records | rows, fleets[2].events))
    path, backup = tmp_path / "state" / "state.db", tmp_path / "backup"
    assert run(config, capsys, "backup", str(backup))[0] == 0
    for kind in rows:
        hurt(config, kind, "web")
    start(path)[1].close()
    assert "set aside: apps web of apps/web: " in run(config, capsys, "check")[1]
    assert run(config, capsys, "discard", "apps/web")[0] == 0
    assert run(config, capsys, "restore", str(backup), "--only", "deployments/web")[0] == 0
    state, store = start(path)
    store.close()
    assert state.quarantined == {}
    assert "web" in state.tables.deployments
    assert "web" not in state.tables.apps


def test_a_service_of_a_backup_goes_back_to_its_revision_and_to_none_before(
    fleets: list[Fleet],
) -> None:
    """It may have one alone: an update that failed would have left it none."""
    now = fleets[2].records
    one = min(now["services"].values(), key=lambda row: row.id)
    there = replace(one, name="web-1", deployment="web", state=ContainerState.RUNNING)
    first = (Revision(1, Template("web", {**one.body, "Image": "older"}, one.request)),)
    web = Deployment("web", 1, Rollout(), first, 1)
    present = {**now, "services": {there.id: there}, "deployments": {}}
    kept = [Aside("deployments", "web", "deployments/web", "damaged")]
    found, why = set_aside.from_backup(kept, {**now, "deployments": {"web": web}}, present)
    assert why == ""
    row = found["deployments"]["web"]
    assert (row.phase, row.members) == (Phase.ROLLING_BACK, (Member(1, 0, there.id),))


def test_damage_of_what_all_else_stands_on_refuses_the_start(
    config: Path, fleets: list[Fleet]
) -> None:
    name = min(fleets[2].records["nodes"])
    hurt(config, "nodes", name)
    with pytest.raises(StoreDamaged, match=f"nodes {name} .*tenured restore FILE"):
        start(config.with_name("state") / "state.db")
