"""A shop whose tickets salectl sells: shop.py ADDRESS DATABASE

SALE is the URL of the sale, SALE_TOKEN its token. PAYMENTS is the URL of a payment service with
the API and the signatures of Stripe, PAYMENTS_KEY its token, WEBHOOK_SECRET the signatures' key."""
import calendar, collections, contextlib, hashlib, hmac, http.client, http.server, json, os, random, re, sqlite3, sys, threading, time
import urllib.error, urllib.parse, urllib.request

address, file = sys.argv[1:]
env, later = os.environ, ("none_now", "not_open", "paused")  # outcomes after which a buyer may order again
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
locks = collections.defaultdict(threading.Lock)  # one per order


def db(sql, *values):
    """Runs a statement and returns its rows. What it has written survives a crash."""
    with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(sql, values).fetchall()


def repeat(url, token, data, headers, decided):
    """Repeats a request until its answer decides, for days if necessary: it takes effect once."""
    request, pause = urllib.request.Request(url, data, headers), 0.1
    if token in env:
        request.add_header("Authorization", "Bearer " + env[token])
    while True:
        try:
            try:
                answer = direct.open(request, timeout=6)  # salectl answers within 5 s
            except urllib.error.HTTPError as error:
                answer = error
            status, document, wait = answer.status, json.load(answer), float(answer.headers.get("Retry-After", 0))
        except (OSError, http.client.HTTPException, ValueError):
            status, document, wait = 0, {}, 0  # no answer, or none in JSON
        if decided(status, document):
            return document
        print("undecided:", url, status, document.get("detail"), flush=True)
        time.sleep(max(wait, pause) * random.uniform(1, 1.5))
        pause = min(2 * pause, 30)


def sale(path, body, **headers):
    """Sends a request to salectl. An answer without an outcome, such as to a wrong token, decides nothing."""
    return repeat(env["SALE"] + path, "SALE_TOKEN", json.dumps(body).encode(), {"Content-Type": "application/json", **headers},
                  lambda status, document: status not in (0, 429, 503) and "outcome" in document)


def pay(path, key, form):
    """Sends a request to the payment service."""
    data = urllib.parse.urlencode(form).encode()
    return repeat(env["PAYMENTS"] + path, "PAYMENTS_KEY", data, {"Idempotency-Key": key}, lambda status, document: status == 200)


def advance(order):
    """Makes all steps that an order needs now. Each is stored, and is repeated after a crash."""
    with locks[order]:
        (o,) = db("SELECT * FROM orders WHERE id = ?", order)
        if not o["outcome"]:
            claim = sale("/claims", {"user": o["user"], "quantity": 1}, **{"Idempotency-Key": order})
            db("UPDATE orders SET outcome = ?, claim = ?, until = ?, detail = ? WHERE id = ?",
               claim["outcome"], claim.get("claim"), claim.get("heldUntil"), claim.get("detail"), order)
            (o,) = db("SELECT * FROM orders WHERE id = ?", order)
        if o["outcome"] == "held" and not o["url"]:
            checkout = pay("/v1/checkout/sessions", "checkout-" + order, {
                "mode": "payment", "client_reference_id": order, "success_url": f"http://{address}/orders/{order}",
                "line_items[0][price]": "ticket", "line_items[0][quantity]": 1})
            db("UPDATE orders SET url = ? WHERE id = ?", checkout["url"], order)
        for p in db("SELECT * FROM payments WHERE buys = ? AND outcome IS NULL", order):
            claim = sale(f"/claims/{o['claim']}/confirm", {"payment": p["id"]})
            db("UPDATE payments SET outcome = ?, units = ? WHERE id = ?", claim["outcome"], json.dumps(claim.get("units")), p["id"])
        for p in db("SELECT * FROM payments WHERE buys = ? AND outcome <> 'sold' AND refund IS NULL", order):  # bought nothing
            refund = pay("/v1/refunds", "refund-" + p["id"], {"payment_intent": p["id"]})
            db("UPDATE payments SET refund = ? WHERE id = ?", refund["id"], p["id"])
        for p in db("SELECT * FROM payments WHERE buys = ? AND refund IS NOT NULL AND returned IS NULL", order):
            recorded = sale(f"/claims/{o['claim']}/return", {"payment": p["id"], "who": "shop", "reason": p["refund"]})
            db("UPDATE payments SET returned = ? WHERE id = ?", recorded["outcome"], p["id"])


def begin(order):
    thread = threading.Thread(target=advance, args=(order,), daemon=True)
    thread.start()
    return thread


def state(o):
    """Returns what the buyer reads of an order. It is final if no payment can change it any more."""
    def shown(state, final, text, **more):
        return {"order": o["id"], "state": state, "final": final, "text": text, **more}
    payments = db("SELECT * FROM payments WHERE buys = ? ORDER BY outcome = 'sold' DESC", o["id"])
    if payments and payments[0]["outcome"] == "sold":
        return shown("sold", True, "You have a ticket.", units=json.loads(payments[0]["units"]))
    if payments:
        back = all(p["refund"] for p in payments)
        return shown("paid back", True, "Too late: your payment is returned.") if back else shown("paid", False, "Your payment is being processed.")
    if not o["outcome"]:
        return shown("reserving", False, "A ticket is being reserved.")
    if o["outcome"] != "held":
        return shown(o["outcome"], o["outcome"] not in later, o["detail"])
    if o["closed"]:
        return shown("not paid", True, "You have not paid in time. Nothing was charged.")
    if calendar.timegm(time.strptime(o["until"][:19], "%Y-%m-%dT%H:%M:%S")) < time.time():
        return shown("overdue", False, "If you have paid, you receive a ticket or your money.")
    return shown("held", False, f"Pay until {o['until']}.", url=o["url"])


def place(id, user):
    """Stores an order before its first request, and waits a moment for the result."""
    db("INSERT OR IGNORE INTO orders (id, user) VALUES (?, ?)", id, user)
    if not db("SELECT 1 FROM orders WHERE id = ? AND user = ?", id, user):
        return 409, {"text": "another user's order"}
    db(f"UPDATE orders SET outcome = NULL WHERE id = ? AND outcome IN {later}", id)
    begin(id).join(5)
    return 200, state(*db("SELECT * FROM orders WHERE id = ?", id))


def signed(header, body):
    """Reports whether a message is signed as Stripe signs, within 5 minutes."""
    fields = [field.partition("=")[::2] for field in header.split(",")]
    t = dict(fields).get("t", "")
    want = hmac.new(env["WEBHOOK_SECRET"].encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
    valid = any([hmac.compare_digest(value.encode(), want.encode()) for name, value in fields if name == "v1"])
    return valid and t.isdecimal() and abs(time.time() - int(t)) <= 300


def notify(header, body):
    """Stores what a message reports. 200 means stored: the confirmation follows, and survives a crash."""
    if not signed(header, body):
        return 400, {"text": "invalid signature"}
    event = json.loads(body)
    checkout = event["data"]["object"]
    id = checkout["client_reference_id"]
    if not db("SELECT 1 FROM orders WHERE id = ?", id):
        return 404, {"text": "no such order"}
    if event["type"] in ("checkout.session.expired", "checkout.session.async_payment_failed"):
        db("UPDATE orders SET closed = 1 WHERE id = ?", id)
    elif event["type"].startswith("checkout.session.") and checkout["payment_status"] == "paid":
        db("INSERT OR IGNORE INTO payments (id, buys) VALUES (?, ?)", checkout["payment_intent"], id)
        begin(id)
    return 200, {"text": "stored"}


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, document = 404, {"text": "not found"}
        try:
            id = re.fullmatch("/orders/([a-z0-9-]{1,64})", self.path)
            if self.command == "POST" and self.path == "/webhook":
                status, document = notify(self.headers.get("Stripe-Signature", ""), body)
            elif self.command == "PUT" and id:
                status, document = place(id[1], json.loads(body)["user"])  # of your shop: the user of the session
            elif self.command == "GET" and id and (found := db("SELECT * FROM orders WHERE id = ?", id[1])):
                status, document = 200, state(*found)
        except (ValueError, KeyError, TypeError):
            status, document = 400, {"text": "invalid body"}
        data = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = answer
    log_message = lambda *_: None


db("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, user TEXT, outcome TEXT, claim TEXT, until TEXT, detail TEXT, url TEXT, closed INT)")
db("CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, buys TEXT, outcome TEXT, units TEXT, refund TEXT, returned TEXT)")
host, _, port = address.rpartition(":")
server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
address = f"{host}:{server.server_port}"
print(f"shop at http://{address}", flush=True)
for (id,) in db("SELECT id FROM orders"):
    begin(id)  # after a crash
server.serve_forever()
