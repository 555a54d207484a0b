// Package api is what goes over the wire between a server of a sale and its
// buyers, and the client that buyers' programs use.
//
// It has the requests and answers of the HTTP API (wire.go), the limits of what may
// be asked (check.go), one table that says what each outcome of a claim means to
// whoever asked (outcome.go), and a Client that sends a claim until it is decided.
// Server, command line, rehearsal, simulation and tests all take theirs from here.
// With Config.Stream the Client sends its requests over one stream to each server: a
// StreamConn (stream.go), with the messages of package streampb.
// It imports nothing else of this module, so that other Go programs can use it by
// itself.
package api

import (
	"net/url"
	"strconv"
)

// SalesPath is where all paths of the API begin. A sale's name follows.
const SalesPath = "/v1/sales/"

// AllSalesPath is where a server lists its sales.
const AllSalesPath = "/v1/sales"

// Where a process tells on its admin address that it runs, and whether it can sell.
const (
	AlivePath = "/healthz"
	ReadyPath = "/readyz"
)

// KeyHeader is the request header that has a claim's key. All requests of one user
// with the same key are one claim, however often it is sent.
const KeyHeader = "Idempotency-Key"

// RequestIDHeader is the header that has a request's id, which the answer has too, and what
// the server logs of the request.
const RequestIDHeader = "X-Request-Id"

// The media types of answers.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
	TypeEvents  = "text/event-stream"
)

// OutcomeType begins the type of a problem document that has an outcome. One that
// has none is of type about:blank.
const OutcomeType = "urn:salectl:outcome:"

func salePath(sale string) string { return SalesPath + url.PathEscape(sale) }

func claimsPath(sale string) string { return salePath(sale) + "/claims" }

// settlePath is what follows the path of a sale's claims.
func settlePath(claim string, how How) string { return "/" + url.PathEscape(claim) + "/" + string(how) }

// claimPath is where one claim is looked up.
func claimPath(sale, claim string) string { return claimsPath(sale) + "/" + url.PathEscape(claim) }

// EventsPath is where all is told that the ledger says of a sale, as it comes.
func EventsPath(sale string) string { return salePath(sale) + "/events" }

// query is a page as the query of a URL.
func (p Page) query() string {
	q := make(url.Values)
	if p.Before != "" {
		q.Set("before", p.Before)
	}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// UserPath is where the claims of a user are looked up.
func UserPath(sale, user string) string { return salePath(sale) + "/users/" + url.PathEscape(user) }
