"""What needs no engine: specs, the layout, the written configuration, the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from testbed import NodeSpec, TestbedError, config, default_specs, disks
from testbed.cli import main
from testbed.layout import Layout, Toolchain, load
from testbed.spec import load_specs, validate

TOOLS = Toolchain("dockerd", "/bin", "", "", True, "", "busybox")


def layout(folder: Path) -> Layout:
    return Layout(
        directory=folder,
        index=7,
        specs=tuple(default_specs(4)),
        toolchain=TOOLS,
        storage_driver="overlay2",
        live_restore=True,
        remove_directory=False,
    )


def test_default_nodes_are_the_paper_s_generations() -> None:
    specs = default_specs(6)
    assert [s.generation for s in specs[:4]] == ["nursery", "young", "young", "tenured"]
    assert [s.name for s in specs if not s.initially_on] == ["node3"]
    assert {s.generation for s in specs[4:]} == {"young"}


@pytest.mark.parametrize("name", ["", "Node", "-a", "a" * 31, "a/b"])
def test_a_name_no_host_can_have_is_refused(name: str) -> None:
    with pytest.raises(TestbedError, match="node name"):
        NodeSpec(name, "young")


def test_equal_names_are_refused() -> None:
    with pytest.raises(TestbedError, match="differ"):
        validate([NodeSpec("a1", "young"), NodeSpec("a1", "young")])


def test_an_unknown_field_of_a_spec_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps([{"name": "a1", "generation": "young", "colour": 1}]))
    with pytest.raises(TestbedError, match="colour"):
        load_specs(path)


def test_the_layout_survives_its_file(folder: Path) -> None:
    layout(folder).save()
    assert load(folder) == layout(folder)


def test_a_path_too_long_for_a_socket_is_refused(folder: Path) -> None:
    with pytest.raises(TestbedError, match="too long"):
        layout(folder / ("x" * 90)).save()


def test_the_yaml_is_the_configuration(folder: Path) -> None:
    text = config.as_yaml(layout(folder))
    assert yaml.safe_load(text) == config.config(layout(folder))


def test_only_powered_nodes_get_the_command_driver(folder: Path) -> None:
    drivers = [node["power"]["driver"] for node in config.config(layout(folder))["nodes"]]
    assert drivers == ["none", "none", "command", "none"]


def test_a_missing_testbed_is_an_error_with_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["power", "on", "node1", "--dir", str(folder)]) == 1
    assert "no testbed here" in capsys.readouterr().err


def test_down_of_nothing_is_no_error(folder: Path) -> None:
    assert main(["down", "--dir", str(folder)]) == 0


def test_what_a_disk_lacks_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(disks, "_CONTROL", tmp_path / "loop-control")
    monkeypatch.setattr(disks, "_PROGRAMS", {"mkfs.none": "nothing", "sh": "dash"})
    assert disks.check() == [
        "the program mkfs.none is missing (Debian package nothing)",
        f"there are no loop devices: {tmp_path}/loop-control is missing",
    ]
