"""Biomedical text-mining models: terminologies, training recipes, encoders, indexes and linking.

Everything here runs in one process and needs no cluster. `ray_jobs` spreads it over machines, `serving` puts it
behind HTTP. Importing this package loads neither torch nor faiss: heavy libraries are imported where they are used.
"""

__version__ = "0.1.0"
