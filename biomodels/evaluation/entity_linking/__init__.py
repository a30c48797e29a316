"""Entity-linking benchmarks: one reader per corpus, two protocols, one report.

Readers turn a folder into `Part`s, which hold mentions and dictionaries and say nothing of the corpus they came from;
rankers order a dictionary for a mention; protocols count. So a new corpus is a reader, and a new system a ranker.
"""
