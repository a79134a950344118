"""A slow, obvious model of the operators, and random pipelines that compare feedline with it."""
