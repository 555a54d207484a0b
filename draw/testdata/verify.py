"""Verifies a draw from an export, by the standard library alone: verify.py EXPORT [USER]"""
import base64, collections, hashlib, hmac, json, sys

def sha(b): return hashlib.sha256(b).digest()

def digest(*texts): return sha(b"".join(len(t).to_bytes(8, "big") + t for t in texts))

def label(uid, user, key): return digest(b"salectl entry v1", uid.encode(), user.encode(), key)

def root(leaves):  # RFC 6962, from above
    if not leaves: return sha(b"")
    if len(leaves) == 1: return sha(b"\0" + leaves[0])
    k = 1
    while k * 2 < len(leaves): k *= 2
    return sha(b"\1" + root(leaves[:k]) + root(leaves[k:]))

def check(ok, place, what):
    if not ok: sys.exit(f"{place}: {what}")

with open(sys.argv[1], encoding="utf-8") as export:
    header = json.loads(export.readline())
    entries = []
    for line in export:
        if not line.startswith('{"claim":'): break
        entries.append(json.loads(line))
uid, draw = header["uid"], header["draw"]
shards, seen = [[] for _ in draw["shards"]], {}
for e in entries:
    e["l"] = bytes.fromhex(e["label"])
    key = base64.b64decode(e["keyBase64"]) if "keyBase64" in e else e.get("key", "").encode()
    if "user" in e and key:
        check(e["l"] == label(uid, e["user"], key), e["claim"], "its label is not that of its user and key")
    for what in ("label", "user"):
        first = seen.setdefault((what, e.get(what, e["claim"])), e["claim"])
        check(first == e["claim"], e["claim"], f"it has the same {what} as {first}")
    shards[int(e["claim"].split("-")[0])].append(e["l"])
for i, (tree, labels) in enumerate(zip(draw["shards"], shards)):
    check(tree["entries"] == len(labels), f"shard {i}", "entries were added or removed")
    check(tree["root"] == root(labels).hex(), f"shard {i}", "entries were exchanged or altered")
leaves = [t["entries"].to_bytes(8, "big") + bytes.fromhex(t["root"]) for t in draw["shards"]]
check(draw["root"] == root(leaves).hex(), "header", "the root is not that of the shards")
link = bytes.fromhex(draw["link"])
source = draw.get("beacon", {})
terms = [draw.get("committedClosesAt", ""), str(draw["substitutes"])] + [source.get(k, "") for k in ("name", "round", "fallback")]
commitment = digest(b"salectl commitment v2", uid.encode(), sha(link), *(t.encode() for t in terms))
check(draw["commitment"] == commitment.hex(), "header", "another secret, or other terms, than were committed to")
check(not source or draw["closesAt"] == draw["committedClosesAt"], "header", "closesAt is another than was committed to")
beacon = bytes.fromhex(draw.get("beacon", {}).get("value", ""))
prk = hmac.digest(bytes.fromhex(draw["root"]), link + beacon, "sha256")      # HKDF-Extract
key = hmac.digest(prk, b"salectl draw v1" + uid.encode() + b"\1", "sha256")  # HKDF-Expand
n = collections.Counter(e["state"] for e in entries)
lapsed = n["expired"] + n["cancelled"] + n["refunded"]
has, later = n["sold"] + n["held"], draw["lapsed"] - lapsed  # later than the lines, until it has ended
check(n["entered"] + has + lapsed == len(entries), "header", "there are unknown states")
check(0 <= later <= (0 if draw.get("ended") else later), "header", "another number of awards has lapsed")
check(has <= draw["winners"] + later, "header", "more is sold or held than there are units")
ranks = min(len(entries), draw.get("stock", 0) + draw["substitutes"])
check(draw.get("ranks", 0) == ranks, "header", f"there should be {ranks} ranks")
check(draw["reach"] <= draw["winners"] + draw["lapsed"], "header", "more might be awarded than there were units and lapsed awards")
entries.sort(key=lambda e: (hmac.digest(key, e["l"], "sha256"), e["l"]))
for rank, e in enumerate(entries, 1):
    check(e.get("rank", 0) == (rank if rank <= ranks else 0), e["claim"], f"it is entry {rank} in the order")
    won = rank <= min(ranks, draw["reach"])
    check(won or e["state"] == "entered", e["claim"], "it was awarded a unit out of turn")
    check(not (won and draw.get("ended") and e["state"] == "entered"), e["claim"], "a winner was skipped")
    if sys.argv[2:] == [e.get("user")]: print(f"rank {rank}: {e['state']}")
print(f"{len(entries)} entries, ok")
