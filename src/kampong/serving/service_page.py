"""What a server says of itself: a page for people, and an OpenAPI document for tools."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from kampong._core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.serving.served_model import Snapshot

STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
STYLE += "pre{background:#f3f3f3;padding:.8rem;overflow-x:auto}table{border-collapse:collapse}"
STYLE += "td,th{text-align:left;padding:.2rem 1rem .2rem 0}"


def page(snapshots: Sequence[Snapshot], learns: bool) -> str:
    """Return the page: the models, their columns, and how to ask them.

    Parameters
    ----------
    snapshots : sequence of Snapshot
        The models as they answer now.
    learns : bool
        Whether they learn.

    Returns
    -------
    str
        HTML without scripts.
    """
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>kampong serve</title>",
        f"<style>{STYLE}</style><h1>kampong serve</h1><p>kampong {escape(__version__)}. ",
        "<a href='openapi.json'>OpenAPI</a>, <a href='metrics'>metrics</a>, ",
        "<a href='v2'>Open Inference Protocol</a>.</p>",
    ]
    for one in snapshots:
        example = _example(one)
        query = f"?model={one.name}" if len(snapshots) > 1 else ""
        parts += [
            f"<h2>{escape(one.name)}</h2><table>",
            f"<tr><th>rows learnt<td>{one.rows:,}<tr><th>version<td>{one.version}",
            f"<tr><th>classes<td>{escape(_some([str(label) for label in one.classes.tolist()]))}",
            f"<tr><th>columns<td>{escape(_some(one.reader.columns))}</table>",
            f"<pre>{escape(_curl(f'/predict{query}', example))}</pre>",
        ]
        if learns:
            label = {str(one.reader.schema.label): one.classes.tolist()[0]}
            parts.append(f"<pre>{escape(_curl(f'/learn{query}', {**example, **label}, learns=True))}</pre>")
    return "".join(parts)


def openapi(snapshots: Sequence[Snapshot], learns: bool) -> dict[str, Any]:
    """Return the OpenAPI document.

    Parameters
    ----------
    snapshots : sequence of Snapshot
        The models as they answer now.
    learns : bool
        Whether they learn.

    Returns
    -------
    dict
        The document.
    """
    names = [one.name for one in snapshots]
    model = {
        "name": "model",
        "in": "query",
        "required": len(names) > 1,
        "schema": {"type": "string", "enum": names},
        "description": "Which model; needed where there are several.",
    }
    rows = {"anyOf": [{"$ref": f"#/components/schemas/{_key(i)}"} for i in range(len(names))]}
    body = {
        "required": True,
        "content": {
            "application/json": {"schema": {"oneOf": [rows, {"type": "array", "items": rows}]}},
            "application/x-ndjson": {"schema": {"type": "string"}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
    options = [
        _query("probabilities", "best or all: add the probability of the predicted class, or of every class."),
        _query("set", "Add the classes that a row may have, so that this share of the sets is right, such as 0.9."),
    ]
    identity = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "maxLength": 200},
        "description": "An id of the request. Sent again with the same id, it is answered again and not learnt again.",
    }
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "enum": names}}
    paths: dict[str, Any] = {
        "/predict": {"post": _post("Predict the classes of rows.", [model, *options], body)},
        "/v2": {"get": _get("The server.")},
        "/v2/health/live": {"get": _get("Whether the server runs.")},
        "/v2/health/ready": {"get": _get("Whether all models answer.")},
        "/v2/models/{name}": {"get": _get("The inputs and outputs of a model.", [name])},
        "/v2/models/{name}/ready": {"get": _get("Whether a model answers.", [name])},
        "/v2/models/{name}/infer": {"post": _post("Predict tensors of rows.", [name], _json_body())},
        "/metrics": {"get": _get("Figures for Prometheus.")},
    }
    if learns:
        model_file = {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
        more = [model, identity]
        paths["/learn"] = {"post": _post("Learn rows with labels; answered when they are on the disk.", more, body)}
        paths["/unlearn"] = {"post": _post("Take rows out again; answered with a receipt.", more, body)}
        paths["/merge"] = {"post": _post("Merge with a model file.", more, model_file)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kampong serve", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {_key(i): _row_schema(one) for i, one in enumerate(snapshots)},
        },
    }


def _row_schema(snapshot: Snapshot) -> dict[str, Any]:
    """Return what a row of a model must look like."""
    schema = snapshot.reader.schema
    kinds = {name: "number" if name in schema.numeric else "string" for name in snapshot.reader.columns}
    return {
        "type": "object",
        "description": f"A row of {snapshot.name}; for learning also with the label {schema.label!r}.",
        "properties": {name: {"type": [kind, "null"]} for name, kind in kinds.items()},
        "required": list(kinds),
    }


def _get(summary: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
    return {"summary": summary, "parameters": list(parameters), "responses": {"200": {"description": "OK"}}}


def _post(summary: str, parameters: Sequence[Any], body: dict[str, Any]) -> dict[str, Any]:
    found = {**_get(summary, parameters), "requestBody": body}
    found["responses"]["400"] = {"description": "The rows cannot be used; the answer says why."}
    return found


def _json_body() -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": {"type": "object", "required": ["inputs"]}}}}


def _query(name: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string"}, "description": meaning}


def _key(place: int) -> str:
    return f"row{place + 1}"


def _example(snapshot: Snapshot) -> dict[str, Any]:
    schema = snapshot.reader.schema
    return {name: 1.5 if name in schema.numeric else "text" for name in snapshot.reader.columns}


def _curl(path: str, row: dict[str, Any], *, learns: bool = False) -> str:
    token = "$LEARN_TOKEN" if learns else "$TOKEN"
    text = msgspec.json.encode(row).decode().replace("'", "'\\''")
    return (
        f"curl -H \"Authorization: Bearer {token}\" -H 'Content-Type: application/json' \\\n"
        f"  -d '{text}' \\\n  \"$SERVER{path}\""
    )


def _some(names: Sequence[str], most: int = 24) -> str:
    return ", ".join(names[:most]) + (f", … ({len(names):,} in all)" if len(names) > most else "")
