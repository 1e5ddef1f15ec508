"""A question of each set, in the form that the user's files have."""

import gzip
import json

QUESTIONS = {
    "piqa": {"goal": "Open a tin.", "sol1": "Use a tin opener.", "sol2": "Use a pillow.", "label": 0},
    "arc_easy": {
        "id": "1", "question": "What do plants make from light?",
        "choices": {"text": ["sugar", "stone", "iron"], "label": ["A", "B", "C"]}, "answerKey": "A",
    },
    "hellaswag": {
        "ind": 1, "activity_label": "Cooking", "ctx_a": "A man cuts an onion.", "ctx_b": "he",
        "endings": ["cries.", "flies.", "is an onion.", "sleeps."], "label": "0",
    },
    "boolq": {"passage": "Rain -- Rain is water.", "question": "is rain water", "label": 1},
    "openbookqa": {
        "question_stem": "The sun is", "choices": {"text": ["hot", "cold", "wet", "old"], "label": list("ABCD")},
        "answerKey": "A",
    },
    "wsc273": {
        "text": "The cat sat by the dog because it was tired.", "pronoun": "it", "pronoun_loc": 31,
        "options": ["The cat", "The dog"], "label": 0,
    },
    "mmlu": {"question": "1 + 1?", "subject": "anatomy", "choices": ["1", "2", "3", "4"], "answer": 1},
}  # fmt: skip
QUESTIONS["arc_challenge"] = QUESTIONS["arc_easy"]
SPLITS = {"piqa": "validation", "hellaswag": "validation", "boolq": "validation"}


def write_sets(folder, *, times=4, **changed):
    """Every set's file, gzipped; changed: other lines for some."""
    folder.mkdir(exist_ok=True)
    for name, question in QUESTIONS.items():
        lines = changed.get(name, [question] * times)
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}_{SPLITS.get(name, 'test')}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder
