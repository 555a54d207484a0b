"""Has Schemathesis ask for what there is: sales that are served, and claims and users that
the server has told of. Random names alone would end at no_such_sale."""

import atexit
import base64
import collections
import hashlib
import hmac
import json
import os
import pathlib
import random
import time

import schemathesis

SALES = ["paid", "paid", "plain", "soon"]
KEY = base64.b64decode(os.environ["FUZZ_WEBHOOK_SECRETS"].removeprefix("whsec_"))

claims = collections.deque([("paid", "0-0-0", "ada")], maxlen=200)  # sale, claim, user
outcomes = collections.Counter()
notes = pathlib.Path(os.environ["FUZZ_NOTES"])  # a folder: what one run has learned is the next one's
if (notes / "claims.json").exists():
    claims.extend(tuple(one) for one in json.loads((notes / "claims.json").read_text()))
chance = random.Random(1)


def broken(case, where):
    """Whether this part of the request is meant to be wrong."""
    meta = getattr(case, "meta", None)
    if meta is None:
        return False
    return any(part.value == where and info.mode.is_negative for part, info in meta.components.items())


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.path_parameters
    if path and not broken(case, "path") and chance.random() < 0.95:
        sale, claim, user = chance.choice(claims)
        if "sale" in path:
            path["sale"] = sale if chance.random() < 0.8 else chance.choice(SALES)
        if "claim" in path and chance.random() < 0.9:
            path["claim"] = claim
        if "user" in path and chance.random() < 0.8:
            path["user"] = user
        if "shard" in path and chance.random() < 0.9:
            path["shard"] = chance.randrange(4)
    if case.operation.path.endswith("/claims") and case.method == "POST":
        choose(case)
    if case.operation.path.endswith("/webhooks/payment") and not broken(case, "body") and chance.random() < 0.8:
        sign(case)


def choose(case):
    """Makes the request one of a few users, for any sale, most of the time under one of a few keys."""
    if not broken(case, "path"):
        case.path_parameters["sale"] = chance.choice(SALES)
    if isinstance(case.body, dict) and not broken(case, "body") and chance.random() < 0.7:
        case.body["user"] = f"user-{chance.randrange(20)}"
        if chance.random() < 0.8:
            case.body.pop("units", None)
            case.body.pop("adjacent", None)
            case.body["quantity"] = chance.choice([1, 1, 2, 3, 1000])
    if not broken(case, "header") and chance.random() < 0.7:
        case.headers["Idempotency-Key"] = f"key-{chance.randrange(40)}"


def sign(case):
    """Makes the request a message of the payment service, most of the time one that is understood."""
    if chance.random() < 0.8:
        paid = chance.random() < 0.7
        case.body = {
            "type": "payment.paid" if paid else "payment.failed",
            "data": {"claim": chance.choice(claims)[1], "id": f"p-{chance.randrange(1000)}"},
        }
    if broken(case, "header"):
        return
    now, body = str(int(time.time())), json.dumps(case.body, allow_nan=False)
    signature = hmac.new(KEY, f"m.{now}.{body}".encode(), hashlib.sha256).digest()
    case.headers.update({"webhook-id": "m", "webhook-timestamp": now, "webhook-signature": "v1," + base64.b64encode(signature).decode()})


@schemathesis.hook
def after_call(context, case, response):
    told = {}
    try:
        told = json.loads(response.content)
        if response.status_code in (200, 201) and "claim" in told and "user" in told:
            claims.append((told["sale"], told["claim"], told["user"]))
    except (ValueError, TypeError):
        pass
    outcome = told.get("outcome", "") if isinstance(told, dict) else ""
    outcomes[f"{case.operation.definition.raw.get('operationId')} {response.status_code} {outcome}".strip()] += 1


@atexit.register
def write_down():
    (notes / "claims.json").write_text(json.dumps(list(claims)))
    (notes / "answers.txt").write_text("".join(f"{n:8d}  {what}\n" for what, n in sorted(outcomes.items())))


@schemathesis.serializer("application/vnd.salectl.stream+protobuf")
def streamed(context, value):
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode(errors="replace")
