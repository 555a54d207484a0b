"""Verifies a draw from an export, by the standard library alone: verify.py EXPORT [USER]"""
import hashlib, hmac, json, sys

def sha(b): return hashlib.sha256(b).digest()

def label(uid, user, key):
    texts = [b"salectl entry v1", uid.encode(), user.encode(), key.encode()]
    return sha(b"".join(len(t).to_bytes(8, "big") + t for t in texts))

def root(leaves):  # RFC 6962, from above
    if not leaves: return sha(b"")
    if len(leaves) == 1: return sha(b"\0" + leaves[0])
    k = 1
    while k * 2 < len(leaves): k *= 2
    return sha(b"\1" + root(leaves[:k]) + root(leaves[k:]))

def check(ok, place, what):
    if not ok: sys.exit(f"{place}: {what}")

with open(sys.argv[1]) as export:
    header = json.loads(export.readline())
    entries = []
    for line in export:
        if not line.startswith('{"claim":'): break
        entries.append(json.loads(line))
uid, draw = header["uid"], header["draw"]
shards = [[] for _ in draw["shards"]]
for e in entries:
    e["l"] = bytes.fromhex(e["label"])
    if "user" in e:
        check(e["l"] == label(uid, e["user"], e["key"]), e["claim"], "its label is not that of its user and key")
    shards[int(e["claim"].split("-")[0])].append(e["l"])
for i, (tree, labels) in enumerate(zip(draw["shards"], shards)):
    check(tree["entries"] == len(labels), f"shard {i}", "entries were added or removed")
    check(tree["root"] == root(labels).hex(), f"shard {i}", "entries were exchanged or altered")
leaves = [t["entries"].to_bytes(8, "big") + bytes.fromhex(t["root"]) for t in draw["shards"]]
check(draw["root"] == root(leaves).hex(), "header", "the root is not that of the shards")
link = bytes.fromhex(draw["link"])
check(draw["commitment"] == sha(link).hex(), "header", "another secret was revealed than was committed to")
beacon = bytes.fromhex(draw.get("beacon", {}).get("value", ""))
prk = hmac.digest(bytes.fromhex(draw["root"]), link + beacon, "sha256")      # HKDF-Extract
key = hmac.digest(prk, b"salectl draw v1" + uid.encode() + b"\1", "sha256")  # HKDF-Expand
entries.sort(key=lambda e: (hmac.digest(key, e["l"], "sha256"), e["l"]))
for rank, e in enumerate(entries, 1):
    check(e.get("rank", 0) == (rank if rank <= draw["ranks"] else 0), e["claim"], f"it is entry {rank} in the order")
    won = rank <= min(draw["ranks"], draw["winners"] + draw["lapsed"])
    check(won or e["state"] == "entered", e["claim"], "it was awarded a unit out of turn")
    check(not (won and draw.get("ended") and e["state"] == "entered"), e["claim"], "a winner was skipped")
    if sys.argv[2:] == [e.get("user")]: print(f"rank {rank}: {e['state']}")
print(f"{len(entries)} entries, ok")
