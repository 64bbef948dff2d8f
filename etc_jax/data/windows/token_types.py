"""Token types of the official multi-context inputs: what a token is part of.

They feed embeddings; long and global tokens share the table. Padding has type 0.
"""

SENTENCE_TYPE = 1
TITLE_TYPE = 2
QUESTION_TYPE = 3
CANDIDATE_TYPE = 4
GLOBAL_TYPE = 0
GLOBAL_QUESTION_TYPE = 5
GLOBAL_CANDIDATE_TYPE = 6
GLOBAL_PARAGRAPH_TYPE = 7
