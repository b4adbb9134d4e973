"""Columns and types that tables are made of."""

from typing import Any

from sqlalchemy import Column, Integer, Text
from sqlalchemy.dialects.postgresql import BIGINT, TIMESTAMP
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import UserDefinedType

INSTANT = TIMESTAMP(timezone=True)


class TransactionId(UserDefinedType[str]):
    """PostgreSQL's xid8; compared in SQL, never in Python."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The type's name in DDL."""
        return "xid8"


class Snapshot(UserDefinedType[str]):
    """PostgreSQL's pg_snapshot; compared in SQL, never in Python."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The type's name in DDL."""
        return "pg_snapshot"


# SQLAlchemy does not know the two types; without this their columns reflect as nothing.
ischema_names["xid8"] = TransactionId
ischema_names["pg_snapshot"] = Snapshot


def code(name: str, *, key: bool = False, required: bool = True) -> Column[str]:
    """A code: compared byte by byte."""
    return Column(name, Text(collation="C"), primary_key=key, nullable=not required)


def plain(name: str, *, required: bool = False) -> Column[str]:
    """A text, in schema `chot`."""
    return Column(name, Text, nullable=not required)


def instant(name: str, *, required: bool = False) -> Column[object]:
    """A moment."""
    return Column(name, INSTANT, nullable=not required)


def count(name: str) -> Column[int]:
    """A whole number of 32 bits."""
    return Column(name, Integer, nullable=False)


def words(name: str, *, required: bool = True) -> Column[str]:
    """A text of any length."""
    return Column(name, Text, nullable=not required)


def big(name: str, *, required: bool = True) -> Column[int]:
    """A whole number of 64 bits."""
    return Column(name, BIGINT, nullable=not required)
