"""The records of a source taken out of a saved model: all or none, with a receipt that agrees with the file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kampong.contract import stream_model
from kampong.files.replace import write_bytes
from kampong.statistics.receipt import Receipt
from kampong.streaming.errors import ColumnError, OutputError, RecordError, SourceError, StreamError
from kampong.streaming.model_file import read_model, with_stream, write_model
from kampong.streaming.outputs.targets import check_targets, key_file

if TYPE_CHECKING:
    from kampong.contract import StreamModel
    from kampong.files.signing import Key
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.model_file import StreamState
    from kampong.streaming.sources.source import Source

HISTORY = (
    "The history of the stream keeps its counts, and coordinates of some rows for pictures. Learn again without the "
    "rows to be rid of these too."
)


def unlearn(source: Source, model_file: str, receipt_file: str, *, key: Key = None) -> tuple[Receipt, bool]:
    """Take the records of a source out of a model file; all of them, or none.

    The receipt is written first and names both states, then the model is replaced. After a kill between the two the
    model is the old one, and the same command goes on; a model that a receipt says is done is left as it is.

    Parameters
    ----------
    source : Source
        Records that were learnt, with their labels; columns are matched by name.
    model_file : str
        A model that a stream has written.
    receipt_file : str
        Where the receipt goes.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.

    Returns
    -------
    receipt : Receipt
        What was taken out.
    done : bool
        False where the receipt shows that an earlier run had taken them out.
    """
    inputs = {**source.inputs(), "the model": [model_file], **key_file(key)}
    check_targets(inputs, {"--receipt": receipt_file}, source.endings())
    model, state, _ = read_model(model_file, key=key)
    if state is None:
        raise StreamError(f"{model_file}: no stream has learnt this model, so it does not know which column is what.")
    learnt = stream_model(model)
    check_can_unlearn(model_file, learnt, state)
    earlier = _earlier(receipt_file)
    if earlier is not None and model.state_digest() == earlier.after:
        return earlier, False
    if earlier is not None and model.state_digest() != earlier.before:
        raise OutputError(
            f"--receipt {receipt_file}: this is the receipt of another removal, and would be lost. Choose another file."
        )
    receipt = _take_out(source, learnt, state)
    write_bytes(receipt_file, receipt.to_json().encode())
    if state.course is not None:
        state.course.forget_rows()
    write_model(model_file, *with_stream(model, state), key=key)
    return receipt, True


def check_can_unlearn(name: str, model: StreamModel, state: StreamState | None) -> None:
    """Refuse a model that rows cannot be taken out of.

    Parameters
    ----------
    name : str
        What messages call the model.
    model : StreamModel
        The model.
    state : StreamState or None
        What is known of its stream.
    """
    if not model.fitted or not model.can.unlearn:
        raise StreamError(
            f"{name}: rows cannot be taken out of a {type(model.estimator).__name__}. FisherDiscriminant and the other "
            "subspaces can, where they learn without a half-life."
        )
    half_life = model.read("half_life")
    if half_life not in (None, "auto"):
        raise StreamError(
            f"{name}: this model was learnt with the half-life {half_life}, so how much of a row is left is not "
            "known. To take rows out, learn with --half-life none or auto."
        )
    if state is not None and state.schema.tfidf:
        raise StreamError(
            f"{name}: this model weighs words by how often they had occurred when a record came (--tfidf), which is "
            "not known any more. Learn again without the records."
        )


def take_batch(name: str, model: StreamModel, state: StreamState | None, batch: Batch) -> Receipt:
    """Take the rows of a batch out of a model; on an error the model may have lost some of them.

    Parameters
    ----------
    name : str
        What messages call the source of the rows.
    model : StreamModel
        The model.
    state : StreamState or None
        What is known of its stream.
    batch : Batch
        Rows with labels.

    Returns
    -------
    Receipt
        What was taken out.
    """
    rows = batch if state is None or state.memory is None else state.memory.apply(batch)
    assert rows.X is not None
    assert rows.y is not None
    if rows.filled:
        raise RecordError(
            f"{name}: {rows.filled} numbers are missing. They were learnt as the mean of their column "
            "at that time, which is not known any more. Learn again without the records."
        )
    try:
        receipt = model.unlearn(rows.X, rows.y)
    except ValueError as error:
        raise StreamError(f"{name}: {error} The model is as before.") from None
    if not model.fitted:
        raise StreamError(f"{name}: nothing would be left of the model. Delete its file instead.")
    return receipt


def _earlier(path: str) -> Receipt | None:
    """Return the receipt that is already there."""
    if not Path(path).exists():
        return None
    try:
        return Receipt.from_json(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        raise OutputError(f"--receipt {path}: this file exists and is no receipt. Choose another file.") from None


def _take_out(source: Source, model: StreamModel, state: StreamState) -> Receipt:
    """Take all records out of a model in memory."""
    label = state.schema.label
    receipts: list[Receipt] = []
    stream = source.open(schema=state.schema, apply=True)
    with closing(stream):
        if stream.schema.columns and label not in stream.schema.columns:
            raise ColumnError(f"{source.path}: the column of the class, {label!r}, is not there. It is needed.")
        stream.schema = replace(stream.schema, label=label)
        for batch in stream:
            if batch.dead:
                letter = batch.dead[0]
                raise RecordError(f"{source.path}: line {letter.line:,} (offset {letter.offset:,}): {letter.reason}.")
            if batch.X is None or batch.y is None or not batch.rows:
                continue
            receipts.append(take_batch(source.path, model, state, batch))
    if not receipts:
        raise SourceError(f"{source.path}: the source holds no record that could be used.")
    first, last = receipts[0], receipts[-1]
    return replace(
        last,
        rows=sum(one.rows for one in receipts),
        weight=sum(one.weight for one in receipts),
        classes_gone=tuple(sorted(name for one in receipts for name in one.classes_gone)),
        before=first.before,
        exact=all(one.exact for one in receipts),
        remarks=(*dict.fromkeys(remark for one in receipts for remark in one.remarks), HISTORY),
    )
