"""Sells with the client that openapi-python-client has generated: BUYERS ADMIN TOKEN"""
import sys
from generated import AuthenticatedClient, Client
from generated.api.claims import confirm_claim, create_claim, get_claim
from generated.api.operators import get_readiness
from generated.api.sales import get_sale
from generated.models import AcceptedClaim, Claim, ClaimConflictProblem, ClaimRequest, ConfirmRequest, NoSuchSaleProblem, Readiness, UnauthorizedProblem

buyers, admin, token = sys.argv[1:]
c = AuthenticatedClient(base_url=buyers, token=token)
claim = lambda key, quantity: create_claim.sync_detailed("paid", client=c, idempotency_key=key, body=ClaimRequest(user="ada", quantity=quantity))

first = claim("k-1", 2)
assert first.status_code == 201 and isinstance(first.parsed, AcceptedClaim) and len(first.parsed.units) == 2, first
again = claim("k-1", 2)
assert again.status_code == 200 and again.parsed.claim == first.parsed.claim, again
beyond = claim("k-2", 3).parsed
assert isinstance(beyond, ClaimConflictProblem) and beyond.outcome == "limit_reached" and beyond.status == 409, beyond
paid = confirm_claim.sync("paid", first.parsed.claim, client=c, body=ConfirmRequest(payment="p-1"))
assert isinstance(paid, Claim) and paid.outcome == "sold", paid
found = get_claim.sync("paid", first.parsed.claim, client=c)
assert isinstance(found, Claim) and found.units == first.parsed.units, found
none = get_sale.sync("none", client=c)
assert isinstance(none, NoSuchSaleProblem) and none.status == 404, none
refused = get_claim.sync("paid", first.parsed.claim, client=Client(base_url=buyers))
assert isinstance(refused, UnauthorizedProblem) and refused.status == 401, refused
ready = get_readiness.sync(client=Client(base_url=admin))
assert isinstance(ready, Readiness) and ready.ready, ready
