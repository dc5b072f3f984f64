"""Names of device work: what operation they stand for, how they are spelled, how they are shortened."""
