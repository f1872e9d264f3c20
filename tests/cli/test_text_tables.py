"""Tables as the commands print them."""

from certgcl.cli.text_tables import aligned


def test_numbers_stand_right_words_left_and_long_names_are_folded() -> None:
    rows = [
        {"method": "GRACE", "accuracy": "96.5 ± 0.7 %", "certified share": "> 99.9 %", "note": "first"},
        {"method": "certified GRACE", "accuracy": "9.7 ± 0.4 %", "certified share": "–", "note": "2nd"},
    ]
    assert aligned(rows, "digits") == "\n".join(
        [
            "digits",
            "                               certified",
            "method               accuracy      share  note",
            "GRACE            96.5 ± 0.7 %   > 99.9 %  first",
            "certified GRACE   9.7 ± 0.4 %          –  2nd",
        ]
    )


def test_nothing_is_cut() -> None:
    word = "a-word-that-is-wider-than-any-cell"
    assert aligned([{word: "x" * 300}]) == f"{word}\n{'x' * 300}"
