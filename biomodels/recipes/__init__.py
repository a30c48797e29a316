"""Recipes: what differs between training systems. `contract` says what a recipe gives and what the loop promises.

The contract was checked against four losses before it was fixed. "Set" is a named set of texts of a batch's inputs, in
which a text appears once per rank unless noted; outputs are per text of a set.

**SapBERT** (`sapbert`; multi-similarity with mined triplets).
  Rows are synonym pairs. Set `names`; output `embedding`. Groups: `row` (first, then second names, as indices into
  `names`), `concept` and `string` (hashes, so equal on all ranks without a shared table). One Global term over 2R rows:
  mining needs every negative of the global batch. Nothing is counted: the mean over all 2R rows is inside `fn`.

**SimCSE** (InfoNCE, unsupervised or supervised, hard negatives, MLM).
  Rows are sentences, or sentence, entailed sentence and contradictions. Unsupervised training encodes a text twice on
  purpose: its set `sentences` holds each text twice, which is the recipe's choice. Groups: `anchor`, `positive` and
  perhaps `hard`, indices into `sentences`. One Global term {anchor, positive, hard} → `info_nce`: row i's positive is
  column i, and after gathering all tensors are in the same order of rank, so the targets stay 0…N-1. A row without a
  hard negative would break the alignment; such a recipe gathers `hard_owner` too and weighs by it.
  MLM is a second set `masked`: masked copies, with `labels` as an integer tensor beside `input_ids`. The module
  computes each text's summed cross-entropy and number of masked tokens, outputs `masked.loss` and `masked.count`. One
  Local term: sum = Σ loss, count = masked tokens, weight = `mlm_weight`. So its weight does not grow with the number of
  ranks, as it does where a data-parallel mean shrinks only the contrastive term. Masks are drawn
  by hash of (key, text).

**TL-BERT** (classification of entity pairs and a triplet loss between instances of one sentence).
  Rows are triples (anchor, same class, other class). Set `instances`: the distinct marked sentences of those triples,
  with entity masks as integer tensors; outputs `logits` and `pair` (H_ep). Groups: `anchor`, `same`, `other` (indices),
  `label`. Two Local terms: cross-entropy over the three instances of each triple (count: triples, for eq. 6 sums over
  the three) and `triplet` over each row's own triple (count: triples, weight β). Neither needs other ranks' rows.

**Cross-encoder** (binary cross-entropy; listwise softmax).
  Rows are (text_a, text_b, label). Set `pairs`: each pair joined as one text; output `logit`. Binary cross-entropy is
  Local: sum over rows, count = rows (or their summed weights). Listwise is Local too: `uncut = "list_id"`, so that the
  reader never cuts a list between ranks or batches; group `list` numbers this rank's lists; sum over lists of the
  cross-entropy of the softmax over its logits, count = lists.

Two things follow that a recipe must keep. The number and order of terms and sets are the same on all ranks, also for a
rank that got no rows, because gathering is collective. And terms are functions of outputs and groups alone: whatever
needs the weights (heads, MLM) belongs into the module's forward, where ZeRO-3 gathers them and gradient caching can
run it again.
"""
