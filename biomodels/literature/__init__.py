"""The literature: PubMed records, Gene2Phenotype threads, and the gate that joins them by gene."""
