"""From English text, or inputs of a task, to batches: numpy, read by index.

    prepared = prepare.prepare(folder, source=corpus.BuiltInSource())
    plan = packing.pack(prepared.train, long_length=512, global_length=64)
    reader = pretraining.PretrainingReader(
        prepared.train,
        plan,
        prepared.tokenizer.token_ids,
        examples.PretrainingSizes.default(512, 64),
        batch_size=32,
        seed=0,
    )
    batch = reader.batch_at(step)

The stations, one file each: corpus -> sentences -> tokenizer -> cache -> packing or
concatenation -> reader, with rows of examples (ETC) or packed (one sequence). Inputs of
a task, with labels: window_writing -> windows. A schema names
the arrays of a batch.
"""
