"""Every kind of file that can be imported, by its name."""

from collections.abc import Mapping

from worker.imports.document_layout import DOCUMENTS
from worker.imports.item_layout import ITEMS
from worker.imports.layout import Layout
from worker.imports.movement_layout import MOVEMENTS
from worker.imports.opening_layout import OPENINGS

LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout for layout in (MOVEMENTS, DOCUMENTS, ITEMS, OPENINGS)
}
