"""The pages at /ui/: server-rendered HTML for whoever operates the platform (docs/pages.md).

A page shows what the routes under /v1 show, by the same functions and for the same rights. It
knows its reader by a signed cookie, which is believed here and nowhere else.
"""
