"""Companies, brands and stores: who owns books, where rights end, where goods lie.

Codes compare byte by byte (collation C), so that every order and checksum built on them is the
same on every machine.
"""

from alembic import op

revision = "0020_company"
down_revision = "0009_enqueue"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.companies (
            code          text COLLATE "C" PRIMARY KEY CHECK (code <> '' AND length(code) <= 40),
            name          text NOT NULL,
            currency      text NOT NULL DEFAULT 'VND' CHECK (currency ~ '^[A-Z]{3}$'),
            minor_digits  smallint NOT NULL DEFAULT 0 CHECK (minor_digits BETWEEN 0 AND 4)
        )""")
    op.execute("""
        CREATE TABLE books.brands (
            company  text COLLATE "C" NOT NULL REFERENCES books.companies,
            code     text COLLATE "C" NOT NULL CHECK (code <> '' AND length(code) <= 40),
            name     text NOT NULL,
            PRIMARY KEY (company, code)
        )""")
    op.execute("""
        CREATE TABLE books.stores (
            company  text COLLATE "C" NOT NULL,
            code     text COLLATE "C" NOT NULL CHECK (code <> '' AND length(code) <= 40),
            brand    text COLLATE "C" NOT NULL,
            name     text NOT NULL,
            PRIMARY KEY (company, code),
            FOREIGN KEY (company, brand) REFERENCES books.brands
        )""")
    op.execute("GRANT SELECT, INSERT ON books.companies, books.brands, books.stores TO chot_app")
    op.execute("GRANT SELECT ON books.companies, books.brands, books.stores TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.stores, books.brands, books.companies")
