"""The linker over HTTP: a Ray Serve application, a small web page, and `python -m serving`."""
