"""The tree itself: what a reader of the code may rely on."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "goqueue"
RIGHTS_FOR_CALLERS = SOURCE / "service" / "security" / "rights"
# Longer files hide what they are about.
MAX_LINES = 500
# A thing is named by what it is in the domain.
MEANINGLESS_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
MACHINE_PATH = re.compile(r"""(?<![\w.])/(?:home|root|Users|work|workspace)/\w""")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".sh", ".yaml", ".yml", ".c", ".h"}

MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = {path.name for path in SOURCE.iterdir() if path.is_dir()}
OWN_FOLDERS = ("src", "tests", "bench", "docs", "demo")
TEXTS = sorted(
    path
    for path in [
        *(path for folder in OWN_FOLDERS for path in (ROOT / folder).rglob("*")),
        *ROOT.glob("*"),
    ]
    if path.is_file() and (path.suffix in TEXT_SUFFIXES or path.name == "Makefile")
    if "egg-info" not in str(path)
)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_a_tree() -> None:
    assert len(MODULES) > 50
    assert ROOT / "pyproject.toml" in TEXTS


def test_modules_are_short() -> None:
    assert not [relative(m) for m in MODULES if len(m.read_text().splitlines()) > MAX_LINES]


def test_modules_are_named_after_the_domain() -> None:
    def words(module: Path) -> set[str]:
        return set(re.split(r"[/_]", str(module.relative_to(SOURCE).with_suffix(""))))

    assert not [relative(module) for module in MODULES if words(module) & MEANINGLESS_NAMES]


def test_modules_and_packages_say_what_they_are() -> None:
    folders = {module.parent for module in MODULES}
    assert not [relative(f) for f in folders if not (f / "__init__.py").exists()]
    parsed = {module: ast.parse(module.read_text()) for module in MODULES}
    assert not [relative(m) for m, tree in parsed.items() if not ast.get_docstring(tree)]


def test_nothing_is_left_for_later() -> None:
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert not [relative(module) for module in MODULES if unfinished.search(module.read_text())]


def test_rights_are_made_in_two_places_only() -> None:
    """Whoever else made one would get around the question whether the caller may. Where they are
    defined, some are made of others."""
    rights = {
        target.id
        for node in ast.parse((SOURCE / "model" / "rights.py").read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "NewType"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert "WritableTopic" in rights
    makers = {
        SOURCE / "model" / "rights.py",
        *RIGHTS_FOR_CALLERS.glob("*.py"),
        SOURCE / "broker" / "own_grants.py",
    }
    found = [
        f"{relative(module)}:{node.lineno}"
        for module in MODULES
        if module not in makers and "goqueue.model.rights" in module.read_text()
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in rights or (node.func.id == "cast" and _names(node.args[0]) & rights)
    ]
    assert not found


def _names(node: ast.AST) -> set[str]:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def test_no_absolute_paths_of_one_machine() -> None:
    found = [
        f"{relative(path)}:{number}"
        for path in TEXTS
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    marker = re.compile(r"pytest\.(mark\.)?(skip|skipif|xfail)\b")
    found = [
        relative(path)
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and marker.search(path.read_text())
    ]
    assert not found


def test_pins_are_exact_and_name_no_host() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_batches_are_unpacked_in_one_place() -> None:
    """A few KB may hold gigabytes: whoever decodes goes through the bounded decoder."""
    decoders = re.compile(r"\bDefaultRecordBatch\b|\b\w+_decode\(|\.decompress\w*\(|import cramjam")
    # What a client unpacks is its own memory.
    theirs = ("client", "spark", "cli")
    found = {
        str(module.relative_to(SOURCE))
        for module in MODULES
        if module.relative_to(SOURCE).parts[0] not in theirs
        if decoders.search(module.read_text())
    }
    assert found == {"model/records.py", "model/unpacking.py"}


def test_numbers_are_read_in_one_place() -> None:
    """`²` is a digit to `isdigit` and no number to `int`; nor is one of 5,000 digits."""
    ours = ("broker", "doors", "model", "service", "state")
    found = [
        relative(module)
        for module in MODULES
        if module.relative_to(SOURCE).parts[0] in ours
        if re.search(r"\.is(digit|decimal|numeric)\(", module.read_text())
    ]
    assert found == ["src/goqueue/model/digits.py"]


def test_the_map_names_what_is_there() -> None:
    """docs/architecture.md is how newcomers find their way: every file it names exists."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    [features] = re.findall(r"^\| feature \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    named = {
        name
        for name in re.findall(r"`([\w*./]+)`", text.replace(features, ""))
        if name.endswith(".py") or (name.split("/")[0] in PACKAGES and "/" in name)
    }
    assert len(named) > 30
    assert not [name for name in sorted(named) if not any(SOURCE.rglob(name.rstrip("/")))]
    heading, _, *rows = features.strip().splitlines()
    packages = re.findall(r"`(\w+)/`", heading)
    lost = [
        f"{package}/{name}"
        for row in rows
        for package, cell in zip(packages, row.split("|")[2:], strict=False)
        for name in re.findall(r"`([^`]+)`", cell)
        if not any((SOURCE / package).rglob(name.rstrip("/")))
        and not (SOURCE / name.rstrip("/")).exists()
    ]
    assert not lost


# Methods of services that ask for the right to make, change or delete something, and are not told
# to the audit: each with its reason.
UNAUDITED = {
    "Administration.coordinator": "looks for a broker",
    "Administration.move_to_log_dir": "changes nothing: there is one directory",
    "BackupService.renew": "again and again while a backup is made, of which begin and end tell",
    "CallService.read": "brokers among themselves",
    "ClusterService.check_alterable": "for changes that every broker refuses",
    "QueuePolicies.apply": "done for a change of a queue, which is told",
    "QueuePolicies.check": "done for a change of a queue, which is told",
    "ReplicaMoveService.cancel": "done by alter, which is told",
    "ReplicaMoveService.drain_plan": "a plan changes nothing",
    "ReplicaMoveService.rebalance_plan": "a plan changes nothing",
    "RuleService.check_used": "changes nothing",
    "UserService.alter_credentials": "done by alter_scram, which is told",
    "ReplicationService.check": "brokers among themselves",
    "ReplicationService.fetch": "brokers among themselves",
    "ReplicationService.name_of": "brokers among themselves",
}


def test_administrative_changes_are_told_to_the_audit() -> None:
    """By the rights that a method asks for: whoever adds one says `@audited`, or here why not."""
    changing = re.compile(
        r"(creatable|alterable|configurable|deletable|acting|changeable|removable)_\w+|token_owner"
    )
    unaudited = set()
    audited_count = 0
    for module in sorted((SOURCE / "service").rglob("*.py")):
        if module.parent == RIGHTS_FOR_CALLERS:
            continue
        for service in ast.parse(module.read_text()).body:
            if not isinstance(service, ast.ClassDef):
                continue
            for method in service.body:
                if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                asked = {each.attr for each in ast.walk(method) if isinstance(each, ast.Attribute)}
                if not any(changing.fullmatch(name) for name in asked):
                    continue
                decorators = {name for each in method.decorator_list for name in _names(each)}
                audited_count += "audited" in decorators
                if "audited" not in decorators:
                    unaudited.add(f"{service.name}.{method.name}")
    assert audited_count > 25
    assert unaudited == UNAUDITED.keys()
