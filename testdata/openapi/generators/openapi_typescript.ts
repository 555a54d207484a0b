// Sells by the types that openapi-typescript has generated: BUYERS ADMIN TOKEN
import assert from "node:assert"
import createClient from "openapi-fetch"
import type { paths } from "./generated.js"

const [buyers, admin, token] = process.argv.slice(2)
const c = createClient<paths>({ baseUrl: buyers, headers: { Authorization: `Bearer ${token}` } })
const claim = (key: string, quantity: number) =>
	c.POST("/v1/sales/{sale}/claims", { params: { path: { sale: "paid" }, header: { "Idempotency-Key": key } }, body: { user: "ada", quantity } })

const first = await claim("k-1", 2)
assert(first.response.status === 201 && first.data?.units.length === 2)
const id: string = first.data.claim
assert((await claim("k-1", 2)).data?.claim === id)
const beyond = await claim("k-2", 3)
assert(beyond.error?.status === 409 && beyond.error.outcome === "limit_reached")
const params = { path: { sale: "paid", claim: id } }
const paid = await c.POST("/v1/sales/{sale}/claims/{claim}/confirm", { params, body: { payment: "p-1" } })
assert(paid.data?.outcome === "sold")
assert.deepEqual((await c.GET("/v1/sales/{sale}/claims/{claim}", { params })).data?.units, first.data.units)
assert((await c.GET("/v1/sales/{sale}", { params: { path: { sale: "none" } } })).error?.status === 404)
assert((await createClient<paths>({ baseUrl: buyers }).GET("/v1/sales/{sale}/claims/{claim}", { params })).error?.status === 401)
assert((await createClient<paths>({ baseUrl: admin }).GET("/readyz")).data?.ready === true)
