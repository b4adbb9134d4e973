"""The SQL of the code: every statement that a module holds, and every literal that looks like one."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import TextClause

from tests.architecture.locks import ROOT

PACKAGES = ("api", "shared", "worker")
SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|GRANT)\b")


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every source file as (path below the root, its tree)."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def migrations() -> Iterator[tuple[Path, ast.Module]]:
    """Every revision as (path, its tree)."""
    for path in sorted((ROOT / "alembic" / "versions").glob("*.py")):
        yield path, ast.parse(path.read_text())


def module_statements() -> dict[str, TextClause]:
    """Every text() constant of every module, by `module.NAME`."""
    found: dict[str, TextClause] = {}
    for package in PACKAGES:
        home = importlib.import_module(package)
        for each in pkgutil.walk_packages(home.__path__, f"{package}."):
            if each.name.endswith("__main__"):
                continue
            module = importlib.import_module(each.name)
            for name, value in vars(module).items():
                if isinstance(value, TextClause) and _is_its_own(module.__name__, name):
                    found[f"{module.__name__}.{name}"] = value
    return found


def _is_its_own(module: str, name: str) -> bool:
    """True when the module assigns the name itself; False for what it imports."""
    path = ROOT / (module.replace(".", "/") + ".py")
    if not path.exists():
        path = ROOT / module.replace(".", "/") / "__init__.py"
    return re.search(rf"^{name}\b.*=", path.read_text(), re.MULTILINE) is not None


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string of a file but its docstrings, as (line, text); f-strings by their parts."""
    documentation = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
        ):
            yield node.lineno, node.value


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value
