"""Writes the reference pages in docs/reference from the tables of operators and functions.

    python tools/generate.py           # writes the pages
    python tools/generate.py --check   # fails if a page on disk is not what would be written

Nothing is typed by hand there: an operator's sentence and parameters are its row in the table
(`OpInfo` in its Rust file), the signature and the first line are those of its method on `fl.Dataset`.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
from feedline import _native

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
WIDTH = 110
NOTE = "<!-- Written by tools/generate.py: change the tables, not this page. -->"


def operators() -> str:
    """The page of operators and of the methods of `Dataset` that are made of them."""
    rows = sorted(_native.operators(), key=lambda row: row["name"])
    names = {row["name"] for row in rows}
    page = [
        NOTE,
        "# Operators",
        wrapped(
            f"There are {len(rows)} operators. Each entry has the call in Python and what it does, then the "
            "operator as the plan and `explain()` know it, with its own parameters. The arguments of a "
            "method are explained at length by its docstring: `help(fl.Dataset.batch)`."
        ),
        "## The operators",
    ]
    page += [operator(row) for row in rows]
    page += [
        "## Other methods of a dataset",
        "They read a dataset, say something about it, or are made of the operators above.",
    ]
    page += [f"### {name}\n\n{python_part(name)}" for name in methods() if name not in names]
    return "\n\n".join(page) + "\n"


def operator(row: dict[str, Any]) -> str:
    """One operator: its call in Python, its sentence, its parameters."""
    parts = [f"### {row['name']}"]
    if row["name"] in methods():
        parts.append(python_part(row["name"]))
        parts.append(wrapped(f"In the plan: {row['doc']}"))
    else:
        parts.append(wrapped(f"{row['doc']} It has no method: other operators make it."))
    if row["params"]:
        parts.append("\n".join(parameter(*param) for param in row["params"]))
    return "\n\n".join(parts)


def parameter(name: str, default: str, doc: str) -> str:
    """A parameter as an item of a list."""
    given = f" (default `{default}`)" if default else ""
    return item(f"`{name}`{given}: {doc}")


def methods() -> list[str]:
    """The names of what `Dataset` offers, without what Python asks for."""
    return sorted(name for name in dir(fl.Dataset) if not name.startswith("_"))


def python_part(name: str) -> str:
    """The call of a method, wrapped where it is long, and the first sentence of its docstring."""
    found = inspect.getattr_static(fl.Dataset, name)
    method = getattr(fl.Dataset, name)
    if isinstance(found, property):
        return f"```py\nds.{name}\n```\n\n{first_paragraph(found)}"
    owner = "fl.Dataset" if isinstance(found, (classmethod, staticmethod)) else "ds"
    return f"```py\n{call(f'{owner}.{name}', method)}\n```\n\n{first_paragraph(method)}"


def call(name: str, method: Callable[..., Any]) -> str:
    """A call with all arguments and their defaults, such as `ds.batch(batch_size, drop_remainder=False)`."""
    signature = inspect.signature(method)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    if len(name + text) <= WIDTH:
        return name + text
    inner = textwrap.fill(text[1:-1], WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"{name}(\n{inner}\n)"


def first_paragraph(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return wrapped((inspect.getdoc(thing) or "").partition("\n\n")[0])


def functions() -> str:
    """The page of functions, by module."""
    rows = sorted(_native.functions())
    page = [
        NOTE,
        "# Functions",
        wrapped(
            f"Traced functions can call {len(rows)} functions. A plan and `explain()` show them under these "
            "names. Most have the same name in Python; where it differs it stands after the dash. Those "
            "marked (inner) have none: indexing, methods and other functions lead to them. Python's "
            "operators, the methods of symbolic values and NumPy's functions lead to the same functions. "
            "Called on real values they compute at once."
        ),
    ]
    for module in sorted({module_of(name) for name, _ in rows}):
        page.append(f"## fl.{module}" if module else "## fl")
        page.append("\n".join(function(name, doc) for name, doc in rows if module_of(name) == module))
    return "\n\n".join(page) + "\n"


def module_of(name: str) -> str:
    """`strings` for `strings.length`; nothing for `add`."""
    return name.rpartition(".")[0]


def function(name: str, doc: str) -> str:
    """A function as an item of a list."""
    python = python_name(name)
    also = " (inner)" if python is None else "" if python == f"fl.{name}" else f" - `{python}`"
    return item(f"`{name}`{also}: {doc}")


def python_name(name: str) -> str | None:
    """Where Python has a function of the table, if it has it under its own name."""
    last = name.rpartition(".")[2]
    for path in (name, f"math.{last}", f"bitwise.{last}", f"debugging.{last}"):
        found: Any = fl
        for part in path.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return f"fl.{path}"
    return None


def wrapped(text: str) -> str:
    """Text in lines of the page's width."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> str:
    """An item of a list, in lines of the page's width."""
    return textwrap.indent(wrapped(text), "  ").replace("  ", "- ", 1)


def image() -> str:
    """The page of `fl.image`, whose functions in Python are more than those of the table."""
    names = sorted(fl.image.__all__, key=str.lower)
    page = [
        NOTE,
        "# Pictures",
        wrapped(
            "What `fl.image` has, under the names of `tf.image` where it has them too. A picture is height x "
            "width x channels; most functions take a batch of them as well. Arguments are explained at "
            "length by the docstrings: `help(fl.image.resize)`."
        ),
    ]
    return "\n\n".join(page + [picture_part(name) for name in names]) + "\n"


def picture_part(name: str) -> str:
    """A function of `fl.image`: its call and the first sentence of its docstring."""
    found = getattr(fl.image, name)
    text = f"fl.image.{name}" if isinstance(found, type) else call(f"fl.image.{name}", found)
    return f"## {name}\n\n```py\n{text}\n```\n\n{first_paragraph(found)}"


PAGES: dict[str, Callable[[], str]] = {
    "operators.md": operators,
    "functions.md": functions,
    "image.md": image,
}


def main() -> int:
    """Writes the pages, or compares them."""
    parser = argparse.ArgumentParser(description="Writes docs/reference from the tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not current")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(f"docs/reference/{name}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and check:
        print(f"not current: {', '.join(stale)}; run python tools/generate.py", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}" if stale else "the reference pages are current")
    return 0


if __name__ == "__main__":
    sys.exit(main())
