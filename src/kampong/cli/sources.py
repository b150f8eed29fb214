"""`kampong sources`: what can be learnt from, how it is written, and what it needs."""

from __future__ import annotations

import json
from typing import Any

from kampong.cli.common import Json, app


@app.command(epilog="Examples:\n\n  kampong sources\n\n  kampong sources --json | jq -r '.[] | select(.ready) | .name'")
def sources(as_json: Json = False) -> None:
    """List the kinds of sources, with an example of each and what it needs installed."""
    from kampong._core.extras import how_to_install
    from kampong.streaming import sources as kinds

    facts = [_facts(kinds.get(name)) for name in kinds.names()]
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    for one in facts:
        print(one["name"])
        print(f"  example  {one['example']}")
        print(f"  place    {one['place']}")
        print(f"  replay   {one['replayable']}")
        if one["extra"]:
            missing = ", ".join(one["missing"])
            found = f"missing: {missing}. {how_to_install(one['extra'])}" if missing else "installed"
            print(f"  needs    the {one['extra']} extra; {found}")
        else:
            print("  needs    nothing more")


def _facts(kind: Any) -> dict[str, Any]:
    """Return what is said of a kind."""
    missing = kind.missing()
    return {
        **{name: getattr(kind, name) for name in ("name", "example", "place", "replayable", "extra")},
        "missing": missing,
        "ready": not missing,
    }
