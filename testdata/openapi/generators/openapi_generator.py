"""Sells with the Python client that openapi-generator has generated: BUYERS ADMIN TOKEN"""
import sys
import generated
from generated.exceptions import ApiException

buyers, admin, token = sys.argv[1:]
at = lambda host, **more: generated.ApiClient(generated.Configuration(host=host, **more))
claims = generated.ClaimsApi(at(buyers, access_token=token))
claim = lambda key, quantity: claims.create_claim("paid", generated.ClaimRequest(user="ada", quantity=quantity), idempotency_key=key)

def fails(status, kind, call):
    try:
        got = call()
    except ApiException as e:
        assert e.status == status and isinstance(e.data, kind) and e.data.status == status, (e, e.data)
        return e.data
    raise AssertionError(got)

first = claim("k-1", 2)
assert first.outcome == "held" and len(first.units) == 2, first
assert claim("k-1", 2).claim == first.claim
assert fails(409, generated.ClaimConflictProblem, lambda: claim("k-2", 3)).outcome == "limit_reached"
paid = claims.confirm_claim("paid", first.claim, generated.ConfirmRequest(payment="p-1"))
assert paid.outcome == "sold", paid
assert claims.get_claim("paid", first.claim).units == first.units
sales = generated.SalesApi(at(buyers, access_token=token))
fails(404, generated.NoSuchSaleProblem, lambda: sales.get_sale("none"))
fails(401, generated.UnauthorizedProblem, lambda: generated.ClaimsApi(at(buyers)).get_claim("paid", first.claim))
# What is at the admin address, too, goes where the client was told to.
assert [s.sale for s in generated.SalesApi(at(admin)).list_sales().sales if s.sale == "paid"] == ["paid"]
assert generated.OperatorsApi(at(admin)).get_readiness().ready
