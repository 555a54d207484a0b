"""Users who claim a unit each, at a steady rate, until standard input ends.

    claims.py SALE RATE URL...

Each asks the next of the servers in turn, and asks again, with the same key, where it got
no answer or one that is no decision. Of each a line of JSON tells what became of it.
"""

import http.client
import itertools
import json
import sys
import threading
import time
import urllib.parse

sale, rate, urls = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
turns = itertools.count()
printing = threading.Lock()
PATIENCE = 120  # seconds


def post(url, user, key):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=20)
    try:
        connection.request(
            "POST",
            f"/v1/sales/{sale}/claims",
            json.dumps({"user": user}),
            {"Content-Type": "application/json", "Idempotency-Key": key},
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def claim(n):
    user, failures, began = f"python-user-{n}", [], time.monotonic()
    while time.monotonic() < began + PATIENCE:
        url, at = urls[next(turns) % len(urls)], time.monotonic()
        try:
            status, answer = post(url, user, f"key-{n}")
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            continue
        if status < 500 and status != 429:
            tell(user=user, outcome=answer["outcome"], claim=answer.get("claim", ""), units=answer.get("units", []), failures=failures)
            return
        failures.append({"server": url, "outcome": answer.get("outcome", str(status)), "seconds": time.monotonic() - at})
        time.sleep(0.02)
    tell(user=user, outcome="", claim="", units=[], failures=failures)


def tell(**what):
    with printing:
        print(json.dumps(what), flush=True)


ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
coming, began = [], time.monotonic()
for n in itertools.count():
    if ended.wait(max(0, began + n / rate - time.monotonic())):
        break
    coming.append(threading.Thread(target=claim, args=(n,)))
    coming[-1].start()
for thread in coming:
    thread.join()
