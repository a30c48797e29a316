"""Jobs that read source files into Parquet datasets."""
