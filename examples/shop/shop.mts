// A shop whose tickets salectl sells: shop.mts ADDRESS DATABASE
//
// SALE is the URL of the sale, SALE_TOKEN its token. PAYMENTS is the URL of a payment service with
// the API and the signatures of Stripe, PAYMENTS_KEY its token, WEBHOOK_SECRET the signatures' key.
import { createHmac, timingSafeEqual } from "node:crypto"
import { createServer } from "node:http"
import { DatabaseSync } from "node:sqlite"

type Row = Record<string, any>
type Answer = [status: number, document: object]

let [address, file] = process.argv.slice(2)
const env = process.env
const later = ["none_now", "not_open", "paused"] // outcomes after which a buyer may order again
const database = new DatabaseSync(file)
const sleep = (ms: number) => new Promise(done => setTimeout(done, ms))

// Runs a statement and returns its rows. What it has written survives a crash.
const db = (sql: string, ...values: any[]): Row[] => database.prepare(sql).all(...values)
const find = (id: string): Row | undefined => db("SELECT * FROM orders WHERE id = ?", id)[0]

// Repeats a request until its answer decides, for days if necessary: it takes effect once.
async function repeat(url: string, token: string | undefined, body: string | URLSearchParams, headers: Record<string, string>,
  decided: (status: number, document: Row) => boolean): Promise<Row> {
  if (token) headers.Authorization = `Bearer ${token}`
  for (let pause = 100; ; pause = Math.min(2 * pause, 30_000)) {
    let status = 0, document: Row = {}, wait = 0
    try {
      const answer = await fetch(url, { method: "POST", body, headers, signal: AbortSignal.timeout(6000) }) // salectl answers within 5 s
      document = await answer.json() as Row
      status = answer.status
      wait = 1000 * Number(answer.headers.get("Retry-After"))
    } catch {
      // No answer, or none in JSON.
    }
    if (decided(status, document)) return document
    console.log("undecided:", url, status, document.detail)
    await sleep(Math.max(wait, pause) * (1 + Math.random() / 2))
  }
}

// Sends a request to salectl. An answer without an outcome, such as to a wrong token, decides nothing.
const sale = (path: string, body: object, headers: Record<string, string> = {}) =>
  repeat(env.SALE + path, env.SALE_TOKEN, JSON.stringify(body), { "Content-Type": "application/json", ...headers },
    (status, document) => ![0, 429, 503].includes(status) && "outcome" in document)

// Sends a request to the payment service.
const pay = (path: string, key: string, form: Record<string, string>) =>
  repeat(env.PAYMENTS + path, env.PAYMENTS_KEY, new URLSearchParams(form), { "Idempotency-Key": key }, status => status === 200)

// Makes all steps that an order needs now. Each is stored, and is repeated after a crash.
async function advance(id: string) {
  let o = find(id)!
  if (!o.outcome) {
    const claim = await sale("/claims", { user: o.user, quantity: 1 }, { "Idempotency-Key": id })
    db("UPDATE orders SET outcome = ?, claim = ?, until = ?, detail = ? WHERE id = ?",
      claim.outcome, claim.claim ?? null, claim.heldUntil ?? null, claim.detail ?? null, id)
    o = find(id)!
  }
  if (o.outcome === "held" && !o.url) {
    const checkout = await pay("/v1/checkout/sessions", "checkout-" + id, {
      "mode": "payment", "client_reference_id": id, "success_url": `http://${address}/orders/${id}`,
      "line_items[0][price]": "ticket", "line_items[0][quantity]": "1" })
    db("UPDATE orders SET url = ? WHERE id = ?", checkout.url, id)
  }
  for (const p of db("SELECT * FROM payments WHERE buys = ? AND outcome IS NULL", id)) {
    const claim = await sale(`/claims/${o.claim}/confirm`, { payment: p.id })
    db("UPDATE payments SET outcome = ?, units = ? WHERE id = ?", claim.outcome, JSON.stringify(claim.units ?? []), p.id)
  }
  for (const p of db("SELECT * FROM payments WHERE buys = ? AND outcome <> 'sold' AND refund IS NULL", id)) { // bought nothing
    const refund = await pay("/v1/refunds", "refund-" + p.id, { payment_intent: p.id })
    db("UPDATE payments SET refund = ? WHERE id = ?", refund.id, p.id)
  }
  for (const p of db("SELECT * FROM payments WHERE buys = ? AND refund IS NOT NULL AND returned IS NULL", id)) {
    const recorded = await sale(`/claims/${o.claim}/return`, { payment: p.id, who: "shop", reason: p.refund })
    db("UPDATE payments SET returned = ? WHERE id = ?", recorded.outcome, p.id)
  }
}

// Runs advance after all earlier runs for the order.
const runs = new Map<string, Promise<void>>()
function begin(id: string): Promise<void> {
  const run = (runs.get(id) ?? Promise.resolve()).then(() => advance(id)).catch(console.error)
  runs.set(id, run)
  return run
}

// Returns what the buyer reads of an order. It is final if no payment can change it any more.
function state(o: Row): object {
  const shown = (state: string, final: boolean, text: string, more = {}) => ({ order: o.id, state, final, text, ...more })
  const payments = db("SELECT * FROM payments WHERE buys = ? ORDER BY outcome = 'sold' DESC", o.id)
  if (payments[0]?.outcome === "sold") return shown("sold", true, "You have a ticket.", { units: JSON.parse(payments[0].units) })
  if (payments.length && payments.every(p => p.refund)) return shown("paid back", true, "Too late: your payment is returned.")
  if (payments.length) return shown("paid", false, "Your payment is being processed.")
  if (!o.outcome) return shown("reserving", false, "A ticket is being reserved.")
  if (o.outcome !== "held") return shown(o.outcome, !later.includes(o.outcome), o.detail)
  if (o.closed) return shown("not paid", true, "You have not paid in time. Nothing was charged.")
  if (Date.parse(o.until) < Date.now()) return shown("overdue", false, "If you have paid, you receive a ticket or your money.")
  return shown("held", false, `Pay until ${o.until}.`, { url: o.url })
}

// Stores an order before its first request, and waits a moment for the result.
async function place(id: string, user: string): Promise<Answer> {
  db("INSERT OR IGNORE INTO orders (id, user) VALUES (?, ?)", id, user)
  if (find(id)!.user !== user) return [409, { text: "another user's order" }]
  if (later.includes(find(id)!.outcome)) db("UPDATE orders SET outcome = NULL WHERE id = ?", id)
  await Promise.race([begin(id), sleep(5000)])
  return [200, state(find(id)!)]
}

// Reports whether a message is signed as Stripe signs, within 5 minutes.
function signed(header: string, body: Buffer): boolean {
  const fields = header.split(",").map(field => field.split("="))
  const t = fields.find(([name]) => name === "t")?.[1] ?? ""
  const want = createHmac("sha256", env.WEBHOOK_SECRET!).update(`${t}.`).update(body).digest()
  const valid = fields.filter(([name, value]) => name === "v1" && /^[0-9a-f]{64}$/.test(value))
    .map(([, value]) => timingSafeEqual(Buffer.from(value, "hex"), want)).includes(true)
  return valid && /^[0-9]+$/.test(t) && Math.abs(Date.now() / 1000 - Number(t)) <= 300
}

// Stores what a message reports. 200 means stored: the confirmation follows, and survives a crash.
function notify(header: string, body: Buffer): Answer {
  if (!signed(header, body)) return [400, { text: "invalid signature" }]
  const event = JSON.parse(body.toString())
  const checkout = event.data.object, id = checkout.client_reference_id
  if (!find(id)) return [404, { text: "no such order" }]
  if (["checkout.session.expired", "checkout.session.async_payment_failed"].includes(event.type)) {
    db("UPDATE orders SET closed = 1 WHERE id = ?", id)
  } else if (event.type.startsWith("checkout.session.") && checkout.payment_status === "paid") {
    db("INSERT OR IGNORE INTO payments (id, buys) VALUES (?, ?)", checkout.payment_intent, id)
    void begin(id)
  }
  return [200, { text: "stored" }]
}

const server = createServer(async (request, response) => {
  let [status, document]: Answer = [404, { text: "not found" }]
  try {
    const body = Buffer.concat(await request.toArray())
    const id = /^\/orders\/([a-z0-9-]{1,64})$/.exec(request.url!)?.[1]
    if (request.method === "POST" && request.url === "/webhook") {
      [status, document] = notify(String(request.headers["stripe-signature"]), body)
    } else if (request.method === "PUT" && id) {
      [status, document] = await place(id, JSON.parse(body.toString()).user) // of your shop: the user of the session
    } else if (request.method === "GET" && id && find(id)) {
      [status, document] = [200, state(find(id)!)]
    }
  } catch {
    [status, document] = [400, { text: "invalid body" }]
  }
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(document) + "\n")
})

db("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, user TEXT, outcome TEXT, claim TEXT, until TEXT, detail TEXT, url TEXT, closed INT)")
db("CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, buys TEXT, outcome TEXT, units TEXT, refund TEXT, returned TEXT)")
const { hostname, port } = new URL("http://" + address)
server.listen(Number(port), hostname, () => {
  address = `${hostname}:${(server.address() as { port: number }).port}`
  console.log(`shop at http://${address}`)
  for (const { id } of db("SELECT id FROM orders")) void begin(id) // after a crash
})
