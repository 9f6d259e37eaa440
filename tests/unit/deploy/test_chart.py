"""The Helm chart: what it renders is valid Kubernetes, starts the service that it says, and lets in nobody else.

Go's own text/template renders it, with Helm's functions but for ``include``, which is done here. Where `helm` is on the
path it must render the same.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from services.common.certificates import CertificateFiles
from services.common.identity import Role
from services.common.settings import load_settings
from services.network.bootstrap import make_transport
from services.roles import check_role

kubernetes_validate = pytest.importorskip("kubernetes_validate")
jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(find_spec("go_template") is None, reason="py-go-template isn't here")

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/plumbline"
# The oldest that the chart asks for, and a later one.
KUBERNETES = ("1.27", "1.33")
RELEASE = {"Name": "clinic", "Namespace": "federation", "Service": "Helm"}
EVERYTHING: dict[str, Any] = {
    "name": "clinic-a",
    "image": {"digest": "sha256:" + "a" * 64, "pullSecrets": [{"name": "registry"}]},
    "peers": {"coordinator": "coordinator:50051", "active": "bank.example:443"},
    "settings": {"DATA": "/data/clients.csv", "ID_COLUMN": "client", "STEP_TIMEOUT": 30, "DISCLOSE": True},
    "secretSettings": {"DATA_DIR": {"secret": "database", "key": "url"}},
    "certificates": {"secret": "pair", "certificate": "a.crt", "key": "a.key", "revocations": "revoked"},
    "state": {"size": "5Gi", "storageClass": "fast"},
    "dataClaim": "tables",
    "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
    "networkPolicy": {
        "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "to": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}],
    },
    "metrics": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"name": "watching"}}}]},
    "refuseDisruption": True,
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podAnnotations": {"a": "b"},
}
ACTIVE: dict[str, Any] = {
    "role": "active",
    "peers": {"coordinator": "coordinator:50051", "passive": "passive:50051"},
    "settings": {"DATA": "/data/bank.csv", "ID_COLUMN": "client", "LABEL_COLUMN": "default"},
}
VALUES = {"coordinator": {"role": "coordinator"}, "active": ACTIVE, "everything": EVERYTHING}


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """As Helm lays one file of values over another."""
    both = dict(values)
    for key, value in changes.items():
        both[key] = merged(both[key], value) if isinstance(value, dict) and isinstance(both.get(key), dict) else value
    return both


def values_of(changes: dict[str, Any]) -> dict[str, Any]:
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), changes)
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    return values


# In a process of its own: the library brings Go's runtime, with threads and signal handlers that stay.
_EXECUTE = """
import json, sys
from pathlib import Path
import go_template
source, facts = Path(sys.argv[1]), json.load(sys.stdin)
texts = []
for text in facts.pop("texts"):
    source.write_text(text)
    texts.append(go_template.render(source, facts).decode())
print(json.dumps(texts))
"""


def executed(folder: Path, texts: list[str], facts: dict[str, Any]) -> list[str]:
    """What these templates become."""
    included = [re.sub(r'include "(\S+)" \.', r'(index .Included "\1")', text) for text in texts]
    command = [sys.executable, "-c", _EXECUTE, str(folder / "template")]
    given = json.dumps({**facts, "texts": included})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    assert not [one for one in found if one.startswith("render template failed")], found
    return found


def rendered(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """The manifests by kind."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    included: dict[str, str] = {}
    facts = {
        "Values": values_of(changes),
        "Release": RELEASE,
        "Chart": {"AppVersion": chart["appVersion"]},
        "Included": included,
    }
    helpers = (CHART / "templates/_helpers.tpl").read_text()
    for name, text in re.findall(r'define "(\S+)" -}}\n(.*?)\n{{- end', helpers, re.S):
        (included[name],) = executed(folder, [text], facts)
    texts = executed(folder, [path.read_text() for path in sorted((CHART / "templates").glob("*.yaml"))], facts)
    found = [yaml.safe_load(text) for text in texts]
    return {one["kind"]: one for one in found if one}


def service_of(manifests: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = manifests["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", VALUES)
def test_what_is_rendered_is_valid(tmp_path: Path, name: str, version: str) -> None:
    manifests = rendered(tmp_path, VALUES[name])
    assert ("PodDisruptionBudget" in manifests) == (name == "everything")
    assert {"NetworkPolicy", "Service", "StatefulSet"} <= set(manifests)
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_manifest_that_is_not_is_refused(tmp_path: Path) -> None:
    manifest = rendered(tmp_path, {})["StatefulSet"]
    manifest["spec"]["template"]["spec"]["contaners"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES[0], strict=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "operator"},
        {"rôle": "active"},
        {"settings": {"CERTS": "/elsewhere"}},
        {"settings": {"epochs": 3}},
        {"peers": {"active": "bank"}},
        {"image": {"digest": "sha256:abc"}},
        {"name": "clinic a"},
    ],
    ids=str,
)
def test_values_that_can_not_work_are_refused_before_anything_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        values_of(wrong)


@pytest.mark.parametrize("name", ["coordinator", "active", "everything"])
def test_the_service_starts_with_what_the_pod_gives_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = rendered(tmp_path, VALUES[name])
    container = service_of(manifests)
    role = Role(container["args"][1])
    environment = {one["name"]: one.get("value", "a-secret") for one in container["env"]}
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    settings = load_settings()
    check_role(settings, role)
    assert settings.peers == values_of(VALUES[name])["peers"]
    assert settings.listen == f"0.0.0.0:{container['ports'][0]['containerPort']}"
    volumes = {one["name"]: one for one in manifests["StatefulSet"]["spec"]["template"]["spec"]["volumes"]}
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert bool(settings.metrics) == (name == "everything")
    assert str(settings.state_dir).startswith("/var/lib/plumbline/")
    assert mounted["/var/lib/plumbline"] == "state"
    sources = volumes[mounted[str(settings.certs)]]["projected"]["sources"]
    shown = {item["path"] for one in sources for kind in one.values() for item in kind["items"]}
    files = make_transport(settings, role).certificates
    assert isinstance(files, CertificateFiles)
    needed = {files.authority.name, files.certificate.name, files.key.name}
    assert shown - {files.revocations.name} == needed
    assert (files.revocations.name in shown) == (name == "everything")


def test_a_service_has_no_privileges_and_asks_for_its_own_health(tmp_path: Path) -> None:
    pod = rendered(tmp_path, {})["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    user = pod["securityContext"]
    assert user["runAsNonRoot"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}\n" in (ROOT / "Dockerfile").read_text()
    assert user["fsGroup"] == user["runAsGroup"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    (mode,) = [one["projected"]["defaultMode"] for one in pod["volumes"] if "projected" in one]
    assert mode == 0o440
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        python, _, module, role = container[probe]["exec"]["command"]
        assert (python, role) == ("python", container["args"][1])
        assert find_spec(module)


@pytest.mark.parametrize("name", VALUES)
def test_nobody_else_may_call_and_nobody_else_is_called(tmp_path: Path, name: str) -> None:
    manifests = rendered(tmp_path, VALUES[name])
    policy, selected = manifests["NetworkPolicy"]["spec"], manifests["StatefulSet"]["spec"]["selector"]["matchLabels"]
    assert policy["podSelector"]["matchLabels"] == selected == manifests["Service"]["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    federation = {"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "plumbline"}}}
    more = [{"ipBlock": {"cidr": "10.0.0.0/8"}}] if name == "everything" else []
    # A rule without a peer is one for everybody.
    watching = [EVERYTHING["metrics"]["from"]] if name == "everything" else []
    assert [one["from"] for one in policy["ingress"]] == [[federation, *more], *watching]
    assert [one["ports"][0]["port"] for one in policy["ingress"]] == ["grpc", *(["metrics"] if watching else [])]
    to = [one.get("to") for one in policy["egress"]]
    assert to == [[federation], None, *([more] if more else [])]
    assert {one["port"] for one in policy["egress"][1]["ports"]} == {53}


def test_the_chart_has_the_projects_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on the path")
@pytest.mark.parametrize("name", VALUES)
def test_helm_renders_the_same(tmp_path: Path, name: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(VALUES[name]))
    options = ["--namespace", str(RELEASE["Namespace"]), "--values", str(values)]
    subprocess.run(["helm", "lint", str(CHART), "--values", str(values)], check=True)
    done = subprocess.run(
        ["helm", "template", "clinic", str(CHART), *options], check=True, capture_output=True, text=True
    )
    found = {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}
    assert found == rendered(tmp_path, VALUES[name])
