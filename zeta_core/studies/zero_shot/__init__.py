"""Multiple-choice questions put to a language model that was not trained on them, through lm-evaluation-harness."""
