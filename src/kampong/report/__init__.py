"""Pictures of a subspace. Needs the `plot` extra (matplotlib), imported only when a picture is drawn."""

from kampong.report.pictures import draw_classes

__all__ = ["draw_classes"]
