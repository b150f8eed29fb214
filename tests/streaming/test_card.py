"""Model cards: what they say is in the file, receipts are compared with it, and no name of the data is Markdown."""

import numpy as np
import pytest

import kampong
from command import call
from kampong import FisherDiscriminant
from kampong.streaming import learn, model_card
from kampong.streaming.errors import UsageError
from kampong.streaming.inspection import describe
from problems import problem


@pytest.fixture
def table(tmp_path):
    X, y = problem(0, classes=3, rows=200, features=3)
    names = np.array(["ash", "o|k", "<b>"])[y]
    lines = [",".join([*map(str, row), name]) for row, name in zip(X.tolist(), names, strict=True)]
    path = tmp_path / "trees.csv"
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    return path


def test_a_card_says_what_the_file_holds(table, tmp_path, capfd):
    file = tmp_path / "trees.kampong"
    run = learn(str(table), FisherDiscriminant(), label="kind", model_file=str(file))
    text = call(capfd, "card", file).out
    assert text == model_card(str(file))
    assert text.startswith("# Model card: trees.kampong\n\nA `FisherDiscriminant`, written by kampong ")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *("## Data", "## Choices", "## Accuracy", "## Limits"),
    ]
    counters, facts = run.counters, describe(str(file))
    accuracy = counters.correct / counters.scored
    assert f"- {accuracy:.4f} of the rows were predicted rightly, each before it was learnt" in text
    assert f"majority class {facts['stream']['figures']['baselines']['majority']:.4f}" in text
    assert f"- `ridge`: {run.model.ridge_:.4g}, what is added to the within-class variances." in text
    assert f"- {run.model.scale_reason_}\n" in text
    for label, count in zip((r"\<b\>", "ash", r"o\|k"), facts["class_counts"], strict=True):
        assert f"| {label} | {count:,.6g} | {count / 200:.1%} |" in text
    assert "trees.csv: 200 rows; digest `" in text
    assert "The file holds a sample of the training rows." in text


def test_the_loss_of_validation_rows_stands_beside_that_of_the_shares(tmp_path):
    X, y = problem(1, classes=2, rows=100, features=3)
    model = FisherDiscriminant().fit(X, y)
    model.save(tmp_path / "plain.kampong")
    losses = model._held_out_losses()
    mine, shares = losses.losses[losses.learnt == 0], np.bincount(y) / len(y)
    text = model_card(str(tmp_path / "plain.kampong"))
    assert f"Log-loss of {len(mine)} validation rows" in text
    assert f": {mine.mean():.4f}. The shares of the classes alone have {-shares @ np.log(shares):.4f}." in text
    FisherDiscriminant(ridge=1.0, head="gaussian").fit(X, y).save(tmp_path / "plain.kampong")
    text = model_card(str(tmp_path / "plain.kampong"))
    assert "The file holds no measurement. `kampong score` compares it with labelled rows." in text
    assert "sample of the training rows" not in text
    FisherDiscriminant().save(tmp_path / "new.kampong")
    assert "It has learnt nothing yet." in model_card(str(tmp_path / "new.kampong"))


def test_receipts_are_held_against_the_file(tmp_path, capfd):
    X, y = problem(2, classes=3, rows=90, features=3)
    model, file, receipt = FisherDiscriminant().fit(X, y), tmp_path / "m.kampong", tmp_path / "removed.json"
    receipt.write_text(model.unlearn(X[:10], y[:10]).to_json())
    model.save(file)
    call(capfd, "card", file, "--receipt", receipt, "--out", tmp_path / "card.md")
    text = (tmp_path / "card.md").read_text()
    assert "## Rows taken out\n\n- " in text
    assert "10 rows were taken out, as if they had never come; this file is in that state." in text
    kampong.load(file).partial_fit(X[:5], y[:5]).save(file)
    assert "this file has changed since, or is another one" in model_card(str(file), receipts=[str(receipt)])
    with pytest.raises(
        UsageError, match=r"--receipt .*: No such file or directory\. Give a file that kampong unlearn wro"
    ):
        model_card(str(file), receipts=[str(tmp_path / "none.json")])
    with pytest.raises(UsageError, match=r"this is not a receipt of kampong"):
        model_card(str(file), receipts=[str(file.with_name("card.md"))])
    call(capfd, "card", file, "--receipt", receipt, "--out", receipt, expect=2)
