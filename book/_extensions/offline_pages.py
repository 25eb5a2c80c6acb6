"""Takes out of the pages the theme's live-code button, which would run code on somebody else's server."""

from __future__ import annotations


def _drop_live_code(app, page: str, template: str, context: dict, doctree) -> None:
    def is_live_code(script) -> bool:
        return "thebe" in f"{getattr(script, 'filename', script)} {getattr(script, 'attributes', '')}".lower()

    context["script_files"] = [script for script in context.get("script_files", []) if not is_live_code(script)]
    context["css_files"] = [sheet for sheet in context.get("css_files", []) if not is_live_code(sheet)]


def setup(app) -> dict:
    app.connect("html-page-context", _drop_live_code, priority=999)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
