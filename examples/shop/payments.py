"""A payment service for a shop on one machine: payments.py ADDRESS WEBHOOK

It takes no money. POST /pay/SESSION stands for the page on which a buyer pays, POST /leave/SESSION for
its timeout. It reports both to the URL WEBHOOK, signed as Stripe signs, until they are accepted."""
import hashlib, hmac, http.server, itertools, json, os, re, sys, time, urllib.parse, urllib.request

address, webhook = sys.argv[1:]
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
numbers, answers, sessions = itertools.count(1), {}, {}  # answers by Idempotency-Key, orders by session


def report(kind, session, **more):
    body = json.dumps({"type": "checkout.session." + kind, "data": {"object": {"client_reference_id": sessions[session], **more}}}).encode()
    while True:
        t = str(int(time.time()))
        signature = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
        try:
            direct.open(urllib.request.Request(webhook, body, {"Stripe-Signature": f"t={t},v1={signature}"}), timeout=6).close()
            return
        except OSError as error:
            print("not accepted:", error, flush=True)
            time.sleep(1)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        key, visit = self.headers.get("Idempotency-Key"), re.fullmatch("/(pay|leave)/(.*)", self.path)
        if visit and visit[2] in sessions:
            report(*{"pay": ("completed", visit[2]), "leave": ("expired", visit[2])}[visit[1]],
                   payment_status="paid" if visit[1] == "pay" else "unpaid", payment_intent="pi_" + visit[2])
            answer = {"result": "reported"}
        elif key in answers:
            answer = answers[key]
        elif self.path == "/v1/checkout/sessions":
            session = f"cs_{next(numbers)}"
            sessions[session] = form["client_reference_id"]
            answer = answers[key] = {"id": session, "url": f"http://{address}/pay/{session}"}
        else:
            answer = answers[key] = {"id": f"re_{next(numbers)}", "payment_intent": form["payment_intent"]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode() + b"\n")

    log_message = lambda *_: None


print(f"payments at http://{address}", flush=True)
host, _, port = address.rpartition(":")
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
