"""Certificates computed and written shard by shard, resumable, on one machine or several."""

from certgcl.certify.sharding.run import MERGED, ShardProgress, ShardRun, certify_shards, merge_shards

__all__ = ["MERGED", "ShardProgress", "ShardRun", "certify_shards", "merge_shards"]
