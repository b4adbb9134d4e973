"""An import: every line once, bad ones told by number and reason, and twice is as once."""

import asyncio
import hashlib
from uuid import UUID, uuid4

import pytest

from shared.s3 import open_s3
from shared.uploads import find_twin
from tests.document_books import mark_posted, one, sale
from tests.factories import eventually, execute, scalar
from tests.importing import HEAD, MOVEMENTS, Importing, packed, workbook
from worker.records.document_movements import move_goods

WRITTEN = """SELECT kind, doc_id, doc_line, store, to_store, qty_base, value FROM books.stock_movements
              ORDER BY id"""
EXPECTED = [
    ("opening", "DK", 1, "R1", None, 100, 1_000_000),
    ("receipt", "PN1", 1, "R1", None, 10, 150_000),
    ("issue", "BH1", 1, "R1", None, 3, None),
    ("transfer", "CK1", 1, "R1", "R2", 5, None),
    ("sales_return", "TL1", 1, "R1", None, 1, None),
]


async def test_a_file_of_movements_is_in_the_books_and_nothing_is_left_staged(
    importing: Importing,
) -> None:
    """Lines in the file's order; a return names the issue that stands before it."""
    result = await importing.take(MOVEMENTS)
    assert (result["outcome"], result["counts"]) == ("succeeded", {"created": 5})
    assert await importing.fetch(WRITTEN) == EXPECTED
    refers = """SELECT r.doc_id FROM books.stock_movements m
                  JOIN books.stock_movements r ON r.id = m.ref_movement_id"""
    assert await importing.fetch(refers) == [("BH1",)]
    assert await importing.staged() == 0


async def test_the_same_file_again_changes_nothing(importing: Importing) -> None:
    """Known by document, line and kind, also where its periods are closed meanwhile."""
    await importing.take(MOVEMENTS)
    await execute(importing.migrating.owner, "UPDATE books.periods SET status = 'closed'")
    again = await importing.take(MOVEMENTS + "\n")
    assert (again["outcome"], again["counts"]) == ("succeeded", {"unchanged": 5})
    assert await importing.fetch(WRITTEN) == EXPECTED


@pytest.mark.parametrize("form", ["gz", "xlsx", "utf-16", "bom"])
async def test_a_file_is_read_whatever_it_is_packed_in(importing: Importing, form: str) -> None:
    """CSV, also packed or as Excel writes Unicode, and XLSX."""
    rows = [line.split(",") for line in MOVEMENTS.splitlines()]
    content = {
        "gz": packed(MOVEMENTS),
        "xlsx": workbook(rows),
        "utf-16": MOVEMENTS.replace(",", "\t").encode("utf-16"),
        "bom": b"\xef\xbb\xbf" + MOVEMENTS.replace("\n", "\r\n").encode(),
    }[form]
    assert (await importing.take(content))["counts"] == {"created": 5}
    assert await importing.fetch(WRITTEN) == EXPECTED


BAD = f"""{HEAD}
N1,1,receipt,2026-01-03,R1,,A,10,150000,,
N2,1,receipt,2026-01-03,R9,,A,10,150000,,
N3,1,receipt,2026-01-03,R1,,Z,10,150000,,
N4,1,receipt,2026-01-03,R1,,A,1.5,150000,,
N5,1,receipt,2026-01-03,R1,,A,1,"1,5",,
N6,1,receipt,2027-01-03,R1,,A,1,5,,
N7,1,sales_return,2026-01-03,R1,,A,1,5,BH9,1
N1,1,receipt,2026-01-03,R1,,A,10,150000,,
N8,x,receipt,31/02/2026,R1,,A,1,5,,
N9,1,issue,2026-01-04,R1,,A,2,5,,
N10,1,receipt,2026-01-03,R1,,A,4,60000,,
"""


async def test_every_bad_line_is_told_with_its_reason_and_the_good_ones_are_there(
    importing: Importing,
) -> None:
    """Those that cannot be read, and those that the books refuse."""
    result = await importing.take(BAD)
    assert (result["outcome"], result["counts"]) == ("completed_with_errors", {"created": 2})
    assert sorted(result["rejects"]) == [
        (3, "store", "STORE_UNKNOWN"),
        (4, "item", "ITEM_UNKNOWN"),
        (5, "quantity", "UOM_NOT_EXACT"),
        (6, "value", "VALUE_NOT_EXACT"),
        (7, "posting_date", "PERIOD_UNKNOWN"),
        (8, "ref_doc", "REF_UNKNOWN"),
        (9, "doc_line", "DUPLICATE_IN_FILE"),
        (10, "doc_line", "CELL_REFUSED"),
        (11, "value", "LINE_REFUSED"),
    ]
    assert await importing.fetch("SELECT doc_id FROM books.stock_movements ORDER BY id") == [
        ("N1",),
        ("N10",),
    ]
    told = {r.line: r.rule for r in await importing.migrating.rejects(result["job"])}
    assert told[9] == "of document N1 is in line 2 of the file already"
    assert told[10] == "is not a number; posting_date '31/02/2026' is not a day of the calendar"


async def test_what_the_books_refuse_is_told_as_it_stands_in_the_file(
    importing: Importing,
) -> None:
    """Not as it was understood: whoever mends it looks for its words."""
    head = "Số CT;Dòng;Loại;Ngày;Kho;Mã hàng;Số lượng;Giá trị\n"
    result = await importing.take(
        head + "N1;1;Nhập kho;03/01/2026;R1;A;1.500,50;5\nN2;1;Nhập kho;03/01/2027;R1;A;1;5\n"
    )
    told = [(r.line, r.value) for r in await importing.migrating.rejects(result["job"])]
    assert told == [(2, "1.500,50"), (3, "03/01/2027")]
    head = "type;doc_no;doc_date;store;party;item;qty;net;vat;Kho dòng\n"
    result = await importing.take(
        head + "sale;H1;05/01/2026;R1;K1;A;1,0;1,0;0,0;\nsale;H1;05/01/2026;R1;;A;1,50;1,0;0,0;\n",
        "documents",
    )
    (one,) = await importing.migrating.rejects(result["job"])
    assert (one.line, one.field, one.value) == (3, "qty", "1,50")
    items = "code,name,base_uom,qty_scale\nA,A,cái,02\n"
    result = await importing.take(items, "items")
    (one,) = await importing.migrating.rejects(result["job"])
    assert (one.field, one.value) == ("qty_scale", "02")


async def test_a_line_that_says_something_else_than_the_books_is_refused(
    importing: Importing,
) -> None:
    """Movements are facts; the other lines of the file are as before."""
    await importing.take(MOVEMENTS)
    result = await importing.take(MOVEMENTS.replace("A,10,150000", "A,11,150001"))
    assert result["counts"] == {"unchanged": 4}
    assert result["rejects"] == [(3, "doc_line", "DIFFERS")]
    (told,) = await importing.migrating.rejects(result["job"])
    assert told.rule.startswith("of document PN1 is in the books with another quantity and value:")


async def test_too_many_bad_lines_let_nothing_in(importing: Importing) -> None:
    """Every one of them is told all the same."""
    error = await importing.refused(BAD, max_reject_percent=15)
    assert error["code"] == "TOO_MANY_REJECTS"
    assert await importing.migrating.clean_up()
    assert await importing.staged() == 0


async def test_a_dry_run_tells_what_would_become_of_it(importing: Importing) -> None:
    """Counts and rejects of the real one, and nothing written."""
    result = await importing.take(BAD, dry_run=True)
    assert result["counts"] == {"created": 2}
    assert len(result["rejects"]) == 9
    assert await importing.fetch(WRITTEN) == []
    assert await importing.staged() == 0


async def test_a_whole_file_is_refused_with_all_that_it_lacks(importing: Importing) -> None:
    """At once, before a line is read."""
    error = await importing.refused("doc_id,kind,Ngày,Ghi chú\nx,receipt,2026-01-01,\n")
    assert error["code"] == "COLUMNS_MISSING"
    for said in ("doc_line (Dòng)", "store (Kho)", "item (Mã hàng)", "quantity", "'Ghi chú'"):
        assert said in error["message"]


async def test_a_packed_file_that_was_cut_off_merges_nothing(importing: Importing) -> None:
    """Its first lines were read, and are not taken for the whole."""
    error = await importing.refused(packed(MOVEMENTS)[:-9])
    assert error["code"] == "FILE_DAMAGED"
    assert "ends in the middle" in error["message"]
    assert await importing.fetch(WRITTEN) == []


@pytest.mark.parametrize("whose", ["nobody", "OTHER", "expired", "of a brand"])
async def test_a_file_that_is_not_the_companys_is_unknown(importing: Importing, whose: str) -> None:
    """Nobody learns by an import that another company's file exists."""
    file: UUID = uuid4()
    if whose == "OTHER":
        file = await importing.send(MOVEMENTS, company="OTHER")
    elif whose == "of a brand":
        file = await importing.send(MOVEMENTS, brand="RED")
    elif whose == "expired":
        file = await importing.send(MOVEMENTS)
        await execute(
            importing.migrating.owner,
            "UPDATE chot.uploads SET expires_at = clock_timestamp() - interval '1 second'",
        )
    error = await importing.refused(file)
    assert error["code"] == "FILE_UNKNOWN"


async def test_a_file_whose_bytes_are_gone_may_be_sent_again(importing: Importing) -> None:
    """By a rule of the bucket, or a restore: else the same bytes would be that file for ever."""
    file = await importing.send(MOVEMENTS)
    key = await scalar(importing.migrating.app, "SELECT object_key FROM chot.uploads")
    async with open_s3(importing.bucket) as s3:
        await (await s3.connected()).delete(str(key))
    error = await importing.refused(file)
    assert error["code"] == "FILE_GONE"
    async with importing.migrating.app.begin() as conn:
        twin = await find_twin(
            conn,
            company="ACME",
            brand=None,
            principal="test",
            name="file.csv",
            sha256=hashlib.sha256(MOVEMENTS.encode()).digest(),
            keep=60,
        )
    assert twin is None
    assert (await importing.take(MOVEMENTS))["counts"] == {"created": 5}


async def test_an_import_of_a_brand_writes_no_other_brands_stores(importing: Importing) -> None:
    """B1 is of BLUE."""
    content = f"""{HEAD}
N1,1,receipt,2026-01-03,R1,,A,10,150000,,
N2,1,receipt,2026-01-03,B1,,A,10,150000,,
N3,1,transfer,2026-01-04,R1,B1,A,1,,,
"""
    file = await importing.send(content, brand="RED")
    result = await importing.take(file, brand="RED")
    assert result["counts"] == {"created": 1}
    assert result["rejects"] == [(3, "store", "NOT_YOURS"), (4, "to_store", "NOT_YOURS")]


async def test_quantities_and_values_are_the_documents(importing: Importing) -> None:
    """Units and currencies as the books have them; what does not fit is told."""
    await execute(
        importing.migrating.owner,
        """INSERT INTO books.item_units (company, item, unit, num, den)
           VALUES ('ACME', 'A', 'thùng', 12, 1)""",
    )
    head = (
        "doc_id,doc_line,kind,posting_date,store,item,quantity,uom,value,currency,fc_amount,fc_rate"
    )
    result = await importing.take(f"""{head}
N1,1,receipt,2026-01-03,R1,A,2.5,thùng,,USD,1000.49,25400
N2,1,receipt,2026-01-03,R1,A,0.1,thùng,1,,,
N3,1,receipt,2026-01-03,R1,A,1,hộp,1,,,
N4,1,receipt,2026-01-03,R1,A,1,cái,,USD,5,
N5,1,receipt,2026-01-03,R1,A,1,cái,7,VND,7,
N6,1,receipt,2026-01-03,R1,A,1,cái,8,VND,7,
""")
    assert await importing.fetch(
        "SELECT doc_id, qty_base, qty_doc, uom, value, currency FROM books.stock_movements ORDER BY id"
    ) == [("N1", 30, 2.5, "thùng", 25412446, "USD"), ("N5", 1, 1, "cái", 7, "VND")]
    assert result["rejects"] == [
        (3, "quantity", "UOM_NOT_EXACT"),
        (4, "uom", "UOM_UNKNOWN"),
        (5, "fc_rate", "RATE_MISSING"),
        (7, "value", "RATE_MISMATCH"),
    ]


async def test_a_movement_is_taken_back_by_a_line_that_names_it(importing: Importing) -> None:
    """In the same file or a later one; never twice."""
    head = "doc_id,doc_line,kind,posting_date,store,item,quantity,value,reverses_doc,reverses_line"
    content = f"""{head}
N1,1,receipt,2026-01-03,R1,A,10,150000,,
N2,1,receipt,2026-01-04,R1,A,10,150000,N1,1
"""
    assert (await importing.take(content))["counts"] == {"created": 2}
    assert (await importing.take(content + "\n"))["counts"] == {"unchanged": 2}
    taken = "SELECT count(*) FROM books.stock_movements WHERE reverses_movement_id IS NOT NULL"
    assert await scalar(importing.migrating.app, taken) == 1


async def test_a_line_that_refers_to_something_else_differs(importing: Importing) -> None:
    """What a return brings back is a fact of it like its quantity."""
    content = MOVEMENTS + "BH2,1,issue,2026-01-04,R1,,A,3,,,\n"
    await importing.take(content)
    for other in ("BH2,1", ","):
        again = await importing.take(
            content.replace(
                "TL1,1,sales_return,2026-01-06,R1,,A,1,,BH1,1",
                f"TL1,1,sales_return,2026-01-06,R1,,A,1,,{other}",
            )
        )
        assert again["counts"] == {"unchanged": 5}
        assert again["rejects"] == [(6, "doc_line", "DIFFERS")]
    assert (await importing.take(content))["counts"] == {"unchanged": 6}


async def test_a_document_whose_lines_stand_apart_is_left_out_whole(importing: Importing) -> None:
    """Half a document would be in the books; one that stands there twice is taken once."""
    head = "type,doc_no,doc_date,store,party,item,qty,net,vat\n"
    lines = [
        f"purchase,M{n},2026-01-05,R1,NCC,A,{qty},1000,100\n"
        for n, qty in ((1, 1), (2, 1), (1, 2), (3, 1), (2, 1), (1, 1))
    ]
    for size in (1, 500):
        result = await importing.take(head + "".join(lines), "documents", batch_size=size)
        assert sorted(result["rejects"]) == [
            (line, "doc_no", "DUPLICATE_IN_FILE") for line in (2, 4, 6, 7)
        ]
    numbers = "SELECT doc_no, version FROM books.documents ORDER BY 1"
    assert await importing.fetch(numbers) == [("M2", 1), ("M3", 1)]


async def test_two_imports_at_once_write_each_line_once(importing: Importing) -> None:
    """One waits for the other: movements and openings are two tasks."""
    opening = "posting_date,store,item,quantity,value\n2026-01-01,R1,A,100,1000000\n"
    jobs = [
        await importing.submit(MOVEMENTS),
        await importing.submit(opening, "openings"),
    ]
    await asyncio.gather(*(importing.migrating.finish(job) for job in jobs))
    found = "SELECT count(*) FROM books.stock_movements WHERE kind = 'opening'"
    assert await scalar(importing.migrating.app, found) in {1, 2}
    again = await importing.take(opening + "\n", "openings")
    assert again["counts"] == {"unchanged": 1}


async def test_an_import_beside_a_backfill_of_the_same_goods_waits_for_it(
    importing: Importing,
) -> None:
    """The file has what a posted document stands for: whoever comes second finds it there."""
    app = importing.migrating.app
    goods = {"item": "A", "qty": "10", "uom": "cái", "net": "150000", "vat": "15000"}
    put_there = await one(app, sale("BH1", lines=[goods]))
    assert put_there.document_id is not None, put_there.faults
    await mark_posted(importing.migrating.owner, put_there.document_id)
    head = "doc_id,doc_line,kind,posting_date,store,item,quantity,uom\n"
    job_id = await importing.submit(head + "BH1,1,issue,2026-01-05,R1,A,10,cái\n")
    waiting = """SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
                  WHERE l.locktype = 'advisory' AND NOT l.granted
                    AND a.datname = current_database()"""

    async def waits() -> bool:
        return bool(await scalar(app, waiting))

    async with app.begin() as conn:
        moved = await move_goods(conn, "ACME", [put_there.document_id], job_id=uuid4())
        assert moved.written == 1
        run = asyncio.create_task(importing.migrating.finish(job_id))
        assert await eventually(waits)
    assert (await run).state == "succeeded"
    assert (await importing.migrating.result(job_id))["counts"] == {"unchanged": 1}
    assert await scalar(app, "SELECT count(*) FROM books.stock_movements") == 1


async def test_opening_stock_is_known_by_its_place(importing: Importing) -> None:
    """Whatever the order of the lines is; another value is told."""
    head = "Ngày;Kho;Mã hàng;Số lượng;Giá trị\n"
    lines = ["01/01/2026;R1;A;100;1.000.000\n", "01/01/2026;R2;B;5;50.000.000\n"]
    assert (await importing.take(head + "".join(lines), "openings"))["counts"] == {"created": 2}
    turned = head + "".join(reversed(lines))
    assert (await importing.take(turned, "openings"))["counts"] == {"unchanged": 2}
    other = await importing.take(head + lines[0].replace("100;", "99;"), "openings")
    assert other["rejects"] == [(2, "doc_line", "DIFFERS")]
    twice = await importing.take(head + lines[0] + lines[0], "openings")
    assert twice["rejects"] == [(3, "doc_line", "DUPLICATE_IN_FILE")]


async def test_items_are_added_and_their_names_follow(importing: Importing) -> None:
    """What they are counted and costed by stays."""
    head = (
        "Mã hàng,Tên hàng,ĐVT,Số lẻ,Phương pháp tính giá,Nhóm hàng,Đơn vị quy đổi,Tỷ lệ quy đổi\n"
    )
    content = head + (
        "N1,Nước mắm,chai,0,bình quân cuối kỳ,MAM,thùng,12\n"
        "N1,Nước mắm,chai,0,bình quân cuối kỳ,MAM,lốc,6\n"
        "A,Áo,cái,0,,AO,,\n"
        "B,Bóng,hộp,0,,,,\n"
        "N2,Gạo,kg,9,,,,\n"
        "A,Áo khác,cái,0,,AO,,\n"
    )
    result = await importing.take(content, "items")
    assert result["counts"] == {"created": 2, "updated": 1}
    assert sorted(result["rejects"]) == [
        (5, "base_uom", "ITEM_FIXED"),
        (6, "qty_scale", "CELL_REFUSED"),
        (7, "code", "DUPLICATE_IN_FILE"),
    ]
    assert await importing.fetch(
        "SELECT code, name, base_uom, item_group FROM books.items WHERE code IN ('A', 'N1') ORDER BY 1"
    ) == [("A", "Áo", "cái", "AO"), ("N1", "Nước mắm", "chai", "MAM")]
    units = "SELECT unit, num, den FROM books.item_units WHERE item = 'N1' ORDER BY num"
    assert await importing.fetch(units) == [("lốc", 6, 1), ("thùng", 12, 1)]
    again = await importing.take(content.replace("N1,Nước", "N1,Nước"), "items")
    assert again["counts"] == {"unchanged": 3}


async def test_documents_are_taken_whole(importing: Importing) -> None:
    """As POST /v1/documents:batch takes them; a document with a bad line is left out whole."""
    head = "type,doc_no,doc_date,store,party,total,vat_total,item,qty,net,vat\n"
    content = head + (
        "sale,HD1,2026-01-05,R1,KH1,33000,3000,A,2,20000,2000\n"
        "sale,HD1,2026-01-05,R1,,,,B,1,10000,1000\n"
        "sale,HD2,2026-01-05,R1,KH1,11000,1000,A,1,10000,1000\n"
        "sale,HD2,2026-01-05,R1,,,,B,x,10000,1000\n"
        "sale,HD3,2026-01-05,R9,KH1,11000,1000,A,1,10000,1000\n"
    )
    result = await importing.take(content, "documents")
    assert result["counts"] == {"created": 1}
    rejects = [(line, code) for line, _, code in sorted(result["rejects"])]
    assert rejects[0] == (4, "DOCUMENT_REFUSED")
    assert rejects[1] == (5, "CELL_REFUSED")
    assert rejects[2][0] == 6
    found = """SELECT d.doc_no, d.total, d.source, count(*) FROM books.documents d
                 JOIN books.document_lines l ON l.document_id = d.id GROUP BY d.id"""
    assert await importing.fetch(found) == [("HD1", 33000, "import", 2)]
    again = await importing.take(content.replace("KH1,33000", "KH1,33000.0"), "documents")
    assert again["counts"] == {"unchanged": 1}
