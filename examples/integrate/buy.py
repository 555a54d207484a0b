"""Claims a ticket, confirms its payment and looks the claim up: buy.py SERVER USER ORDER"""
import http.client, json, os, random, sys, time, urllib.error, urllib.request

server, user, order = sys.argv[1:]
sale = server + "/v1/sales/concert"
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def attempt(request):
    """Returns the status, document and Retry-After of one request; status 0 if no answer came."""
    try:
        answer = direct.open(request, timeout=6)  # the server answers within 5 s
    except urllib.error.HTTPError as error:
        answer = error
    except (OSError, http.client.HTTPException):
        return 0, {}, 0
    try:
        return answer.status, json.load(answer), float(answer.headers.get("Retry-After", 0))
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}, 0  # cut off, or not an answer of salectl


def call(method, path, body=None, key=None):
    """Repeats a request until the server has decided it, and returns the document."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    if "SALE_TOKEN" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["SALE_TOKEN"]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sale + path, data, headers, method=method)
    wait, deadline = 0.1, time.monotonic() + 60
    while time.monotonic() < deadline:
        status, document, retry_after = attempt(request)
        if status not in (0, 429, 503):
            if "outcome" not in document:  # such as 401: a wrong token
                sys.exit(f"{status} {document.get('detail')}")
            return document
        time.sleep(max(retry_after, wait) * random.uniform(1, 1.5))
        wait = min(2 * wait, 2)
    sys.exit(f"order {order} is undecided: repeat it with the same key")


def pay(claim):
    """Stands for your payment service. A repeated order has the same reference."""
    return "payment-of-" + order


claim = call("POST", "/claims", {"user": user, "quantity": 1}, key=order)
if claim["outcome"] == "held":
    print("held:", claim["claim"], "until", claim["heldUntil"])
    payment = pay(claim)
    claim_id = claim["claim"]
    claim = call("POST", f"/claims/{claim_id}/confirm", {"payment": payment})
    if claim["outcome"] != "sold":  # too late, or cancelled meanwhile
        sys.exit(f"{claim['outcome']}: pay {payment} back")
if claim["outcome"] != "sold":  # such as sold_out or limit_reached
    sys.exit(f"{claim['outcome']}: {claim['detail']}")
found = call("GET", "/claims/" + claim["claim"])
print(f"{found['outcome']}: {found['claim']} has units {found['units']}, paid by {found['payment']}")
