// Claims a ticket, confirms its payment and looks the claim up: buy.mts SERVER USER ORDER

type Document = {
  outcome?: string, detail?: string // of every answer; of every refusal
  claim?: string, units?: number[], heldUntil?: string, payment?: string
}

const [server, user, order] = process.argv.slice(2)
const sale = `${server}/v1/sales/concert`

function stop(why: string): never {
  console.error(why)
  process.exit(1)
}

// Repeats a request until the server has decided it, and returns the document.
async function call(method: string, path: string, body?: object, key?: string): Promise<Document> {
  const headers: Record<string, string> = { "Content-Type": "application/json" }
  if (key) headers["Idempotency-Key"] = key
  if (process.env.SALE_TOKEN) headers["Authorization"] = `Bearer ${process.env.SALE_TOKEN}`
  const deadline = Date.now() + 60_000
  for (let wait = 100; Date.now() < deadline; wait = Math.min(2 * wait, 2000)) {
    let retryAfter = 0
    try {
      const signal = AbortSignal.timeout(6000) // the server answers within 5 s
      const answer = await fetch(sale + path, { method, headers, signal, body: body && JSON.stringify(body) })
      const document: Document = await answer.json()
      if (answer.status !== 429 && answer.status !== 503) {
        if (!document.outcome) stop(`${answer.status} ${document.detail}`) // such as 401: a wrong token
        return document
      }
      retryAfter = 1000 * Number(answer.headers.get("Retry-After"))
    } catch {
      // No answer, or not one of salectl.
    }
    await new Promise(done => setTimeout(done, Math.max(retryAfter, wait) * (1 + Math.random() / 2)))
  }
  stop(`order ${order} is undecided: repeat it with the same key`)
}

// Stands for your payment service. A repeated order has the same reference.
async function pay(claim: Document): Promise<string> {
  return `payment-of-${order}`
}

let claim = await call("POST", "/claims", { user, quantity: 1 }, order)
if (claim.outcome === "held") {
  console.log(`held: ${claim.claim} until ${claim.heldUntil}`)
  const payment = await pay(claim)
  claim = await call("POST", `/claims/${claim.claim}/confirm`, { payment })
  if (claim.outcome !== "sold") stop(`${claim.outcome}: pay ${payment} back`) // too late, or cancelled meanwhile
}
if (claim.outcome !== "sold") stop(`${claim.outcome}: ${claim.detail}`) // such as sold_out or limit_reached
const found = await call("GET", `/claims/${claim.claim}`)
console.log(`${found.outcome}: ${found.claim} has units [${found.units}], paid by ${found.payment}`)
