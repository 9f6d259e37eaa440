"""What is installed: one version wherever it is asked for, types for who uses the packages, and the licence."""

import tomllib
from pathlib import Path

from typer.testing import CliRunner

import plumbline
from plumbline.cli import app

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_stated_once_and_shown_alike() -> None:
    version = PROJECT["project"]["version"]
    assert plumbline.__version__ == version
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"plumbline {version}"


def test_the_changelog_has_a_section_for_the_version() -> None:
    assert f"## [{PROJECT['project']['version']}]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_package_says_that_it_is_typed() -> None:
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert [name for name in packages if not (ROOT / name / "py.typed").is_file()] == []


def test_the_licence_is_in_the_project_and_in_the_image() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert "!LICENSE" in (ROOT / ".dockerignore").read_text().split()


def test_each_release_is_told_in_sixty_lines() -> None:
    """What changed for who uses it. Reasons stand in commits and decisions."""
    releases = (ROOT / "CHANGELOG.md").read_text().split("\n## [")[1:]
    assert releases
    assert [one.partition("]")[0] for one in releases if len(one.strip().splitlines()) > 60] == []
